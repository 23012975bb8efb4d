// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// Where pods are removed in any order, the next one takes a slot of the type that is missing: the lowest free slot can be of the other
// one, and a move that the split needs would be refused as one without gain.
func TestAReplacementTakesTheSlotThatTheSchedulerGives(t *testing.T) {
	in := outOfMix()
	m := split.New(50, 0) // the slots are O S O S O S
	in.Group = groupOn(m)
	in.Group.Assignments = []clusterstate.Assignment{replica(m, 2, od), replica(m, 4, od), replica(m, 5, od)}
	in.Group.Replicas, in.Group.AnyOrder = 3, true
	v := rebalance.Choose(in)
	require.Equal(t, rebalance.ReasonMove, v.Reason, v.Message)
	assert.Equal(t, sp, v.Target)
	assert.Equal(t, 1, rebalance.SlotOfReplacement(&in.Group, v.Pod.UID))
	going := in.Group.Going(map[types.UID]bool{v.Pod.UID: true})
	assert.Equal(t, 1, going.Assignments[0].Slot, "a pod that is gone is expected there, too")
	assert.Equal(t, sp, going.Assignments[0].On)

	in.Group.AnyOrder = false
	assert.Equal(t, 0, rebalance.SlotOfReplacement(&in.Group, v.Pod.UID), "the lowest free slot")
}

// The scheduler gives the slots one after the other, without the pods that are going.
func TestPodsThatAreGoingAreExpectedWhereTheSchedulerPutsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMix(t)
		g := groupOn(m)
		g.AnyOrder = rapid.Bool().Draw(t, "any order")
		going, n := map[types.UID]bool{}, 0
		var taken split.Slots
		for slot := range rapid.IntRange(1, 12).Draw(t, "slots") {
			if rapid.Bool().Draw(t, "free") {
				continue
			}
			a := replica(m, slot, rapid.SampledFrom([]capacity.Type{sp, od}).Draw(t, "on"))
			g.Assignments = append(g.Assignments, a)
			if rapid.Bool().Draw(t, "going") {
				going[a.Pod.UID] = true
				n++
			} else {
				taken.Take(slot)
			}
		}
		want, joiner := map[int]bool{}, split.NewJoiner(m, &taken)
		for range n {
			want[joiner.Join(g.AnyOrder)] = true
		}
		got := map[int]bool{}
		for _, s := range g.Going(going).Assignments {
			if going[s.Pod.UID] {
				got[s.Slot] = true
				require.Equal(t, clusterstate.Pending, s.Place)
				require.Equal(t, m.TypeOf(s.Slot), s.On)
			}
		}
		require.Equal(t, want, got)
	})
}

// Of a unit, the pod that is worst off counts.
func TestAUnitIsAvailableWithAllOfItsPods(t *testing.T) {
	g := groupOn(split.New(70, 2), od, od, od)
	more := unite(&g.Assignments[0], "x")
	assert.Equal(t, 3, rebalance.Available(&g, noon))
	more.Ready = false
	assert.Equal(t, 2, rebalance.Available(&g, noon))
	more.Ready, more.ReadySince, g.MinReady = true, noon.Unix(), time.Minute
	assert.Equal(t, 2, rebalance.Available(&g, noon))
	assert.Equal(t, noon.Add(time.Minute), g.NextAvailable(noon).UTC())
	assert.Equal(t, 3, rebalance.Available(&g, noon.Add(time.Minute)))
}

// What one pod of a unit has keeps all of them. A unit of one pod moves as a pod does.
func TestWhatKeepsAPodOfAUnitKeepsTheUnit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rebalance.Input, *clusterstate.Pod)
		want   *rebalance.Reason
	}{
		"nothing":              {func(*rebalance.Input, *clusterstate.Pod) {}, rebalance.ReasonUnitWouldRestart},
		"it has no controller": {func(_ *rebalance.Input, p *clusterstate.Pod) { p.Owner = nil }, rebalance.ReasonNoController},
		"it is not Ready":      {func(_ *rebalance.Input, p *clusterstate.Pod) { p.Ready = false }, rebalance.ReasonNotReady},
		"its controller ended": {func(in *rebalance.Input, p *clusterstate.Pod) {
			p.Owner = ownerOf("other")
			in.Group.EndedOwners = map[types.UID]bool{"other": true}
		}, rebalance.ReasonOwnerEnded},
	} {
		t.Run(name, func(t *testing.T) {
			in := outOfMix()
			in.Group.Assignments[2].Place = clusterstate.Pending // so that one replica may move
			more := unite(&in.Group.Assignments[4], "x")
			c.change(in, more)
			assert.Equal(t, c.want, rebalance.Choose(in).Reason)
		})
	}
	in := outOfMix()
	a := &in.Group.Assignments[4]
	a.Unit, a.Pods = "x", []*clusterstate.Pod{a.Pod}
	assert.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)
}

