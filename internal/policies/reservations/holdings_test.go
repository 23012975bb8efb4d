// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestOlderEventsAreIgnored(t *testing.T) {
	object := reservation("r", replicas(1))
	object.ResourceVersion = "9"
	l := leader(object)
	l.hold("r", began, "n1")
	l.write(began) // version 10
	l.Set(object)
	assert.Equal(t, "10", l.named("r").r.Object.ResourceVersion, "9 is older, although it sorts behind 10 as a text")
	assert.Equal(t, []string{"n1"}, l.freeOn("r"))
}

// The response to a write can be handled after the event of a later change.
func TestAnOlderResponseIsIgnored(t *testing.T) {
	l := leader(reservation("r", replicas(1)))
	updates := l.Updates(began)
	require.Len(t, updates, 1)
	written := next(updates[0].Object)
	l.Set(next(written, replicas(5)))
	l.Written(written)
	assert.Equal(t, 5, l.named("r").r.Replicas)
	assert.Equal(t, "3", l.Updates(began)[0].Object.ResourceVersion, "an older one would be a conflict each time")
}

// The status of an event that this process did not write is of a scheduler that led before.
func TestALeaderAdoptsWhatTheOneBeforeWroteLate(t *testing.T) {
	object := reservation("r", replicas(2))
	l := leader(object)
	l.hold("r", began, "n1")
	require.True(t, l.Take(pod("a"), l.named("r").r, "n1", began))
	late := next(object)
	late.Status.Holds = []v1alpha1.Hold{{NodeName: "n2"}, {NodeName: "n1"}}
	freed := l.Freed(began)
	l.Set(late)
	assert.Equal(t, []string{"n2"}, l.freeOn("r"))
	assert.Greater(t, l.Freed(began), freed)
	l.Return(pod("a"))
	assert.Equal(t, []string{"n2", "n1"}, l.freeOn("r"), "what is being bound is taken over")
}

func TestAProcessThatDoesNotLeadReadsTheStatus(t *testing.T) {
	object := reservation("r", replicas(2))
	l := NewHoldings()
	l.Set(object)
	assert.True(t, l.View(began).Empty())
	held := next(object)
	held.Status.Holds = []v1alpha1.Hold{{NodeName: "n1"}, {NodeName: "n2", PodName: "a", PodUID: "a"}}
	l.SetPod(bound(pod("b"), "r", "n1", began))
	freed := l.Freed(began)
	l.Set(held)
	assert.Greater(t, l.Freed(began), freed)
	assert.Empty(t, l.freeOn("r"), "a pod that is known uses what the status has as free")
	l.DeletePod("b")
	assert.Empty(t, l.freeOn("r"), "it is used for good")
}

// Otherwise a restart would have pods use what is held for those that come.
func TestPodsOfAnOlderReservationUseNothingOfOneWithTheSameName(t *testing.T) {
	object := reservation("r", replicas(1))
	object.CreationTimestamp = metav1.NewTime(at(time.Minute))
	object.Status.Holds = []v1alpha1.Hold{{NodeName: "n1"}}
	old, young := bound(pod("old"), "r", "n1", at(time.Minute-time.Second)), bound(pod("young"), "r", "n1", at(time.Minute))
	l := NewHoldings()
	l.SetPod(old)
	l.Set(object)
	l.SetPod(old)
	assert.Equal(t, []string{"n1"}, l.freeOn("r"))
	l.SetPod(young)
	assert.Empty(t, l.freeOn("r"))
}

// The scheduler was killed after it had bound the pod and before it wrote what it held.
func TestAPodUsesCapacityThatNoStatusHas(t *testing.T) {
	l := leader(reservation("r", replicas(1)))
	l.SetPod(bound(pod("a"), "r", "n1", began))
	assert.Nil(t, l.Next(began), "it would be used twice")
	assert.Equal(t, "Used", l.Updates(began)[0].Reason)
	l.SetPod(bound(pod("b"), "r", "n1", began))
	assert.Len(t, l.named("r").holds, 1, "but no more than the replicas")
}

func TestALaterReservationOfTheSameNameHoldsNothingOfTheFormer(t *testing.T) {
	object := reservation("r")
	l := leader(object)
	l.hold("r", began, "n1")
	former := l.named("r").r
	freed := l.Freed(began)
	again := next(object)
	again.UID = "again"
	l.Set(again) // the deletion was missed
	assert.True(t, l.View(began).Empty())
	assert.Greater(t, l.Freed(began), freed)
	l.Hold(former, "n1", began)
	l.NotHeld(former, "why", began)
	assert.False(t, l.Take(pod("a"), former, "n1", began))
	written := former.Object.DeepCopy()
	written.ResourceVersion = "9"
	l.Written(written)
	assert.True(t, l.View(began).Empty())
	assert.Equal(t, again, l.named("r").r.Object)
	assert.Len(t, l.of["shop"], 1)
}

