// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	testenv.WaitFor(w, "cart", "it is available", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.ObservedGeneration == r.Generation && r.Status.Phase == v1alpha1.PhaseAvailable
	})
	promised := split.New(24, 2)
	for function, want := range map[string]struct {
		workload       string
		spot, onDemand int
	}{"add": {"cart-fn-0", 2, 8}, "remove": {"cart-fn-1", 0, 3}} {
		found := w.Mix(want.workload)
		require.Equal(t, promised, split.New(found.Spec.SpotPercent, found.Spec.MinOnDemand), "the mix of %s", function)
		pods := w.Pods(client.MatchingLabels{v1alpha1.OwnerLabel: "cart", v1alpha1.FunctionLabel: render.Hash(function)})
		w.RequireExactPods(pods, promised)
		assert.Equal(t, split.Count{Spot: want.spot, OnDemand: want.onDemand}, w.SplitOf(pods).Count, function)
		for _, p := range pods {
			assert.Equal(t, "cart", p.Labels[v1alpha1.ResourceLimitLabel])
			assert.Equal(t, "200m", p.Spec.Containers[0].Resources.Requests.Cpu().String(), "what resourceAllocation says")
		}
		testenv.Read(w, want.workload, &corev1.Service{})
	}
	assert.Equal(t, "128Mi", testenv.Read(w, "cart", &v1alpha1.ResourceLimit{}).Spec.Memory.String())
}
