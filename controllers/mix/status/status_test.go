// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

// noon has a fraction of a second, which a status does not keep.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 123456789, time.UTC)

const (
	sp = capacity.Spot
	od = capacity.OnDemand
)

// entry is a workload with a pod on slot i on the i-th type; slots 0 and 1 are
// on-demand, 2 to 4 spot.
func entry(name string, on ...capacity.Type) rebalance.Entry {
	m := split.New(70, 2)
	e := rebalance.Entry{Mix: "web", Verdict: rebalance.Verdict{Reason: rebalance.ReasonOnTarget}}
	e.Group = clusterstate.Group{
		Key: governing.GroupKey{Namespace: "shop", ID: "uid-" + name}, Governing: &governing.Mix{Source: "capacitymix/web", Mix: m}, Replicas: len(on),
		Workload: clusterstate.Workload{Kind: "Deployment", Namespace: "shop", Name: name, Revision: name + "-7d", UID: types.UID(name)},
	}
	for i, t := range on {
		id := fmt.Sprintf("%s-%d", name, i)
		p := &clusterstate.Pod{Namespace: "shop", Name: id, UID: types.UID(id), Ready: true, Labels: map[string]string{"app": name}}
		e.Group.Assignments = append(e.Group.Assignments, clusterstate.Assignment{Pod: p, Assignment: split.Assignment{Wants: m.TypeOf(i), Pod: split.Pod{ID: id, Slot: i, On: t}}})
	}
	return e
}

// waiting is a workload whose last replicas are in a place.
func waiting(e rebalance.Entry, place clusterstate.Place, n int) rebalance.Entry {
	for i := range n {
		e.Group.Assignments[len(e.Group.Assignments)-1-i].Place = place
	}
	return e
}

// composeOf is compose with what a store has of all workloads of the namespace.
func composeOf(cm *v1alpha1.CapacityMix, entries []rebalance.Entry, now time.Time) v1alpha1.CapacityMixStatus {
	b := workloads.NewStore()
	_, selector, err := governing.FromCapacityMix(cm)
	for _, e := range entries {
		if err == nil && slices.ContainsFunc(e.Group.Assignments, func(s clusterstate.Assignment) bool { return selector.Matches(labels.Set(s.Pod.Labels)) }) {
			e.Selecting = []string{cm.Name}
		}
		e.Group.Key.ID += e.Mix // some of these tests use one workload twice
		b.Put(e)
	}
	return compose(cm, err, b.OfMix("shop", cm.Name), b.Others("shop", cm.Name), nil, nil, now)
}

func exact(name string) rebalance.Entry { return entry(name, od, od, sp, sp, sp) }

func outOfMix(name string) rebalance.Entry {
	e := entry(name, od, od, od, sp, sp)
	e.WrongSince = noon.Add(-time.Minute)
	e.Verdict = rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Message: "no room"}
	return e
}

func mixOf(change ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 7}}
	cm.Spec.SpotPercent, cm.Spec.MinOnDemand = 70, 2
	for _, c := range change {
		c(cm)
	}
	return cm
}

func TestComposeReportsEachWorkload(t *testing.T) {
	e := outOfMix("web")
	e.Failures, e.RetryAt = 2, noon.Add(time.Minute)
	e.Group.Replicas = 6
	e.Group.Assignments[4].Place = clusterstate.Departing
	s := composeOf(mixOf(), []rebalance.Entry{e}, noon)
	since, retry := metav1.NewTime(time.Date(2026, 6, 1, 11, 59, 0, 0, time.UTC)), metav1.NewTime(time.Date(2026, 6, 1, 12, 1, 0, 0, time.UTC))
	assert.Equal(t, []v1alpha1.WorkloadMix{{
		Kind: "Deployment", Name: "web", Revision: "web-7d", Replicas: 6,
		Desired: v1alpha1.ReplicaSplit{Spot: 4, OnDemand: 2}, Actual: v1alpha1.ReplicaSplit{Spot: 1, OnDemand: 3},
		Borrowed: 1, Pending: 1, Departing: 1, MixNotSatisfiedSince: &since, FailedMoves: 2, RetryTime: &retry,
		Blocked: &v1alpha1.BlockedMove{Reason: "InsufficientCapacity", Message: "no room"},
	}}, s.Workloads)
	assert.Equal(t, int64(7), s.ObservedGeneration)
	assert.Equal(t, []int32{1, 0}, []int32{s.WorkloadCount, s.SatisfiedCount})

	s = composeOf(mixOf(), []rebalance.Entry{exact("a"), exact("b"), e}, noon)
	assert.Equal(t, v1alpha1.ReplicaSplit{Spot: 10, OnDemand: 6}, *s.Desired)
	assert.Equal(t, v1alpha1.ReplicaSplit{Spot: 7, OnDemand: 7}, *s.Actual)
	assert.Equal(t, []int32{3, 2}, []int32{s.WorkloadCount, s.SatisfiedCount})
}

