// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/testenv"
)

// recordSample is the one sample that the controller makes the workloads of.
const recordSample = "record.yaml"

func TestTheSampleOfARecordIsDeployedAsItsCommentsSay(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.ApplyFiles("manifests/rbac/records", "manifests/templates")
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Controllers = []string{"*", controller.ControllerRecords} })
	apply(w, recordSample)
	w.Eventually("the record is available", func() (bool, string) {
		rec := &v1alpha1.DeploymentRecord{}
		require.NoError(t, w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: "cart"}, rec))
		b, _ := json.Marshal(rec.Status)
		return rec.Status.ObservedGeneration == rec.Generation && rec.Status.Phase == v1alpha1.PhaseAvailable, string(b)
	})
	promised := split.New(24, 2)
	for function, want := range map[string]struct {
		workload       string
		spot, onDemand int
	}{"add": {"cart-fn-0", 2, 8}, "remove": {"cart-fn-1", 0, 3}} {
		found := w.Mix(want.workload)
		require.Equal(t, promised, split.New(found.Spec.SpotPercent, found.Spec.MinOnDemand), "the mix of %s", function)
		list, err := w.Kube.CoreV1().Pods(w.Namespace).List(w.Ctx, metav1.ListOptions{
			LabelSelector: labels.Set{v1alpha1.OwnerLabel: "cart", v1alpha1.FunctionLabel: render.Hash(function)}.String(),
		})
		require.NoError(t, err)
		w.RequireExactPods(list.Items, promised)
		assert.Equal(t, split.Count{Spot: want.spot, OnDemand: want.onDemand}, w.SplitOf(list.Items).Count, function)
		for i := range list.Items {
			p := &list.Items[i]
			assert.Equal(t, "cart", p.Labels[v1alpha1.ResourceLimitLabel])
			assert.Equal(t, "200m", p.Spec.Containers[0].Resources.Requests.Cpu().String(), "what resourceAllocation says")
		}
		_, err = w.Kube.CoreV1().Services(w.Namespace).Get(w.Ctx, want.workload, metav1.GetOptions{})
		require.NoError(t, err)
	}
	limit := &v1alpha1.ResourceLimit{}
	require.NoError(t, w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: "cart"}, limit))
	assert.Equal(t, "128Mi", limit.Spec.Memory.String())
}
