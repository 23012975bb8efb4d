// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// moved is the move of web-2 from on-demand to slot 2, which requires spot, that was decided a minute ago.
func moved(changes ...func(*rebalance.MoveReport)) *rebalance.MoveReport {
	r := &rebalance.MoveReport{
		Pod: "web-2", UID: "2", From: "on-demand", FromNode: "o2", To: "spot", Node: "s2", Slot: new(2),
		Since: today.Add(-5 * time.Minute), Decided: today.Add(-time.Minute), Proven: today.Add(-59 * time.Second),
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func eventAt(reason string, before time.Duration, message string, of *rebalance.MoveReport) overview.MoveEvent {
	return overview.MoveEvent{Time: today.Add(-before), Reason: reason, Message: message, Count: 1, Of: of}
}

// arrived is slot 2 with a pod that came after the eviction.
func arrived(changes ...func(*overview.Slot)) overview.Slot {
	s := overview.Slot{Slot: 2, Type: "spot", Pod: "web-9", Node: "s2", NodeType: "spot", State: overview.InPlace}
	s.Arrival = overview.Arrival{Created: today.Add(-50 * time.Second), Bound: today.Add(-40 * time.Second), Available: today.Add(-30 * time.Second)}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// Each step is shown with its time, and the one that the move is at with the reason for which it is not further.
func TestAMoveIsFollowedFromItsDecisionUntilItIsAvailable(t *testing.T) {
	evicted := eventAt(v1alpha1.EventReasonMoved, 58*time.Second, "", moved())
	waits := func(s *overview.Slot) {
		s.Node, s.NodeType, s.State, s.Reason, s.Arrival = "", "", overview.Pending, "waits for spot: 0/5 nodes", overview.Arrival{Created: today.Add(-50 * time.Second)}
	}
	starts := func(s *overview.Slot) {
		s.Arrival.Available, s.Arrival.Lacks = time.Time{}, "container app: ImagePullBackOff"
	}
	soon := func(s *overview.Slot) { s.Arrival.Available = today.Add(10 * time.Second) }
	wrong := func(s *overview.Slot) {
		s.Node, s.NodeType, s.State, s.Reason = "o3", "on-demand", overview.Borrowed, "the slot requires spot"
	}
	created := eventAt(v1alpha1.EventReasonProvisioning, time.Minute, "Created placeholder p", moved(func(r *rebalance.MoveReport) { r.Proven, r.Node, r.Placeholder = time.Time{}, "", "p" }))
	failed := eventAt(v1alpha1.EventReasonMoveFailed, time.Second, "9 of 10 replicas are available", &rebalance.MoveReport{Pod: "web-2", UID: "2", To: "spot"})
	for name, c := range map[string]struct {
		events []overview.MoveEvent
		slots  []overview.Slot
		at     string
		state  overview.StepState
		text   string
		runs   bool
	}{
		"the capacity is requested": {[]overview.MoveEvent{created}, []overview.Slot{{Slot: 2, Pod: "web-2", State: overview.Borrowed}}, "Proven", overview.StepNow, "Created placeholder p", true},
		"it stays after all":        {[]overview.MoveEvent{created}, []overview.Slot{{Slot: 2, Pod: "web-2", State: overview.InPlace}}, "Proven", overview.StepUnknown, "The replica does not have to move any more.", false},
		"there is no next pod yet":  {[]overview.MoveEvent{evicted}, []overview.Slot{{Slot: 2, State: overview.NoPod}}, "Replaced", overview.StepNow, "The next pod is not created yet.", true},
		"the next pod waits":        {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(waits)}, "Bound", overview.StepNow, "waits for spot: 0/5 nodes", true},
		"the next pod starts":       {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(starts)}, "Available", overview.StepNow, "container app: ImagePullBackOff", true},
		"the next pod is Ready":     {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(soon)}, "Available", overview.StepNow, "The pod is Ready, and available at 12:00:10 UTC (minReadySeconds).", true},
		"it is available":           {[]overview.MoveEvent{created, evicted}, []overview.Slot{arrived()}, "Available", overview.StepDone, "", false},
		"it is on the wrong type":   {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(wrong)}, "Bound", overview.StepFailed, "This is the wrong type: the slot requires spot.", false},
		"the controller reports that it failed": {
			[]overview.MoveEvent{evicted, failed}, []overview.Slot{arrived(starts)}, "Available", overview.StepFailed, "9 of 10 replicas are available", false,
		},
		"the placeholder failed":      {[]overview.MoveEvent{created, failed}, nil, "Proven", overview.StepFailed, "9 of 10 replicas are available", false},
		"its successor is gone":       {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(func(s *overview.Slot) { s.Arrival.Created = today.Add(-time.Hour) })}, "Replaced", overview.StepUnknown, "The pod that replaced it is not there any more.", false},
		"the nodes may not be listed": {[]overview.MoveEvent{evicted}, []overview.Slot{arrived(func(s *overview.Slot) { s.NodeType, s.State = "", overview.Unknown })}, "Available", overview.StepDone, "", false},
	} {
		moves := overview.MovesOf(&overview.Workload{Slots: c.slots}, c.events, today)
		require.Len(t, moves.All, 1, name)
		m := &moves.All[0]
		at := &m.Steps[m.At]
		assert.Equal(t, []any{c.at, c.state, c.text, c.runs}, []any{at.Name, at.State, at.Text, m.Runs()}, name)
		assert.Equal(t, c.state == overview.StepFailed, m.Failed(), name)
		assert.Equal(t, today.Add(-time.Minute), m.Steps[0].Time, "%s: when it was decided", name)
		assert.Equal(t, "The replacement takes slot 2, which requires spot. The mix was not satisfied since 11:55:00 UTC.", m.Steps[0].Text, name)
	}
	steps := overview.MovesOf(&overview.Workload{Slots: []overview.Slot{arrived()}}, []overview.MoveEvent{evicted}, today).All[0].Steps
	var times []string
	for i := range steps {
		times = append(times, steps[i].Name+" "+steps[i].Time.Format("04:05")+" "+steps[i].Pod+steps[i].Node)
	}
	assert.Equal(t, []string{"Decided 59:00 ", "Proven 59:01 s2", "Evicted 59:02 o2", "Replaced 59:10 web-9", "Bound 59:20 s2", "Available 59:30 "}, times)
}