func TestConditions(t *testing.T) {
	moving := outOfMix("web")
	for i := range 6 {
		moving.Moves = append(moving.Moves, rebalance.Move{Name: fmt.Sprintf("web-%d", 6-i)})
	}
	asking := outOfMix("web")
	asking.Placeholders = []rebalance.Placeholder{
		{Name: "holder-b", ReplicaName: "web-b", Waits: "DisruptionBudget: none allowed", Holder: rebalance.Holder{Target: sp, Running: true}}, {Name: "holder-a", ReplicaName: "web-a", Holder: rebalance.Holder{Target: od}},
	}
	unknown := entry("web", od, od, sp, sp, capacity.Unknown)
	foreign := exact("web")
	foreign.Mix = "older"
	young := exact("web")
	young.Mix = "alder"
	annotated := exact("web")
	annotated.Mix = ""
	type want struct{ status, reason, message string }
	tests := map[string]struct {
		mix     *v1alpha1.CapacityMix
		entries []rebalance.Entry
		of      string
		want    want
	}{
		"a mix that governs nothing is satisfied":   {mixOf(), nil, v1alpha1.ConditionSatisfied, want{"True", v1alpha1.ReasonNoWorkloads, "the mix governs no pods"}},
		"a mix that governs nothing moves nothing":  {mixOf(), nil, v1alpha1.ConditionRebalancing, want{"False", "OnTarget", "no replica has to move"}},
		"pods that have no node":                    {mixOf(), []rebalance.Entry{exact("a"), waiting(exact("b"), clusterstate.Pending, 3)}, v1alpha1.ConditionRebalancing, want{"False", v1alpha1.ReasonPodsPending, "no replica is being moved; replicas without a node: 3"}},
		"pods that go":                              {mixOf(), []rebalance.Entry{waiting(exact("b"), clusterstate.Departing, 1)}, v1alpha1.ConditionRebalancing, want{"False", v1alpha1.ReasonWaiting, "no replica is being moved; workloads that are not complete: 1"}},
		"what blocks goes before pods without node": {mixOf(), []rebalance.Entry{waiting(exact("a"), clusterstate.Pending, 1), outOfMix("b")}, v1alpha1.ConditionRebalancing, want{"False", "InsufficientCapacity", "Deployment b (b-7d): no room"}},
		"a mix is accepted":                         {mixOf(), nil, v1alpha1.ConditionAccepted, want{"True", v1alpha1.ReasonAccepted, "the pods that this mix selects follow it"}},
		"all is as it should be":                    {mixOf(), []rebalance.Entry{exact("a"), exact("b")}, v1alpha1.ConditionSatisfied, want{"True", v1alpha1.ReasonExact, "all 2 workloads have exactly their mix"}},
		"the only workload is as it should be":      {mixOf(), []rebalance.Entry{exact("a")}, v1alpha1.ConditionSatisfied, want{"True", v1alpha1.ReasonExact, "the only workload has exactly its mix"}},
		"a workload is out of its mix":              {mixOf(), []rebalance.Entry{exact("a"), outOfMix("b")}, v1alpha1.ConditionSatisfied, want{"False", v1alpha1.ReasonMixNotSatisfied, "1 of 2 workloads: Deployment b (b-7d) has 2 spot / 3 on-demand, desired 3 / 2"}},
		"a node is of unknown type":                 {mixOf(), []rebalance.Entry{unknown}, v1alpha1.ConditionSatisfied, want{"False", v1alpha1.ReasonMixNotSatisfied, "1 of 1 workload: Deployment web (web-7d) has 2 spot / 2 on-demand, desired 3 / 2, 1 on nodes of unknown type"}},
		"three are named of many":                   {mixOf(), []rebalance.Entry{outOfMix("d"), outOfMix("c"), outOfMix("b"), outOfMix("a")}, v1alpha1.ConditionSatisfied, want{"False", v1alpha1.ReasonMixNotSatisfied, "4 of 4 workloads: Deployment a (a-7d) has 2 spot / 3 on-demand, desired 3 / 2; Deployment b (b-7d) has 2 spot / 3 on-demand, desired 3 / 2; Deployment c (c-7d) has 2 spot / 3 on-demand, desired 3 / 2"}},
		"what blocks is the reason":                 {mixOf(), []rebalance.Entry{exact("a"), outOfMix("b")}, v1alpha1.ConditionRebalancing, want{"False", "InsufficientCapacity", "Deployment b (b-7d): no room"}},
		"replicas are being moved":                  {mixOf(), []rebalance.Entry{outOfMix("a"), moving}, v1alpha1.ConditionRebalancing, want{"True", v1alpha1.ReasonMoving, "6 being moved: web-1, web-2, web-3, web-4, web-5 and 1 more"}},
		"capacity is requested":                     {mixOf(), []rebalance.Entry{outOfMix("a"), asking}, v1alpha1.ConditionRebalancing, want{"True", v1alpha1.ReasonProvisioning, "2 to move once a placeholder holds the capacity: web-a (holder-a waits for a node of type on-demand), web-b (holder-b runs; DisruptionBudget: none allowed)"}},
		"a replica being moved is more than room":   {mixOf(), []rebalance.Entry{asking, moving}, v1alpha1.ConditionRebalancing, want{"True", v1alpha1.ReasonMoving, "6 being moved: web-1, web-2, web-3, web-4, web-5 and 1 more"}},
		"older mixes govern its pods":               {mixOf(), []rebalance.Entry{foreign, young}, v1alpha1.ConditionAccepted, want{"False", v1alpha1.ReasonConflict, "pods that this mix selects are governed by an older one: alder, older"}},
		"another mix governs other pods":            {mixOf(func(cm *v1alpha1.CapacityMix) { cm.Spec.Selector.MatchLabels = map[string]string{"app": "db"} }), []rebalance.Entry{foreign}, v1alpha1.ConditionAccepted, want{"True", v1alpha1.ReasonAccepted, "the pods that this mix selects follow it"}},
		"annotations take pods out without dispute": {mixOf(), []rebalance.Entry{annotated}, v1alpha1.ConditionAccepted, want{"True", v1alpha1.ReasonAccepted, "the pods that this mix selects follow it"}},
		"a spec that cannot be used":                {mixOf(func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 150 }), nil, v1alpha1.ConditionAccepted, want{"False", v1alpha1.ReasonInvalid, "spec.spotPercent: 150 is not between 0 and 100"}},
	}
	c := accepted(errTooMany, []string{"older"})
	assert.Equal(t, want{"False", v1alpha1.ReasonTooMany, budget.Exceeded("CapacityMixes", governing.MaxPerNamespace)}, want{string(c.Status), c.Reason, c.Message})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := composeOf(tc.mix, tc.entries, noon)
			c := meta.FindStatusCondition(s.Conditions, tc.of)
			require.NotNil(t, c)
			assert.Equal(t, tc.want, want{string(c.Status), c.Reason, c.Message})
			assert.Equal(t, int64(7), c.ObservedGeneration)
			assert.Len(t, s.Conditions, 3)
		})
	}
}