func TestTheReasonOfAUnitNamesItsOperator(t *testing.T) {
	for label, of := range map[string]struct{ apiVersion, kind, want string }{
		"jobset.sigs.k8s.io/jobset-name":       {"batch/v1", "Job", "a JobSet restarts as a whole or fails if the Job of 2 pods does not go on, and loses the work since its last checkpoint"},
		"leaderworkerset.sigs.k8s.io/name":     {"apps/v1", "StatefulSet", "it is not known that its LeaderWorkerSet creates all 2 of them again if one ends"},
		"example.com/something-of-an-operator": {"apps/v1", "ReplicaSet", "no operator is known that would create all 2 of them again"},
	} {
		in := outOfMix()
		in.Group.Assignments[2].Place = clusterstate.Pending // so that one replica may move
		pod := in.Group.Assignments[4].Pod
		pod.Labels, pod.Owner = map[string]string{label: "train"}, ownerOf("train")
		pod.Owner.APIVersion, pod.Owner.Kind = of.apiVersion, of.kind
		unite(&in.Group.Assignments[4], "x")
		assert.Contains(t, rebalance.Choose(in).Message, of.want)
	}
}

// What holds a replica because of its template holds those of the same owner.
func TestATemplateHoldsTheReplicasOfItsOwner(t *testing.T) {
	e := rebalance.Entry{Group: groupOn(split.New(70, 2), od, od, od)}
	e.Group.Assignments[2].Pod.Owner = ownerOf("other")
	hold := func(r *rebalance.Reason) *rebalance.Hold {
		return &rebalance.Hold{Verdict: rebalance.Verdict{Reason: r, Pod: e.Group.Assignments[0].Pod}, Until: noon}
	}
	held := e
	held.HoldBack(hold(rebalance.ReasonReplacementUnknown))
	assert.Len(t, held.Held, 2)
	held = e
	held.HoldBack(hold(rebalance.ReasonQuota))
	assert.Len(t, held.Held, 3, "a quota is that of the namespace")
}

// The API server has no selector for a group of many owners: the next pod may lack what the others have in common.
func TestAGroupOfManyOwnersIsListedWithoutTheLabelsOfItsPods(t *testing.T) {
	g := groupOn(split.New(70, 2), od, od)
	assert.Equal(t, "app=web", rebalance.SelectorOf(&g).String())
	top := g
	top.Governing = &governing.Mix{Grouping: governing.Grouping{By: governing.ByTop}}
	assert.Empty(t, rebalance.SelectorOf(&top).String())
	g.Key.ID = "capacitymix/web"
	assert.Empty(t, rebalance.SelectorOf(&g).String())
}

// A pod of a unit that is gone, or new, is as good a reason to wait as a replica.
func TestTheLivePodsOfAUnitAreCompared(t *testing.T) {
	g := groupOn(split.New(70, 2), od)
	unite(&g.Assignments[0], "x")
	assert.Equal(t, "pod web-0 is gone", rebalance.Differs(&g, nil, nil))
	assert.Equal(t, "pod web-0-more is gone", rebalance.Differs(&g, map[types.UID]bool{"web-0": true}, nil))
}

// The groups of the roles of a mix have one name in its status: what is remembered of one holds for all.
func TestWhatIsRememberedOfGroupsOfOneNameIsTheMostCareful(t *testing.T) {
	at := func(minutes int) *metav1.Time {
		return &metav1.Time{Time: noon.Add(time.Duration(minutes) * time.Minute)}
	}
	cm := &v1alpha1.CapacityMix{}
	cm.Status.Workloads = []v1alpha1.WorkloadMix{
		{Kind: "Deployment", Name: "web", MixNotSatisfiedSince: at(-9), RetryTime: at(1), FailedMoves: 1},
		{Kind: "Deployment", Name: "web", MixNotSatisfiedSince: at(-3), RetryTime: at(2), FailedMoves: 3},
	}
	w := clusterstate.Workload{Kind: "Deployment", Name: "web"}
	e := rebalance.FromStatus(w, cm, noon, time.Hour)
	assert.Equal(t, []any{noon.Add(-3 * time.Minute), noon.Add(2 * time.Minute), int32(3)}, []any{e.WrongSince, e.RetryAt, e.Failures})
	cm.Status.Workloads[1].MixNotSatisfiedSince = nil
	assert.Zero(t, rebalance.FromStatus(w, cm, noon, time.Hour).WrongSince)
}
