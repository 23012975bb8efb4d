// SPDX-License-Identifier: Apache-2.0

package preemption_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// victimsTerminateFor is how long a nominated pod has to wait.
const victimsTerminateFor = 6 * time.Second

func TestASiblingBurstDoesNotTakeTheSlotOfANominatedPod(t *testing.T) {
	w := testenv.New(t, cluster.NodeSpec{Name: "on-demand-0", CapacityType: onDemand, CPU: "1"}, cluster.NodeSpec{Name: "spot-0", CapacityType: spot})
	high := highPriority(w)
	w.Fill("on-demand-0", 1, builders.TerminatesFor(victimsTerminateFor))
	seen := w.RecordAll()
	w.Create(builders.CapacityMix("web", 50, 0, spotOrWait, onDemandOrWait)) // slots 1, 3, 5 are spot
	web := builders.Deployment("web", 1, oneCPU, builders.PriorityClass(high))
	w.Create(web)
	nominated := waitNominated(w, seen, "web")
	w.Scale(web, 6)

	// The burst is placed while the victim still terminates.
	spotSiblings := seen.WaitBound("web", 3, victimsTerminateFor)
	for _, s := range spotSiblings {
		slot, _ := policy.ClaimedSlot(s.Pod)
		assert.Contains(t, []int{1, 3, 5}, slot, "slots of the siblings on spot")
		assert.Equal(t, "spot-0", s.Pod.Spec.NodeName)
	}
	require.NotContains(t, slices.Collect(maps.Keys(spotSiblings)), nominated)
	require.Equal(t, 1, len(seen.Deleting("fill-on-demand-0")), "victims")

	bound := seen.WaitBound("web", 4, testenv.SettleTimeout)
	require.Contains(t, slices.Collect(maps.Keys(bound)), nominated, "the room that was made is for the nominated pod, not for its siblings on slots 2 and 4")
	slot, _ := policy.ClaimedSlot(bound[nominated].Pod)
	assert.Equal(t, 0, slot, "the slot of the nominated pod")
	assert.Equal(t, "on-demand-0", bound[nominated].Pod.Spec.NodeName)
	w.Always(stays, "the other on-demand slots wait", func() (bool, string) {
		s := w.Split("web")
		return s.Spot == 3 && s.OnDemand == 1 && s.Pending == 2, s.String()
	})
}

// A pod that waits moves down to a lower slot that is free; one that is promised
// a node of its type does not.
func TestANominatedPodKeepsItsSlotWhenALowerOneBecomesFree(t *testing.T) {
	w := testenv.New(t,
		cluster.NodeSpec{Name: "on-demand-0", CapacityType: onDemand, CPU: "1"},
		cluster.NodeSpec{Name: "on-demand-1", CapacityType: onDemand, CPU: "1"},
		cluster.NodeSpec{Name: "spot-0", CapacityType: spot},
	)
	high := highPriority(w)
	w.Fill("on-demand-1", 1, builders.TerminatesFor(victimsTerminateFor))
	seen := w.RecordAll()
	w.Create(builders.CapacityMix("web", 50, 0, spotOrWait, onDemandOrWait)) // of slots 0, 1, 2 only 1 is spot
	w.Create(builders.Deployment("web", 3, oneCPU, builders.PriorityClass(high)))
	nominated := waitNominated(w, seen, "web")
	first := seen.WaitBound("web", 2, victimsTerminateFor)
	require.NotContains(t, slices.Collect(maps.Keys(first)), nominated)
	for _, s := range first {
		if s.Pod.Spec.NodeName == "spot-0" {
			w.Delete(s.Pod)
		}
	}

	bound := seen.WaitBound("web", 4, testenv.SettleTimeout) // the replacement and the nominated pod
	slot, _ := policy.ClaimedSlot(bound[nominated].Pod)
	assert.Equal(t, 2, slot, "the slot of the nominated pod")
	assert.Equal(t, "on-demand-1", bound[nominated].Pod.Spec.NodeName)
	live := w.WaitBound("web", 3)
	assert.Equal(t, []int{0, 1, 2}, slices.Sorted(maps.Keys(w.Slots(live))))
	assert.Equal(t, 1, w.SplitOf(live).Spot)
}

// waitNominated waits until one pod of an app is nominated, and returns its name.
func waitNominated(w *testenv.World, seen *testenv.Recording, app string) string {
	w.T.Helper()
	w.Eventually("a pod is nominated", func() (bool, string) { return len(seen.Nominated(app)) > 0, "none" })
	nominated := slices.Collect(maps.Keys(seen.Nominated(app)))
	require.Len(w.T, nominated, 1)
	return nominated[0]
}