func TestAMoveUnderWayIsNotBlocked(t *testing.T) {
	e := outOfMix("web")
	e.Moves = []rebalance.Move{{Name: "web-2"}}
	assert.Nil(t, composeOf(mixOf(), []rebalance.Entry{e}, noon).Workloads[0].Blocked)
	for _, r := range []*rebalance.Reason{nil, rebalance.ReasonMove, rebalance.ReasonOnTarget} {
		e = outOfMix("web")
		e.Verdict.Reason = r
		assert.Nil(t, composeOf(mixOf(), []rebalance.Entry{e}, noon).Workloads[0].Blocked)
	}
}

// stored is a status as the API server gives it back.
func stored(t require.TestingT, s v1alpha1.CapacityMixStatus) v1alpha1.CapacityMixStatus {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	require.NoError(t, err)
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	var back v1alpha1.CapacityMixStatus
	require.NoError(t, json.Unmarshal(text, &back))
	return back
}

func drawEntry(t *rapid.T, i int) rebalance.Entry {
	e := entry(fmt.Sprintf("w%d", rapid.IntRange(0, 3).Draw(t, "name")), rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{sp, od, capacity.Unknown}), 0, 6).Draw(t, "on")...)
	e.Group.Key.ID = fmt.Sprint(i)
	e.Mix = rapid.SampledFrom([]string{"web", "web", "web", "other", ""}).Draw(t, "mix")
	e.Group.Replicas += rapid.IntRange(0, 2).Draw(t, "missing")
	for j := range e.Group.Assignments {
		e.Group.Assignments[j].Place = clusterstate.Place(rapid.IntRange(0, 2).Draw(t, "place"))
	}
	if rapid.Bool().Draw(t, "wrong") {
		e.WrongSince = noon.Add(-time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "since")))
		e.RetryAt = noon.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "retry")))
		e.Verdict = rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Message: strings.Repeat("é", rapid.IntRange(0, 900).Draw(t, "length"))}
	}
	for range rapid.IntRange(0, 2).Draw(t, "moves") {
		e.Moves = append(e.Moves, rebalance.Move{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "moved")})
	}
	return e
}

