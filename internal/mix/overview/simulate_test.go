// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

var now = time.Unix(1_800_000_000, 0)

const scheduler = "berth-scheduler"

// controllerOfAll is the controller of the pods.
var controllerOfAll = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}

// group makes a group of Ready pods; on[k] is where the pod of slot k runs.
func group(m split.Mix, on ...capacity.Type) clusterstate.Group {
	g := clusterstate.Group{
		Workload:  clusterstate.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web"},
		Governing: &governing.Mix{Source: "capacitymix/web", Mix: m}, Replicas: len(on), SchedulerName: scheduler,
	}
	for slot, t := range on {
		id := fmt.Sprintf("web-%d", slot)
		p := &clusterstate.Pod{Namespace: "shop", Name: id, UID: types.UID(id), Node: "n", Ready: true, SchedulerName: scheduler, Labels: map[string]string{"app": "web"}, Owner: controllerOfAll}
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: p, Assignment: split.Assignment{Wants: m.TypeOf(slot), Pod: split.Pod{ID: id, Slot: slot, On: t}}})
	}
	return g
}

// placedBy is the group of n pods that a mix placed, now under another mix.
func placedBy(old, m split.Mix, n int) clusterstate.Group { return group(m, typesOf(old, n)...) }

// typesOf are the types of the first slots of a mix.
func typesOf(m split.Mix, slots int) (out []capacity.Type) {
	for slot := range slots {
		out = append(out, m.TypeOf(slot))
	}
	return out
}

func input(g clusterstate.Group, budgets ...rebalance.DisruptionBudget) *rebalance.Input {
	return overview.PlanInput(g, rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 1}, budgets, []string{scheduler}, nil, now)
}

func simulate(t require.TestingT, in *rebalance.Input, room overview.Room) overview.Outcome {
	out, err := overview.Simulate(context.Background(), in, room)
	require.NoError(t, err)
	return out
}

func onDemand(g *clusterstate.Group) (n int) {
	for _, s := range g.Assignments {
		if s.On == capacity.OnDemand {
			n++
		}
	}
	return n
}

var aMix = rapid.Custom(func(t *rapid.T) split.Mix {
	m := split.New(rapid.Int32Range(0, 100).Draw(t, "spotPercent"), rapid.Int32Range(0, 12).Draw(t, "minOnDemand"))
	if rapid.Bool().Draw(t, "bounded") {
		m.MaxSpot = rapid.Int32Range(0, 20).Draw(t, "maxSpot")
	}
	return m
})

// stepwise is a Room that never ends and looks at every state on the way.
type stepwise struct {
	t     *rapid.T
	group clusterstate.Group
	floor int
}

func (s *stepwise) Prove(_ context.Context, pods []*clusterstate.Pod, to capacity.Type) (overview.Proof, error) {
	p := pods[0]
	for i := range s.group.Assignments {
		assignment := &s.group.Assignments[i]
		if assignment.Pod.UID != p.UID {
			continue
		}
		assert.NotEqual(s.t, assignment.On, to, "a move changes the type")
		without := onDemand(&s.group)
		if assignment.On == capacity.OnDemand {
			without-- // gone, and its replacement is not there yet
		}
		assert.GreaterOrEqual(s.t, without, min(s.floor, onDemand(&s.group)), "on-demand replicas while %s is being moved", p.Name)
		assignment.On = to
	}
	return overview.Proof{Fits: true}, nil
}

func TestAPlanWithCapacityEndsExactInTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aMix.Draw(t, "mix")
		var on []capacity.Type
		if rapid.Bool().Draw(t, "changed mix") {
			old, n := aMix.Draw(t, "old mix"), rapid.IntRange(1, 40).Draw(t, "replicas")
			on = typesOf(old, n)
		} else {
			on = rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}), 1, 40).Draw(t, "on")
		}
		g := group(m, on...)
		wrong := len(g.WrongSide())
		copied := group(m, on...)
		out := simulate(t, input(g), &stepwise{t: t, group: copied, floor: min(int(m.MinOnDemand), len(on))})
		assert.Len(t, out.Moves, wrong)
		assert.Equal(t, wrong, out.Wrong)
		assert.Empty(t, out.Blocked)
		assert.True(t, out.After.Satisfied(), "%s of %d ends at %+v", m, len(on), out.After.Actual())
		before := out.Before.Actual()
		assert.Equal(t, g.Actual(), before, "the group that was given has not changed")
	})
}

// little is capacity for a number of replacements.
type little struct{ left int }

