// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

const lwsName, lwsUnit = "leaderworkerset.sigs.k8s.io/name", "vllm-4"

// restarting has a unit of two pods whose operator creates both again, and no other replica that may move.
func restarting() (in *rebalance.Input, unit *clusterstate.Assignment) {
	in = outOfMix()
	in.History.Restart, in.Group.Units, in.Group.Identity = rebalance.RestartWhole, true, true
	in.Group.Workload.APIVersion, in.Group.Workload.Kind = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
	in.Group.Assignments[2].Place = clusterstate.Pending
	unit = &in.Group.Assignments[4]
	unit.Pod.Labels, unit.Pod.Owner = map[string]string{lwsName: "vllm", "app": "web"}, ownerOf("vllm")
	unit.Pod.Owner.Kind = "StatefulSet"
	unite(unit, lwsUnit)
	return in, unit
}

func TestAUnitThatItsOperatorCreatesAgainMovesAsAWhole(t *testing.T) {
	in, _ := restarting()
	v := rebalance.Choose(in)
	require.Equal(t, rebalance.ReasonMove, v.Reason, v.Message)
	assert.Equal(t, "pod web-4 moves with all 2 pods of unit vllm-4 from on-demand to spot", v.Message)
	m := rebalance.NewMove(&in.Group, v, noon)
	assert.Equal(t, []any{lwsUnit, 2, types.UID("web-4")}, []any{m.Unit, m.Size, m.UID})
	assert.Equal(t, map[types.UID]bool{"web-4": true, "web-4-more": true}, rebalance.Moved([]rebalance.Move{m}))
}

func TestAUnitStaysWhereItsRestartIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rebalance.Input, *clusterstate.Assignment)
		want   *rebalance.Reason
	}{
		"its operator has another policy": {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.History.Restart = rebalance.RestartSingle }, rebalance.ReasonUnitWouldRestart},
		"it has no operator":              {func(_ *rebalance.Input, u *clusterstate.Assignment) { u.Pod.Labels = nil }, rebalance.ReasonUnitWouldRestart},
		"its workers follow their leader": {func(_ *rebalance.Input, u *clusterstate.Assignment) {
			annotate(u.Pods[1], "leaderworkerset.sigs.k8s.io/exclusive-topology", "rack")
		}, rebalance.ReasonUnitWouldRestart},
		"a budget allows one pod": {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.Budgets = budgetOf(1) }, rebalance.ReasonPDB},
		"one has no capacity": {func(in *rebalance.Input, u *clusterstate.Assignment) {
			in.MayFit = func(_ capacity.Type, p *clusterstate.Pod) bool { return p == u.Pod }
		}, rebalance.ReasonInsufficientCapacity},
		"another pod is being moved": {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.History.InFlight = 1 }, rebalance.ReasonMixBudget},
		"others of the cluster are":  {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.Cluster.InFlight = 4 }, rebalance.ReasonClusterBudget},
		"it is being moved already": {func(in *rebalance.Input, _ *clusterstate.Assignment) {
			in.For = &rebalance.Evaluation{Entry: rebalance.Entry{Moves: []rebalance.Move{{Unit: lwsUnit, Size: 2}}}}
		}, rebalance.ReasonMixBudget},
	} {
		t.Run(name, func(t *testing.T) {
			in, unit := restarting()
			c.change(in, unit)
			assert.Equal(t, c.want, rebalance.Choose(in).Reason)
		})
	}
}

// A user can do something about a right that is missing, and about a policy, but not by the same command.
func TestTheReasonOfAUnitNamesWhatIsKnownOfItsOperator(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rebalance.Input, *clusterstate.Assignment)
		want   string
	}{
		"it was not read":        {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.History.Restart = rebalance.RestartUnknown }, "because it could not be read"},
		"it has another policy":  {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.History.Restart = rebalance.RestartSingle }, "its restartPolicy is not RecreateGroupOnPodRestart"},
		"it owns no whole group": {func(in *rebalance.Input, _ *clusterstate.Assignment) { in.Group.Workload.Kind = "CapacityMix" }, "because the pods are not counted by it"},
		"it follows its leader": {func(_ *rebalance.Input, u *clusterstate.Assignment) {
			annotate(u.Pods[1], "leaderworkerset.sigs.k8s.io/exclusive-topology", "rack")
		}, "exclusive topology"},
	} {
		t.Run(name, func(t *testing.T) {
			in, unit := restarting()
			c.change(in, unit)
			assert.Contains(t, rebalance.Choose(in).Message, c.want)
		})
	}
}

// Its operator makes the others later.
func TestAUnitThatLacksPodsIsNotAvailable(t *testing.T) {
	in, unit := restarting()
	in.Group.Assignments[2].Place = clusterstate.Settled
	before := rebalance.Available(&in.Group, noon)
	annotate(unit.Pod, "leaderworkerset.sigs.k8s.io/size", "3")
	assert.Equal(t, before-1, rebalance.Available(&in.Group, noon))
	v := rebalance.Choose(in)
	assert.Equal(t, rebalance.ReasonNotReady, v.Reason)
	assert.Equal(t, "unit vllm-4 has 2 of 3 pods", v.Message)
}

