// SPDX-License-Identifier: Apache-2.0

package floor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A released replica is in no group, so that for a moment a group of one has no replica, and one that is counted has one less.
func TestAReleaseLeavesTheFloorProtected(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int32
		mix      func(*v1alpha1.CapacityMix)
	}{
		"the only replica":          {1, func(*v1alpha1.CapacityMix) {}},
		"replicas that are counted": {3, func(m *v1alpha1.CapacityMix) { m.Spec.Group = v1alpha1.PodGroupingTop }},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, n := cluster.Nodes(onDemand, 2), int(tc.replicas)
			w := testenv.New(t, nodes...)
			mix := builders.CapacityMix("web", 50, tc.replicas, builders.ProtectFloor, surge, tc.mix)
			w.Create(mix, builders.Deployment("web", tc.replicas))
			w.Controller(testenv.Impatient)
			w.WaitExact("web", split.New(50, tc.replicas), n, testenv.SettleTimeout)
			waitFloors(w, n)
			waitLabelled(w, "web", n)
			w.WaitReady("web", n)
			drained := w.Live("web")[0].Spec.NodeName
			recording := w.Record("web")
			end := evictor(w, "web")
			mark(w, drained)
			w.Eventually("the node is empty", func() (bool, string) {
				on := testenv.NodesOf(w.Live("web"))
				return on[drained] == 0, fmt.Sprint(on)
			})
			end()
			ready, _ := recording.FewestReady(capacity.OnDemand, n)
			assert.GreaterOrEqual(t, ready, n, "fewest Ready replicas on on-demand at any event")
		})
	}
}

// The disruption controller does not count the pods of a budget again when one of them loses its label.
func TestAPodOutsideOfTheGroupDoesNotCount(t *testing.T) {
	const floor = 2
	w := testenv.New(t, append(cluster.Nodes(spot, 2), cluster.Nodes(onDemand, 2)...)...)
	w.Controller(testenv.Impatient)
	w.Create(builders.CapacityMix("web", 50, floor, builders.ProtectFloor), builders.Deployment("web", floor))
	w.WaitExact("web", split.New(50, floor), floor, testenv.SettleTimeout)
	waitFloors(w, floor)
	waitLabelled(w, "web", floor)
	w.WaitReady("web", floor)
	expects := func(n int32) {
		w.Eventually(fmt.Sprintf("the budget counts %d pods", n), func() (bool, string) {
			s := own(w).Status
			return s.CurrentHealthy == n && s.DisruptionsAllowed == max(0, n-floor), fmt.Sprint(s.CurrentHealthy, s.DisruptionsAllowed)
		})
	}
	expects(floor)

	orphan := &w.Live("web")[0]
	testenv.Patch(w, orphan, func(p *corev1.Pod) { // its ReplicaSet replaces it, and no mix governs it
		p.Labels = map[string]string{v1alpha1.FloorLabel: p.Labels[v1alpha1.FloorLabel]}
	})
	w.Eventually("the orphan has no label", func() (bool, string) {
		p := testenv.Read(w, orphan.Name, &corev1.Pod{})
		return p.Labels[v1alpha1.FloorLabel] == "", fmt.Sprint(p.Labels)
	})
	expects(floor)

	label := own(w).Labels[v1alpha1.FloorLabel]
	other := builders.Pod("other", "other", func(p *corev1.PodTemplateSpec) { p.Labels[v1alpha1.FloorLabel] = label })
	w.Create(other)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, false, v1alpha1.ReasonLabelInUse)
	require.NoError(t, w.Client.Delete(w.Ctx, other))
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)
	assert.Equal(t, policyv1.AlwaysAllow, *own(w).Spec.UnhealthyPodEvictionPolicy)
}