// Otherwise the controller would write indefinitely what is there already.
func TestWhatWasWrittenComparesEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []rebalance.Entry
		for i := range rapid.IntRange(0, 8).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, i))
		}
		cm := mixOf()
		first := composeOf(cm, entries, noon)
		cm.Status = stored(t, first)
		later := composeOf(cm, rapid.Permutation(entries).Draw(t, "order"), noon.Add(time.Hour))
		require.True(t, equality.Semantic.DeepEqual(cm.Status, later), "stored %+v\nthen %+v", cm.Status, later)
		require.Equal(t, stored(t, first), stored(t, later))
		for _, c := range later.Conditions {
			require.LessOrEqual(t, len(c.Message), 1024)
			require.True(t, utf8.ValidString(c.Message))
		}
		for _, w := range later.Workloads {
			require.True(t, w.Blocked == nil || len(w.Blocked.Message) <= 1024 && utf8.ValidString(w.Blocked.Message))
		}
	})
}

func TestConditionsKeepTheTimeOfTheirLastChange(t *testing.T) {
	cm := mixOf()
	cm.Status = stored(t, composeOf(cm, []rebalance.Entry{exact("a")}, noon))
	began := metav1.NewTime(noon.Truncate(time.Second))
	later := composeOf(cm, []rebalance.Entry{exact("a"), exact("b")}, noon.Add(time.Hour))
	for _, c := range later.Conditions {
		assert.True(t, began.Equal(&c.LastTransitionTime), "%s: the status did not change, only the message", c.Type)
	}
	before := cm.DeepCopy()
	later = composeOf(cm, []rebalance.Entry{outOfMix("a")}, noon.Add(time.Hour))
	assert.Equal(t, before, cm, "the object of the cache is not changed")
	c := meta.FindStatusCondition(later.Conditions, v1alpha1.ConditionSatisfied)
	assert.Equal(t, noon.Add(time.Hour), c.LastTransitionTime.Time)
}

func TestTheListIsBoundedAndUnsatisfiedComeFirst(t *testing.T) {
	var entries []rebalance.Entry
	for i := range 70 {
		name := fmt.Sprintf("w%02d", i)
		if i%10 == 9 {
			entries = append(entries, outOfMix(name))
		} else {
			entries = append(entries, exact(name))
		}
	}
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	s := composeOf(mixOf(), entries, noon)
	require.Len(t, s.Workloads, v1alpha1.MaxStatusWorkloads)
	var names []string
	for _, w := range s.Workloads[:9] {
		names = append(names, w.Name)
	}
	assert.Equal(t, []string{"w09", "w19", "w29", "w39", "w49", "w59", "w69", "w00", "w01"}, names)
	assert.Equal(t, []int32{70, 63}, []int32{s.WorkloadCount, s.SatisfiedCount}, "all are counted")
	assert.Equal(t, int32(7*2+63*3), s.Actual.Spot)
}