// Others may have used it since.
func TestWhatAnExpiredReservationHeldIsNotHeldAgain(t *testing.T) {
	object := reservation("r", replicas(1), expires(60))
	l := leader(object)
	l.hold("r", began, "n1")
	l.write(began)
	freed := l.Freed(at(time.Minute - 1))
	assert.Greater(t, l.Freed(at(time.Minute)), freed)
	l.Set(next(l.write(at(time.Minute))["r"], expires(600)))
	assert.True(t, l.View(at(time.Minute)).Empty())
	require.NotNil(t, l.Next(at(time.Minute)), "a node is looked for again")
	l.hold("r", at(time.Minute), "n2")
	assert.Equal(t, "Reserved", condition(l.write(at(time.Minute))["r"]).Reason)
}

func TestFreeCapacityAboveTheReplicasIsReleased(t *testing.T) {
	object := reservation("r", replicas(3), repeatedly)
	l := leader(object)
	l.hold("r", began, "n1", "n2", "n3")
	l.SetPod(bound(pod("a"), "r", "n1", began))
	l.SetPod(bound(pod("b"), "r", "n2", began))
	freed := l.Freed(began)
	l.Set(next(object, replicas(1)))
	assert.Greater(t, l.Freed(began), freed)
	assert.Empty(t, l.freeOn("r"))
	assert.Len(t, l.named("r").holds, 2, "pods keep what they use")
	l.DeletePod("a")
	assert.Empty(t, l.freeOn("r"), "it is not held again")
	l.DeletePod("b")
	assert.Equal(t, []string{"n2"}, l.freeOn("r"))
	assert.Nil(t, l.Next(began))
}

func TestNothingIsHeldOnANodeThatIsGone(t *testing.T) {
	held := reservation("r", replicas(2), repeatedly)
	held.Status.Holds = []v1alpha1.Hold{{NodeName: "n1", PodName: "a", PodUID: "a"}, {NodeName: "gone"}}
	l := leader(held)
	l.SetPod(bound(pod("a"), "r", "n1", began))
	l.Updates(began)
	assert.Empty(t, l.freeOn("r"), "it was gone before this process started")
	l.hold("r", began, "n2")
	l.DeleteNode("n2")
	l.Updates(began)
	assert.Empty(t, l.freeOn("r"))
	l.DeleteNode("n1")
	l.DeletePod("a")
	l.Updates(began)
	assert.Empty(t, l.named("r").holds, "its pod goes after the node")
	l.hold("r", began, "n2")
	l.Updates(began)
	assert.Empty(t, l.freeOn("r"), "it went while it was chosen")
}

func TestTakeAndReturn(t *testing.T) {
	l := leader(reservation("r", replicas(2), expires(60)))
	l.hold("r", began, "n1")
	r, a, b := l.named("r").r, pod("a"), pod("b")
	l.Return(a)
	assert.Equal(t, []string{"n1"}, l.freeOn("r"), "without Take")
	assert.False(t, l.Take(a, r, "n2", began), "nothing is held there")
	require.True(t, l.Take(a, r, "n1", began))
	assert.False(t, l.Take(a, r, "n2", began), "what is held does not move")
	assert.False(t, l.Take(b, r, "n1", began), "one pod uses it")
	l.Return(b)
	assert.Empty(t, l.freeOn("r"))
	freed := l.Freed(began)
	l.Return(a)
	assert.Equal(t, freed+1, l.Freed(began))
	l.Return(a)
	assert.Equal(t, freed+1, l.Freed(began), "twice")
	assert.False(t, l.Take(a, r, "n1", at(time.Minute)), "it has expired")
	require.True(t, l.Take(a, r, "n1", at(time.Minute-1)))
	l.SetPod(bound(a, "r", "n1", began))
	l.Return(a)
	assert.Empty(t, l.freeOn("r"), "the pod is bound")
	l.Delete("shop", "r")
	assert.False(t, l.Take(a, r, "n1", began))
}

// The replicas were lowered while a node was chosen.
func TestNoMoreIsHeldThanTheReplicas(t *testing.T) {
	object := reservation("r", replicas(2))
	l := leader(object)
	l.hold("r", began, "n1")
	r := l.Next(began)
	l.Set(next(object, replicas(1)))
	freed := l.Freed(began)
	l.Hold(r, "n2", began)
	assert.Equal(t, []string{"n1"}, l.freeOn("r"))
	assert.Equal(t, freed, l.Freed(began))
}

func TestARetryTakesLongerEachTime(t *testing.T) {
	l := leader(reservation("r"))
	now := began
	for _, want := range []int{1, 2, 4, 8, 15, 15} {
		require.NotNil(t, l.Next(now))
		l.NotHeld(l.named("r").r, "", now)
		after := time.Duration(want) * time.Second
		require.Nil(t, l.Next(now.Add(after-1)))
		now = now.Add(after)
	}
	for range 100 {
		l.NotHeld(l.named("r").r, "", now)
	}
	assert.NotNil(t, l.Next(now.Add(15*time.Second)))
}

func TestChangesAreReported(t *testing.T) {
	l := NewHoldings()
	changed := func() bool {
		select {
		case <-l.Changed():
			return true
		default:
			return false
		}
	}
	assert.False(t, changed())
	l.Set(reservation("r"))
	l.Lead()
	assert.True(t, changed())
	assert.False(t, changed(), "once for several")
	l.hold("r", began, "n1")
	assert.True(t, changed())
	l.DeletePod("unknown")
	l.Return(pod("a"))
	l.Delete("shop", "unknown")
	assert.False(t, changed())
}