// A workload that is moved there and back has moves whose pods were moved again: they are over, and do not wait for the next pod.
func TestEachSlotIsTheSuccessorOfOneMove(t *testing.T) {
	first := moved(func(r *rebalance.MoveReport) {
		r.UID, r.Decided, r.Proven = "1", today.Add(-20*time.Minute), today.Add(-20*time.Minute)
	})
	events := []overview.MoveEvent{
		eventAt(v1alpha1.EventReasonMoved, 20*time.Minute, "", first), eventAt(v1alpha1.EventReasonMoved, 58*time.Second, "", moved()),
	}
	for name, s := range map[string]overview.Slot{"it is there": arrived(), "it is not there yet": {Slot: 2, State: overview.NoPod}} {
		moves := overview.MovesOf(&overview.Workload{Slots: []overview.Slot{s}}, events, today)
		require.Len(t, moves.All, 2, name)
		assert.Equal(t, overview.StepUnknown, moves.All[1].Steps[moves.All[1].At].State, name)
		assert.False(t, moves.All[1].Runs(), name)
	}
	again := append(slices.Clone(events), eventAt(v1alpha1.EventReasonMoveFailed, 30*time.Second, "failed", moved()), eventAt(v1alpha1.EventReasonProvisioning, 20*time.Second, "again", moved()))
	assert.Len(t, overview.MovesOf(&overview.Workload{}, again, today).All, 3, "another attempt with the same replica")
}

func TestMovesThatEndedLongAgoAreNotShown(t *testing.T) {
	old := arrived(func(s *overview.Slot) {
		s.Arrival = overview.Arrival{Created: today.Add(-2 * time.Hour), Bound: today.Add(-2 * time.Hour), Available: today.Add(-2 * time.Hour)}
	})
	evicted := eventAt(v1alpha1.EventReasonMoved, 3*time.Hour, "", moved(func(r *rebalance.MoveReport) { r.Proven = today.Add(-3 * time.Hour) }))
	assert.Empty(t, overview.MovesOf(&overview.Workload{Slots: []overview.Slot{old}}, []overview.MoveEvent{evicted}, today).All)
	waits := overview.Slot{Slot: 2, State: overview.NoPod}
	assert.Len(t, overview.MovesOf(&overview.Workload{Slots: []overview.Slot{waits}}, []overview.MoveEvent{evicted}, today).All, 1, "it still runs")
	others := moved(func(r *rebalance.MoveReport) { r.Revision = "other" })
	assert.Empty(t, overview.MovesOf(&overview.Workload{}, []overview.MoveEvent{eventAt(v1alpha1.EventReasonMoved, time.Minute, "", others)}, today).All)
}

// A combined event has the count of many moves, and the message of one.
func TestACombinedEventIsNoMove(t *testing.T) {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.MoveAnnotation: moved().String()}},
		Reason:     v1alpha1.EventReasonMoved, Message: hostile, Count: 7, LastTimestamp: ago(time.Minute),
	}
	combined, ok := overview.MoveEventOf(e)
	require.True(t, ok)
	moves := overview.MovesOf(&overview.Workload{}, []overview.MoveEvent{combined}, today)
	assert.Empty(t, moves.All)
	assert.Equal(t, 7, moves.Combined)

	e.Count = 1
	r := moved(func(r *rebalance.MoveReport) { r.Pod, r.Node = hostile, hostile })
	e.Annotations[v1alpha1.MoveAnnotation] = r.String()
	one, ok := overview.MoveEventOf(e)
	require.True(t, ok)
	assert.NotContains(t, one.Message+one.Of.Pod+one.Of.Node, "\x1b")
	e.Reason = v1alpha1.EventReasonMoveBlocked
	_, ok = overview.MoveEventOf(e)
	assert.False(t, ok)
}