func TestNumberStaysInTheRangeOfTheAPI(t *testing.T) {
	assert.Equal(t, int32(0), number(-1))
	assert.Equal(t, int32(1<<31-1), number(1<<40))
}

func TestTheStatusReportsThatSpotIsNotAvailable(t *testing.T) {
	fell := func(e rebalance.Entry, slot int, mark string) {
		p := e.Group.Assignments[slot].Pod
		p.Annotations = map[string]string{v1alpha1.ClaimAnnotation: string(p.UID) + "/on-demand", v1alpha1.FallbackAnnotation: mark}
	}
	one, other, gated := exact("one"), exact("other"), exact("web")
	fell(one, 2, "3/2026-06-01T12:10:00Z")
	fell(one, 3, "4/2026-06-01T12:30:00Z")
	fell(other, 4, "3/2026-06-01T12:20:00Z")
	gated.Group.Gated = true

	cm := mixOf()
	cm.Status = composeOf(cm, []rebalance.Entry{exact("web")}, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable), "pods without the gate borrow")
	cm.Status = composeOf(cm, []rebalance.Entry{gated}, noon)
	assert.True(t, meta.IsStatusConditionTrue(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable))
	cm.Status = composeOf(cm, []rebalance.Entry{gated, one, other}, noon)
	c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable)
	require.NotNil(t, c)
	assert.EqualValues(t, "False", c.Status)
	assert.Equal(t, v1alpha1.ReasonFallback, c.Reason)
	assert.Equal(t, "spot nodes did not come; replicas limited to on-demand: 3; spot is tried again from 2026-06-01T12:30:00Z on", c.Message)
	cm.Status = composeOf(cm, []rebalance.Entry{exact("web")}, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable), "and it does not stay")
}

func TestTheStatusReportsWhetherTheFloorIsProtected(t *testing.T) {
	var reports []floor.Report
	r := New(Options{Floors: func(string, string) []floor.Report { return reports }, Clock: clocktesting.NewFakePassiveClock(noon)})
	cm := mixOf(builders.ProtectFloor, func(cm *v1alpha1.CapacityMix) { cm.Spec.MinOnDemand = 2 })
	condition := func(governs bool) *metav1.Condition {
		r.addFloor(cm, &cm.Status, governs)
		return meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionFloorProtected)
	}
	assert.Nil(t, condition(true), "nothing was decided yet")
	reports = []floor.Report{{Workload: "web", Verdict: floor.Verdict{Reason: v1alpha1.ReasonUnits, Message: strings.Repeat("x", 2000)}}}
	c := condition(true)
	require.NotNil(t, c)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.LessOrEqual(t, len(c.Message), maxMessage)
	reports = nil
	require.NotNil(t, condition(true), "a new leader has decided nothing yet")
	assert.Nil(t, condition(false), "it governs nothing")
	reports = []floor.Report{{Workload: "web", Verdict: floor.Verdict{Reason: v1alpha1.ReasonBudgetsKept}}}
	assert.Equal(t, metav1.ConditionTrue, condition(true).Status)
	cm.Spec.ProtectFloor = false
	assert.Nil(t, condition(true))
}

func TestASpreadThatHoldsForEachTypeIsReported(t *testing.T) {
	uneven := gatedEntry("a")
	uneven.Group.SpreadByType = true
	cm := mixOf()
	cm.Status = compose(cm, nil, []rebalance.Entry{uneven, gatedEntry("b")}, nil, nil, nil, noon)
	c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionTopologySpreadHeld)
	require.NotNil(t, c)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, v1alpha1.ReasonSpreadByCapacityType, c.Reason)
	assert.Equal(t, "a topology spread constraint holds for each capacity type on its own, because its nodeAffinityPolicy is not Ignore; "+
		"workloads: 1 of 2: Deployment a (a-7d)", c.Message)
	cm.Status = compose(cm, nil, []rebalance.Entry{gatedEntry("a"), gatedEntry("b")}, nil, nil, nil, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionTopologySpreadHeld))
}
