// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// drained is a workload that has its mix, two replicas of which run on on-demand nodes that depart.
func drained(cause capacity.Cause, change ...func(*rebalance.Evaluation)) *rebalance.Evaluation {
	g := groupOn(split.New(50, 2), od, od, sp, sp)
	releasable(&g)
	w := rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, g, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
	w.Settings = outOfMix().Settings
	w.Settings.Strategy = rebalance.Surge
	for i := range w.Group.Assignments {
		if a := &w.Group.Assignments[i]; a.On == od {
			a.Place, a.Cause = clusterstate.Departing, cause
		}
	}
	for _, c := range change {
		c(w)
	}
	return w
}

// again is the next evaluation of a workload whose watch has shown nothing new.
func again(w *rebalance.Evaluation, group clusterstate.Group, after time.Duration) *rebalance.Evaluation {
	next := rebalance.Begin(w.Entry, w.Entry, group, nil, true, w.Now.Add(after), rebalance.Limits{Timeout: 10 * time.Minute})
	next.Settings, next.Placeholders = w.Settings, w.Placeholders
	return next
}

// evaluate plans until a workload rests, and returns what was done. The answer is that to the release of a replica.
func evaluate(t *testing.T, w *rebalance.Evaluation, mayFit bool, answer func(rebalance.Action) error) (all []rebalance.Action) {
	t.Helper()
	for range 100 {
		cluster := outOfMix().Cluster
		cluster.Now = w.Now
		in := w.Input(cluster, w.InFlight(), func(capacity.Type, *clusterstate.Pod) bool { return mayFit })
		a := rebalance.Plan(in)[0]
		all = append(all, a)
		r := rebalance.Result{}
		switch a.Step {
		case rebalance.StepFlee:
			r.Err = answer(a)
		case rebalance.StepProvision:
			r.Created = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "new-" + a.Verdict.Pod.UID}}
		}
		if w.Apply(a, r); a.Step == rebalance.StepRest {
			return all
		}
	}
	require.Fail(t, "the workload does not rest")
	return nil
}

func stepsOf(all []rebalance.Action) (steps []rebalance.Step) {
	for i := range all {
		steps = append(steps, all[i].Step)
	}
	return steps
}

func fits(rebalance.Action) error { return nil }

func full(rebalance.Action) error {
	return rebalance.ReasonInsufficientCapacity.Obstacle(rebalance.HoldInsufficientCapacity, "no on-demand node has free capacity")
}

// Released without a place for its replacement, a replica ends at its deadline.
func TestADrainReleasesAReplicaOnlyToAPlace(t *testing.T) {
	for _, cause := range []capacity.Cause{capacity.Maintenance, capacity.Autoscaler} {
		w := drained(cause)
		group := w.Group
		all := evaluate(t, w, true, full)
		assert.Equal(t, []rebalance.Step{rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepRest}, stepsOf(all),
			"one proof answers for all replicas of a type")
		assert.True(t, all[1].Proves)
		assert.Equal(t, rebalance.ReasonInsufficientCapacity, w.Verdict.Reason)
		assert.Contains(t, w.Verdict.Message, "and pod web-0 is not released: no on-demand node has free capacity")
		assert.Equal(t, noon.Add(rebalance.HoldMisplaced), w.Verdict.RetryAt)
		assert.Equal(t, w.Verdict.RetryAt, w.Next)
		assert.False(t, w.Settled())

		early := again(w, group, time.Second)
		assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, early, true, fits)), "it is not proven all the time")
		assert.Equal(t, rebalance.ReasonInsufficientCapacity, early.Verdict.Reason)

		later := again(early, group, rebalance.HoldMisplaced)
		steps := stepsOf(evaluate(t, later, true, fits))
		assert.Equal(t, []rebalance.Step{
			rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepRest,
		}, steps, "there is capacity")
		assert.Equal(t, rebalance.ReasonOnTarget, later.Verdict.Reason)
	}
}

func TestADrainWithoutCapacityIsNotProven(t *testing.T) {
	w := drained(capacity.Maintenance)
	assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, w, false, fits)))
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, w.Verdict.Reason)
	assert.Equal(t, "node node is being drained, and pod web-0 is not released: no on-demand node has free capacity for its replacement",
		w.Verdict.Message)
	assert.True(t, w.Verdict.RetryAt.IsZero(), "a node that frees capacity ends it")
}

// The node is gone before capacity comes.
func TestAReplicaThatIsLostSoonNeedsNoPlace(t *testing.T) {
	label := func(w *rebalance.Evaluation) {
		for _, a := range w.Group.Assignments {
			a.Pod.Labels[v1alpha1.FloorLabel] = "x"
		}
	}
	protected := func(w *rebalance.Evaluation) {
		label(w)
		mix := *w.Group.Governing
		mix.ProtectFloor, w.Group.Governing = true, &mix
	}
	for name, c := range map[string]struct {
		cause  capacity.Cause
		change func(*rebalance.Evaluation)
		proves bool
	}{
		"a notice":   {capacity.Interruption, protected, false},
		"a deletion": {capacity.Deletion, func(*rebalance.Evaluation) {}, false},
		"a deletion that the floor's budget holds":            {capacity.Deletion, protected, true},
		"a deletion with a label of a budget that is removed": {capacity.Deletion, label, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := drained(c.cause, c.change)
			all := evaluate(t, w, false, fits)
			assert.Equal(t, !c.proves, slices.Contains(stepsOf(all), rebalance.StepFlee))
			for i := range all {
				assert.False(t, all[i].Proves)
			}
		})
	}
}