// The replicas of a LeaderWorkerSet are groups. Those of other owners of units are pods.
func TestAScaleCountsUnitsWhereItsOwnerMakesThem(t *testing.T) {
	in, _ := restarting()
	whole := rebalance.Scale{Replicas: 3, Known: true, Restart: rebalance.RestartWhole}
	back, follows := whole.Follow(&in.Group, 5, true)
	assert.Equal(t, []any{3, true}, []any{back, follows})
	pods := rebalance.Scale{Replicas: 3, Known: true}
	back, follows = pods.Follow(&in.Group, 5, true)
	assert.Equal(t, []any{5, true}, []any{back, follows})
	in.Group.Units = false
	back, _ = pods.Follow(&in.Group, 5, true)
	assert.Equal(t, 3, back)
	back, follows = pods.Follow(&in.Group, 0, true)
	assert.Equal(t, []any{0, true}, []any{back, follows}, "nothing is being moved")
}

// A unit that is larger than a limit would never move: it does when nothing else is being moved.
func TestAUnitThatIsLargerThanTheLimitsMovesAlone(t *testing.T) {
	in, _ := restarting()
	in.Settings.MaxConcurrent, in.Cluster.Limit = 1, 1
	assert.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)
	m := rebalance.NewMove(&in.Group, rebalance.Choose(in), noon)
	e := rebalance.Entry{Moves: []rebalance.Move{m}}
	assert.Equal(t, 2, e.InFlight(), "it takes a place for each pod")
	assert.Equal(t, rebalance.Standing{Fresh: 2}, e.Standing())
}

// No placeholder holds the capacity of a unit.
func TestAUnitGetsNoPlaceholder(t *testing.T) {
	in, _ := restarting()
	in.MayFit, in.Settings.Provisioning = nowhere, rebalance.WithPlaceholder
	_, ok := rebalance.Provision(in)
	assert.False(t, ok)
}

// unitOf is a unit of pods by name, on a type.
func unitOf(on capacity.Type, names ...string) clusterstate.Assignment {
	a := replica(split.New(70, 2), 4, on)
	a.Unit, a.Pods = lwsUnit, nil
	for _, name := range names {
		p := *a.Pod
		p.Name, p.UID, p.Created = name, types.UID(name), noon.UnixNano()
		a.Pods = append(a.Pods, &p)
	}
	a.Pod = a.Pods[0]
	return a
}

// A move of a unit is over once all of its pods are new, as many as before, and available.
func TestAMoveOfAUnitEndsWithAWholeUnit(t *testing.T) {
	before := group(od, od, sp, sp)
	before.Replicas, before.Units, before.Identity = 5, true, true
	old := before
	old.Assignments = append(old.Assignments[:4:4], unitOf(od, "leader", "worker"))
	for i := range old.Assignments[4].Pods {
		old.Assignments[4].Pods[i].Created = noon.Add(-time.Hour).UnixNano()
	}
	move := rebalance.NewMove(&old, rebalance.Verdict{Pod: old.Assignments[4].Pod, Target: sp}, noon.Add(-time.Minute))
	recorded := move
	recorded.Before = nil // an earlier leader began it
	newer := func(a clusterstate.Assignment) clusterstate.Assignment {
		for _, p := range a.Pods {
			p.Created = noon.Add(-time.Second).UnixNano()
		}
		return a
	}
	unready := newer(unitOf(sp, "leader-2", "worker-2"))
	unready.Pods[1].Ready = false
	mixed := newer(unitOf(od, "leader-2", "worker"))
	mixed.Pods[1].Created = noon.Add(-time.Hour).UnixNano()
	for name, c := range map[string]struct {
		unit []clusterstate.Assignment
		want []rebalance.Outcome
	}{
		"nothing is there yet":                     {nil, nil},
		"a worker is still there":                  {[]clusterstate.Assignment{mixed}, nil},
		"the new leader is alone":                  {[]clusterstate.Assignment{newer(unitOf(sp, "leader-2"))}, nil},
		"a new worker is not Ready":                {[]clusterstate.Assignment{unready}, nil},
		"the new unit is whole":                    {[]clusterstate.Assignment{newer(unitOf(sp, "leader-2", "worker-2"))}, []rebalance.Outcome{rebalance.Succeeded}},
		"the new unit is whole, on the wrong type": {[]clusterstate.Assignment{newer(unitOf(od, "leader-2", "worker-2"))}, []rebalance.Outcome{rebalance.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []rebalance.Move{move, recorded} {
				g := before
				g.Assignments = append(g.Assignments[:4:4], c.unit...)
				_, ended := rebalance.Advance(rebalance.Entry{Moves: []rebalance.Move{m}, Had: 5}, g, noon, testLimits)
				assert.Equal(t, c.want, outcomes(ended))
			}
		})
	}
}

func TestTheJournalHasTheUnitOfAMove(t *testing.T) {
	in, _ := restarting()
	e := rebalance.Entry{Group: in.Group}
	e.Moves = []rebalance.Move{rebalance.NewMove(&in.Group, rebalance.Choose(in), noon)}
	text, err := rebalance.EncodeJournal([]rebalance.Record{rebalance.RecordOf(&e, noon)})
	require.NoError(t, err)
	records, err := rebalance.DecodeJournal(text, noon, time.Hour)
	require.NoError(t, err)
	again := rebalance.Recall(rebalance.Entry{}, records[0], noon)
	assert.Equal(t, []any{lwsUnit, 2}, []any{again.Moves[0].Unit, again.Moves[0].Size})
}