// Whatever events there are, and in whatever order: no slot is that of two moves, and what precedes the step of a move is done.
func TestMovesAreConsistentWithAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds")) * time.Second
		})
		reason := rapid.SampledFrom([]string{v1alpha1.EventReasonMoved, v1alpha1.EventReasonMoveFailed, v1alpha1.EventReasonProvisioning})
		events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) overview.MoveEvent {
			uid := rapid.IntRange(0, 4).Draw(t, "uid")
			return eventAt(reason.Draw(t, "reason"), at.Draw(t, "at"), "", moved(func(r *rebalance.MoveReport) {
				r.UID, r.Pod, r.Slot = types.UID(fmt.Sprint(uid)), fmt.Sprint("web-", uid), new(rapid.IntRange(0, 4).Draw(t, "slot"))
				r.Proven = today.Add(-at.Draw(t, "proven"))
			}))
		}), 0, 10).Draw(t, "events")
		w := &overview.Workload{}
		for i := range rapid.IntRange(0, 5).Draw(t, "slots") {
			s := arrived(func(s *overview.Slot) {
				s.Slot, s.Pod = i, fmt.Sprint("new-", i)
				s.Arrival.Created = today.Add(-at.Draw(t, "created"))
				s.State = rapid.SampledFrom([]overview.State{overview.InPlace, overview.Borrowed, overview.Pending, overview.Unknown}).Draw(t, "state")
			})
			if rapid.Bool().Draw(t, "no pod") {
				s = overview.Slot{Slot: i, State: overview.NoPod}
			}
			w.Slots = append(w.Slots, s)
		}
		taken, keys := map[string]bool{}, map[string]bool{}
		for _, m := range overview.MovesOf(w, events, today).All {
			for i := range m.Steps {
				s := &m.Steps[i]
				if i < m.At {
					require.Equal(t, overview.StepDone, s.State, "%s before %s", s.Name, m.Steps[m.At].Name)
				}
				if s.Name == "Replaced" && s.Pod != "" {
					require.False(t, taken[s.Pod], "%s is the successor of two", s.Pod)
					taken[s.Pod] = true
				}
			}
			require.False(t, m.Ended.Before(today.Add(-overview.MovesFor)) && !m.Runs())
			require.False(t, keys[m.Key])
			keys[m.Key] = true
		}
	})
}

// The times of a replica are those of its pod.
func TestASlotHasWhenItsPodCame(t *testing.T) {
	s := &shop{}
	s.node("s1", "spot", "a")
	s.node("o1", "on-demand", "a")
	s.mix("shop", "web", 50, 1)
	rs := s.workload("shop", "web", 4, "o1", "s1", "o1", "")
	rs.Spec.MinReadySeconds = 30
	condition := func(p int, kind corev1.PodConditionType, status corev1.ConditionStatus, at time.Duration, message string) {
		s.pods[p].Status.Conditions = append(s.pods[p].Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: ago(at), Message: message})
	}
	for p := range 3 {
		condition(p, corev1.PodScheduled, corev1.ConditionTrue, time.Minute, "")
	}
	condition(0, corev1.PodReady, corev1.ConditionTrue, 10*time.Second, "")
	condition(1, corev1.PodReady, corev1.ConditionFalse, 10*time.Second, "containers with unready status: [app]")
	s.pods[2].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: hostile}}}}

	slots := overview.Of(s.input(t)).Workloads[0].Slots
	require.Len(t, slots, 4)
	for i := range slots {
		assert.Equal(t, s.pods[i].CreationTimestamp.Unix(), slots[i].Arrival.Created.Unix())
	}
	assert.Equal(t, today.Add(-time.Minute), slots[0].Arrival.Bound)
	assert.Equal(t, today.Add(20*time.Second).Unix(), slots[0].Arrival.Available.Unix(), "30 seconds after it was Ready")
	assert.Zero(t, slots[1].Arrival.Available)
	assert.Equal(t, "containers with unready status: [app]", slots[1].Arrival.Lacks)
	assert.Contains(t, slots[2].Arrival.Lacks, "container app: ImagePullBackOff: ")
	assert.NotContains(t, slots[2].Arrival.Lacks, "\x1b")
	assert.Zero(t, slots[3].Arrival.Bound)
}

func TestAReleasedReplicaIsFollowedUntilItsReplacementIsAvailable(t *testing.T) {
	w := &overview.Workload{Slots: []overview.Slot{arrived()}}
	for name, c := range map[string]struct {
		report *rebalance.MoveReport
		proven string
	}{
		"a move": {moved(), "The filters of the scheduler accept the replacement on this node."},
		"a node that departs": {
			moved(func(r *rebalance.MoveReport) { r.Proven, r.Node = time.Time{}, "" }),
			"This node departs: the replica does not wait for free capacity.",
		},
	} {
		all := overview.MovesOf(w, []overview.MoveEvent{eventAt(v1alpha1.EventReasonReleased, 58*time.Second, "", c.report)}, today).All
		require.Len(t, all, 1, name)
		assert.Equal(t, c.proven, all[0].Steps[1].Text, name)
		assert.Equal(t, "It was released from its ReplicaSet, and runs until the replacement is available.", all[0].Steps[2].Text, name)
		assert.False(t, all[0].Runs(), name)
	}
}