func (l *little) Prove(_ context.Context, pods []*clusterstate.Pod, t capacity.Type) (proof overview.Proof, err error) {
	if l.left < len(pods) {
		return overview.Proof{Why: fmt.Sprintf("no %s node has free capacity for %s", t, pods[l.left].Name)}, nil
	}
	l.left -= len(pods)
	for range pods {
		proof.Nodes = append(proof.Nodes, "roomy")
	}
	proof.Fits = true
	return proof, nil
}

func names(moves []overview.ReplicaMove) (out []string) {
	for _, m := range moves {
		out = append(out, fmt.Sprintf("%s %s>%s slot %d", m.Pod.Name, m.From, m.To, m.Slot))
	}
	return out
}

func TestBorrowedReplicasMoveFromTheHighestSlotDown(t *testing.T) {
	out := simulate(t, input(placedBy(split.New(70, 2), split.New(30, 2), 10)), overview.Ample{})
	assert.Equal(t, []string{
		"web-8 spot>on-demand slot 8", "web-7 spot>on-demand slot 7", "web-5 spot>on-demand slot 5", "web-4 spot>on-demand slot 4",
	}, names(out.Moves))
}

func TestCapacityIsTakenByTheMovesBefore(t *testing.T) {
	out := simulate(t, input(placedBy(split.New(70, 2), split.New(30, 2), 10)), &little{left: 2})
	assert.Len(t, out.Moves, 2)
	require.Len(t, out.Blocked, 2)
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, out.Blocked[0].Reason)
	assert.Equal(t, "no on-demand node has free capacity for web-5", out.Blocked[0].Message)
	assert.Equal(t, []string{"roomy"}, out.Moves[0].Nodes)
}

func TestThePlanReportsPlaceholders(t *testing.T) {
	in := input(placedBy(split.New(70, 2), split.New(30, 2), 10))
	in.Settings.Provisioning = rebalance.WithPlaceholder
	out := simulate(t, in, &little{left: 3})
	assert.Len(t, out.Moves, 3)
	require.Len(t, out.Blocked, 1)
	assert.Equal(t, rebalance.ReasonProvisioning, out.Blocked[0].Reason)
	assert.Equal(t, "no on-demand node has free capacity for web-4; a placeholder pod first makes an autoscaler provide it", out.Blocked[0].Message)

	in = input(placedBy(split.New(70, 2), split.New(30, 2), 10))
	in.Settings.Provisioning, in.Settings.Mode = rebalance.WithPlaceholder, rebalance.Report
	out = simulate(t, in, &little{})
	require.NotEmpty(t, out.Blocked)
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, out.Blocked[0].Reason, "no placeholder is created where nothing moves")
}

func TestThePlanReportsWhatBlocksEachReplica(t *testing.T) {
	to30 := func() clusterstate.Group { return placedBy(split.New(70, 2), split.New(30, 2), 10) }
	budget := func(name string) rebalance.DisruptionBudget {
		return rebalance.DisruptionBudget{Name: name, Selector: labels.Everything(), Observed: true}
	}
	for name, tc := range map[string]struct {
		change  func(*rebalance.Input)
		moves   int
		reasons []*rebalance.Reason
	}{
		"one pod that must stay":    {func(in *rebalance.Input) { annotate(in, 7, pods.DoNotDisrupt, "true") }, 4, nil},
		"a budget that allows none": {func(in *rebalance.Input) { in.Budgets = []rebalance.DisruptionBudget{budget("tight")} }, 0, repeat(rebalance.ReasonPDB, 4)},
		"two budgets":               {func(in *rebalance.Input) { in.Budgets = []rebalance.DisruptionBudget{budget("a"), budget("b")} }, 0, repeat(rebalance.ReasonOverlappingPDBs, 4)},
		"two pods that must stay, and one goes instead": {func(in *rebalance.Input) {
			annotate(in, 7, pods.DoNotDisrupt, "true")
			annotate(in, 8, pods.DoNotDisrupt, "true")
		}, 3, repeat(rebalance.ReasonDoNotDisrupt, 1)},
		"two pods with local data": {func(in *rebalance.Input) {
			in.Group.Assignments[8].Pod.LocalData, in.Group.Assignments[7].Pod.LocalData = "cache", "cache"
		}, 3, repeat(rebalance.ReasonLocalStorage, 1)},
		"two pods that are pinned": {func(in *rebalance.Input) {
			in.Group.Assignments[8].Pod.Pinned, in.Group.Assignments[7].Pod.Pinned = true, true
		}, 3, repeat(rebalance.ReasonPinned, 1)},
		"mode Off":          {func(in *rebalance.Input) { in.Settings.Mode = rebalance.Off }, 0, repeat(rebalance.ReasonOff, 4)},
		"another scheduler": {func(in *rebalance.Input) { in.Group.SchedulerName = "default-scheduler" }, 0, repeat(rebalance.ReasonOtherScheduler, 4)},
		"no controller": {func(in *rebalance.Input) {
			for _, s := range in.Group.Assignments {
				s.Pod.Owner = nil
			}
		}, 0, repeat(rebalance.ReasonNoController, 4)},
		"mode Report plays the moves": {func(in *rebalance.Input) { in.Settings.Mode = rebalance.Report }, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(to30())
			tc.change(in)
			out := simulate(t, in, overview.Ample{})
			assert.Len(t, out.Moves, tc.moves)
			var reasons []*rebalance.Reason
			for _, b := range out.Blocked {
				reasons = append(reasons, b.Reason)
			}
			assert.Equal(t, tc.reasons, reasons)
		})
	}
}