// A snapshot does not have replacements that have no node yet: their places would be promised twice.
func TestADrainReleasesNoMoreBeforeTheLastOnesAreReplaced(t *testing.T) {
	w := drained(capacity.Maintenance)
	group := w.Group
	one := 0
	evaluate(t, w, true, func(a rebalance.Action) error {
		if one++; one > 1 {
			return full(a)
		}
		return nil
	})
	require.Equal(t, 2, one)
	stale := again(w, group, time.Second)
	assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, stale, true, fits)))
	assert.Equal(t, rebalance.ReasonStaleView, stale.Verdict.Reason, "the watch may not show it yet")
	assert.Equal(t, noon.Add(rebalance.HoldMisplaced), stale.Next)

	group.Leaving = []types.UID{"web-0"}
	beside := again(w, group, time.Minute)
	assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, beside, true, fits)))
	assert.Equal(t, rebalance.ReasonNotReady, beside.Verdict.Reason)
	group.Leaving = nil
	replaced := again(beside, group, time.Second)
	assert.Contains(t, stepsOf(evaluate(t, replaced, true, fits)), rebalance.StepFlee)
}

func TestAPlaceholderRequestsTheCapacityThatADrainLacks(t *testing.T) {
	w := drained(capacity.Maintenance, func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder })
	group := w.Group
	assert.Equal(t, []rebalance.Step{rebalance.StepProvision, rebalance.StepProvision, rebalance.StepRest}, stepsOf(evaluate(t, w, false, fits)))
	w.Placeholders = []rebalance.Placeholder{
		{UID: "h0", Replica: "web-0", Holder: rebalance.Holder{Target: od, Created: noon}},
		{UID: "h1", Replica: "web-1", Holder: rebalance.Holder{Target: od, Created: noon}},
	}
	waiting := again(w, group, time.Second)
	assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, waiting, false, fits)), "no node has come yet")
	w.Placeholders[0].Running = true
	runs := again(w, group, 2*time.Second)
	all := evaluate(t, runs, false, fits) // by plain numbers, it takes the capacity itself
	require.Contains(t, stepsOf(all), rebalance.StepFlee)
	for i := range all {
		if a := &all[i]; a.Step == rebalance.StepFlee {
			assert.Equal(t, types.UID("web-0"), a.Verdict.Pod.UID)
			require.NotNil(t, a.Placeholder)
			assert.Equal(t, types.UID("h0"), a.Placeholder.UID)
		}
	}

	autoscaler := drained(capacity.Autoscaler, func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder })
	assert.Equal(t, []rebalance.Step{rebalance.StepRest}, stepsOf(evaluate(t, autoscaler, false, fits)), "its own nodes are about to come")
}

// Workloads with these verdicts have their turn in the budget of the cluster.
func TestADrainDoesNotHideThatAMoveWaitsForItsTurn(t *testing.T) {
	for limit, want := range map[int]*rebalance.Reason{0: rebalance.ReasonClusterBudget, 5: rebalance.ReasonInsufficientCapacity} {
		in := outOfMix()
		releasable(&in.Group)
		before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
		w := rebalance.Begin(before, before, in.Group, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
		w.Settings = in.Settings
		w.Settings.Strategy, w.Settings.MaxConcurrent = rebalance.Surge, limit
		depart(capacity.Maintenance, 0)(w)
		if in.Cluster.Limit = limit; limit == 0 {
			w.Settings.MaxConcurrent = 2
		} else {
			w.Settings.Windows = window("0 3 * * *")
		}
		plan := rebalance.Plan(w.Input(in.Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return false }))
		assert.Equal(t, rebalance.StepRest, plan[0].Step)
		assert.Equal(t, want, plan[0].Verdict.Reason)
	}
}

// What is against the release of one replica is no reason for others, and no time that is over is due again.
func TestAReleaseThatFailsHoldsItsReplicaOnly(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		holds bool
	}{
		"no place":      {rebalance.ReasonInsufficientCapacity.Obstacle(time.Minute, "full"), true},
		"a quota":       {rebalance.ReasonQuota.Obstacle(time.Minute, "used up"), true},
		"another error": {errors.New("a webhook refused the patch"), false},
	} {
		w := drained(capacity.Maintenance)
		p := w.Group.Assignments[0].Pod
		w.Apply(rebalance.Action{
			Step: rebalance.StepFlee, Flees: true, Proves: true, Verdict: rebalance.Verdict{Pod: p, Target: capacity.OnDemand},
		}, rebalance.Result{Err: c.err})
		assert.Equal(t, c.holds, len(w.Unplaced) == 1, name)
		assert.Equal(t, !c.holds, len(w.Flights) == 1, name)
		later := w.Now.Add(time.Hour)
		if due := w.Due(later, 10*time.Minute); !due.IsZero() {
			assert.True(t, due.After(later), name)
		}
	}
}
