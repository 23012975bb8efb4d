// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/clitest"
)

func TestDoctorOnEvictionRequests(t *testing.T) {
	responders := []corev1.EvictionResponder{{Name: v1alpha1.EvictionResponder}}
	for name, tc := range map[string]struct {
		served   bool
		eviction controller.Eviction
		// strategy is that of the mix, named how many of its pods name Berth.
		strategy v1alpha1.RebalanceStrategy
		named    int
		denied   string
		levels   []Level
		message  string
	}{
		"they are not served": {},
		"they are not served, and made": {
			eviction: controller.EvictionRequest, levels: []Level{Warn}, message: "the API server serves no EvictionRequests",
		},
		"no mix releases": {served: true, levels: []Level{OK, OK}, message: "served; pods that Berth releases on request: 0"},
		"all name Berth": {
			served: true, strategy: v1alpha1.RebalanceStrategySurge, named: 3, levels: []Level{OK, OK},
			message: "served; pods that Berth releases on request: 3",
		},
		"one does not": {
			served: true, strategy: v1alpha1.RebalanceStrategySurge, named: 2, levels: []Level{OK, Warn},
			message: "a request evicts 1 pod before the replacement is there, although rebalance.strategy releases them: " +
				"they do not name Berth in spec.evictionResponders: shop/web-",
		},
		"the controller may not answer": {
			served: true, denied: "patch", levels: []Level{Warn, OK}, message: "served",
		},
		"the controller may not request": {
			served: true, eviction: controller.EvictionRequest, denied: "create", levels: []Level{OK, Warn, OK}, message: "served",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tc.served {
				kube.Resources = []*metav1.APIResourceList{{
					GroupVersion: lifecyclev1alpha1.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "evictionrequests"}},
				}}
			}
			kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authv1.SubjectAccessReview)
				assert.Equal(t, lifecyclev1alpha1.GroupName, review.Spec.ResourceAttributes.Group)
				review.Status.Allowed = review.Spec.ResourceAttributes.Verb != tc.denied
				return true, review, nil
			})
			s := &clitest.Shop{}
			s.Node("o1", "on-demand")
			s.Mix("web", 50, 0, func(m *v1alpha1.CapacityMix) { m.Spec.Rebalance = &v1alpha1.RebalanceSpec{Strategy: tc.strategy} })
			for i, pod := range s.Deployment("web", nil, "o1", "o1", "o1") {
				pod.Labels["pod-template-hash"] = "1"
				if i < tc.named {
					pod.Spec.EvictionResponders = responders
				}
			}
			cluster := s.Cluster(t)
			if tc.eviction != "" {
				cluster.Controller.Mix.Rebalance.Eviction = tc.eviction
			}
			r := &Report{}
			(&patient{kube: kube, systemNamespace: "berth-system", settings: cluster.Settings, cluster: cluster}).evictionRequests(t.Context(), r)
			var levels []Level
			for _, f := range r.Findings {
				levels = append(levels, f.Level)
			}
			assert.Equal(t, tc.levels, levels)
			if len(levels) > 0 {
				assert.Contains(t, r.Findings[len(levels)-1].Message, tc.message)
			}
		})
	}
}