func repeat(r *rebalance.Reason, n int) []*rebalance.Reason {
	return slices.Repeat([]*rebalance.Reason{r}, n)
}

func annotate(in *rebalance.Input, slot int, key, value string) {
	in.Group.Assignments[slot].Pod.Annotations = map[string]string{key: value}
}

func TestATemporaryReasonOnlyDelays(t *testing.T) {
	g := placedBy(split.New(70, 2), split.New(30, 2), 10)
	g.Rollout = clusterstate.Rollout{Rolling: true}
	g.Assignments[0].Pod.Ready = false
	out := simulate(t, input(g), overview.Ample{})
	assert.Len(t, out.Moves, 4)
	var waits []*rebalance.Reason
	for _, v := range out.Waits {
		waits = append(waits, v.Reason)
	}
	assert.Equal(t, []*rebalance.Reason{rebalance.ReasonRollingOut, rebalance.ReasonNotReady}, waits)
	assert.False(t, g.Assignments[0].Pod.Ready, "the pods that were given have not changed")
}

func TestAStatefulReplacementHasTheSlotOfItsPredecessor(t *testing.T) {
	m := split.New(50, 0)
	g := group(m, capacity.OnDemand, capacity.OnDemand, capacity.OnDemand, capacity.OnDemand)
	g.Identity = true
	out := simulate(t, input(g), overview.Ample{})
	assert.Equal(t, []string{"web-3 on-demand>spot slot 3", "web-1 on-demand>spot slot 1"}, names(out.Moves))
}

// The verdict about one replica is that of the rebalancer, whichever replica it
// would look at first.
func TestAboutIsTheVerdictAboutThatReplica(t *testing.T) {
	in := input(placedBy(split.New(70, 2), split.New(30, 2), 10))
	annotate(in, 8, pods.SafeToEvict, "false")
	for _, assignment := range in.Group.WrongSide() {
		v := overview.VerdictAbout(in, assignment)
		require.NotNil(t, v.Pod)
		assert.Equal(t, assignment.Pod.Name, v.Pod.Name)
		want := rebalance.ReasonMove
		if assignment.Slot == 8 {
			want = rebalance.ReasonDoNotDisrupt
		}
		assert.Equal(t, want, v.Reason, assignment.Pod.Name)
	}
}

// Where low slots are free, the replacement of the highest would take one of
// the type that is overfull: another goes instead.
func TestAGapIsWorkedAround(t *testing.T) {
	g := group(split.New(50, 0), capacity.OnDemand, capacity.OnDemand, capacity.OnDemand, capacity.OnDemand)
	g.Assignments = append(g.Assignments[:2], g.Assignments[3]) // slot 2, on-demand, is free
	g.Replicas = 3
	out := simulate(t, input(g), overview.Ample{})
	assert.Equal(t, []string{"web-1 on-demand>spot slot 1"}, names(out.Moves))
	assert.True(t, out.After.Satisfied())
}

func TestReplicasThatAreNotCreatedYetCount(t *testing.T) {
	g := placedBy(split.New(70, 2), split.New(30, 2), 9)
	g.Replicas = 10
	out := simulate(t, input(g), overview.Ample{})
	require.Len(t, out.Waits, 1)
	assert.Equal(t, rebalance.ReasonNotReady, out.Waits[0].Reason)
	assert.Len(t, out.Moves, out.Wrong)
	assert.Empty(t, out.Blocked)
	assert.Len(t, out.After.Assignments, 10)
}

func TestAPlanForMillionsOfReplicasIsBounded(t *testing.T) {
	g := placedBy(split.New(70, 2), split.New(30, 2), 9)
	g.Replicas = math.MaxInt32
	out := simulate(t, input(g), overview.Ample{})
	require.Len(t, out.Waits, 1)
	assert.Equal(t, rebalance.ReasonNotReady, out.Waits[0].Reason)
	assert.Empty(t, out.Moves)
	assert.Len(t, out.After.Assignments, 9)
}

func TestAReplacedUnitIsAUnit(t *testing.T) {
	g := placedBy(split.New(0, 0), split.New(50, 0), 4)
	g.Units = true
	for i := range g.Assignments {
		a := &g.Assignments[i]
		a.Unit, a.Pods = fmt.Sprint("key-", i), []*clusterstate.Pod{a.Pod}
	}
	out := simulate(t, input(g), overview.Ample{})
	require.Len(t, out.Moves, 2)
	assert.Equal(t, overview.Parts{Units: 4, Pods: 4}, overview.PartsOf(&out.After))
	for i := range out.After.Assignments {
		a := &out.After.Assignments[i]
		assert.NotEmpty(t, a.Unit)
		assert.Equal(t, []*clusterstate.Pod{a.Pod}, a.Members())
	}
}

// setOfUnits is a LeaderWorkerSet of four groups of two pods on on-demand, of which two belong on spot.
func setOfUnits() clusterstate.Group {
	g := placedBy(split.New(0, 0), split.New(50, 0), 4)
	g.Units, g.Identity = true, true
	g.Workload = clusterstate.Workload{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Namespace: "shop", Name: "llm"}
	for i := range g.Assignments {
		a := &g.Assignments[i]
		a.Pod.Owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "llm", UID: "llm", Controller: new(true)}
		a.Pod.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": "llm"}
		worker := *a.Pod
		worker.Name, worker.UID = a.Pod.Name+"-1", a.Pod.UID+"-1"
		a.ID, a.Unit, a.Pods = fmt.Sprint("unit/key-", i), fmt.Sprint("key-", i), []*clusterstate.Pod{a.Pod, &worker}
	}
	return g
}

func ofUnits(scale *rebalance.Scale) *rebalance.Input {
	return overview.PlanInput(setOfUnits(), rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 1}, nil, []string{scheduler}, scale, now)
}

func TestAPlanMovesAUnitWithAllOfItsPods(t *testing.T) {
	whole := &rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 4, Known: true}
	out := simulate(t, ofUnits(whole), &little{left: 4})
	require.Empty(t, out.Blocked)
	assert.Equal(t, []string{"web-3 on-demand>spot slot 3", "web-1 on-demand>spot slot 1"}, names(out.Moves))
	assert.Equal(t, "key-3", out.Moves[0].Unit)
	assert.Len(t, out.Moves[0].Members, 2)
	assert.Equal(t, []string{"roomy", "roomy"}, out.Moves[0].Nodes)
	assert.Equal(t, overview.Parts{Units: 4, Pods: 8}, overview.PartsOf(&out.After))
	assert.True(t, out.After.Satisfied())

	in := ofUnits(whole)
	in.Settings.Provisioning = rebalance.WithPlaceholder
	out = simulate(t, in, &little{left: 3})
	assert.Len(t, out.Moves, 1, "there is capacity for half of a unit")
	require.Len(t, out.Blocked, 1)
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, out.Blocked[0].Reason, "no placeholder holds the capacity of a unit")
}

// A plan that promises what the controller refuses is worse than none.
func TestAPlanMovesNoUnitThatTheControllerLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		scale *rebalance.Scale
		want  *rebalance.Reason
	}{
		"nothing was read":           {nil, rebalance.ReasonUnitWouldRestart},
		"it may not be read":         {&rebalance.Scale{}, rebalance.ReasonUnitWouldRestart},
		"the others are not created": {&rebalance.Scale{Restart: rebalance.RestartSingle}, rebalance.ReasonUnitWouldRestart},
		"a group is missing":         {&rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 5, Known: true}, rebalance.ReasonReplicasMissing},
	} {
		t.Run(name, func(t *testing.T) {
			out := simulate(t, ofUnits(c.scale), overview.Ample{})
			assert.Empty(t, out.Moves)
			require.Len(t, out.Blocked, 2)
			assert.Equal(t, c.want, out.Blocked[0].Reason)
		})
	}
}
