// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// releasable gives the pods of a group the label that their ReplicaSet selects them by.
func releasable(g *clusterstate.Group) {
	g.Workload.APIVersion = "apps/v1"
	for _, a := range g.Assignments {
		a.Pod.Labels = map[string]string{"app": "web", "pod-template-hash": "1"}
	}
}

// surging is the evaluation of outOfMix with a strategy, and what is against a release.
func surging(s rebalance.Strategy, against string, change ...func(*rebalance.Evaluation)) (steps []rebalance.Step, w *rebalance.Evaluation) {
	in := outOfMix()
	releasable(&in.Group)
	before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
	w = rebalance.Begin(before, before, in.Group, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
	w.Settings = in.Settings
	w.Settings.Strategy, w.Settings.MaxConcurrent = s, 1
	for _, c := range change {
		c(w)
	}
	for range 100 {
		plan := w.Input(in.Cluster, w.InFlight(), func(capacity.Type, *clusterstate.Pod) bool { return true })
		for _, a := range rebalance.Plan(plan) {
			steps = append(steps, a.Step)
			w.Apply(a, answer(a, plan, against))
			if a.Step == rebalance.StepRest {
				return steps, w
			}
		}
	}
	return steps, w
}

// answer is that of an API server which has the pods as they are.
func answer(a rebalance.Action, in *rebalance.Input, against string) (r rebalance.Result) {
	switch a.Step {
	case rebalance.StepSurvey:
		r.Unreleasable = against
	case rebalance.StepMove:
		r.Proof = &rebalance.Proof{}
		for _, s := range in.Group.Assignments {
			r.Proof.Live = append(r.Proof.Live, liveOf(s.Pod))
		}
	case rebalance.StepEvict, rebalance.StepSurge:
		m := a.Move
		r.Began = &m
	case rebalance.StepProvision:
		r.Created = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new-" + a.Verdict.Pod.UID}}
	}
	return r
}

func liveOf(p *clusterstate.Pod) corev1.Pod {
	live := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Spec: corev1.PodSpec{NodeName: p.Node}}
	live.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return live
}

func TestAReplicaIsReleasedOnceItIsKnownThatItCanBe(t *testing.T) {
	steps, w := surging(rebalance.Surge, "")
	assert.Equal(t, []rebalance.Step{rebalance.StepSurvey, rebalance.StepMove, rebalance.StepSurge, rebalance.StepRest}, steps)
	require.Len(t, w.Moves, 1)
	assert.True(t, w.Moves[0].Released)
	assert.Equal(t, rebalance.ReasonMixBudget, w.Verdict.Reason, "one at a time")

	steps, _ = surging(rebalance.EvictFirst, "")
	assert.Equal(t, []rebalance.Step{rebalance.StepMove, rebalance.StepEvict, rebalance.StepRest}, steps)
}

func TestWhatCannotBeReleasedIsEvictedOrStays(t *testing.T) {
	steps, w := surging(rebalance.SurgeOrEvict, "a Service")
	assert.Equal(t, []rebalance.Step{rebalance.StepSurvey, rebalance.StepMove, rebalance.StepEvict, rebalance.StepRest}, steps)
	require.Len(t, w.Moves, 1)
	assert.False(t, w.Moves[0].Released)

	steps, w = surging(rebalance.Surge, "a Service")
	assert.Equal(t, []rebalance.Step{rebalance.StepSurvey, rebalance.StepRest}, steps)
	assert.Empty(t, w.Moves)
	assert.Equal(t, rebalance.ReasonNotReleasable, w.Verdict.Reason)
	assert.Equal(t, "rebalance.strategy is Surge, and a Service", w.Verdict.Message)
	assert.Equal(t, noon.Add(rebalance.HoldReplacement), w.Verdict.RetryAt, "it is read again after a while, and not at each evaluation")
	again := rebalance.Begin(w.Entry, w.Entry, w.Group, nil, false, noon.Add(time.Second), rebalance.Limits{Timeout: 10 * time.Minute})
	again.Settings = w.Settings
	plan := rebalance.Plan(again.Input(outOfMix().Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true }))
	assert.Equal(t, rebalance.StepRest, plan[0].Step)
}

// A budget that allows no pod to be missing is no reason to keep a replica that goes after its replacement has come.
func TestABudgetThatAllowsNoneIsNoObstacleForARelease(t *testing.T) {
	tight := func(w *rebalance.Evaluation) { w.Budgets = budgetOf(0) }
	steps, _ := surging(rebalance.Surge, "", tight)
	assert.Contains(t, steps, rebalance.StepSurge)
	steps, w := surging(rebalance.SurgeOrEvict, "a Service", tight)
	assert.NotContains(t, steps, rebalance.StepEvict)
	assert.Equal(t, rebalance.ReasonPDB, w.Verdict.Reason)
}

// What no label releases is known without a question to the API server.
func TestPodsThatNoLabelReleasesAreNotSurveyed(t *testing.T) {
	for name, change := range map[string]func(*rebalance.Evaluation){
		"StatefulSet": func(w *rebalance.Evaluation) {
			w.Group.Workload.Kind = "StatefulSet"
		},
		"Recreate": func(w *rebalance.Evaluation) { w.Group.Recreate = true },
		"no label": func(w *rebalance.Evaluation) {
			for _, a := range w.Group.Assignments {
				delete(a.Pod.Labels, "pod-template-hash")
			}
		},
		"a Deployment is the controller": func(w *rebalance.Evaluation) {
			for _, a := range w.Group.Assignments {
				a.Pod.Owner = ownerOf("web")
				a.Pod.Owner.Kind = "Deployment"
			}
		},
		"unit": func(w *rebalance.Evaluation) {
			for i := range w.Group.Assignments {
				unite(&w.Group.Assignments[i], "unit")
			}
			w.Restart = rebalance.RestartWhole
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps, w := surging(rebalance.Surge, "", change)
			assert.Equal(t, []rebalance.Step{rebalance.StepRest}, steps)
			assert.NotEqual(t, rebalance.ReasonOnTarget, w.Verdict.Reason)
		})
	}
}

// interrupt has the providers of some replicas' nodes reclaim them.
func interrupt(slots ...int) func(*rebalance.Evaluation) {
	return depart(capacity.Interruption, slots...)
}

func depart(cause capacity.Cause, slots ...int) func(*rebalance.Evaluation) {
	return func(w *rebalance.Evaluation) {
		for i := range w.Group.Assignments {
			for _, slot := range slots {
				if a := &w.Group.Assignments[i]; a.Slot == slot {
					a.Place, a.Cause = clusterstate.Departing, cause
				}
			}
		}
	}
}

func TestReplicasOnANodeThatIsReclaimedAreReleasedAtOnce(t *testing.T) {
	closed := func(w *rebalance.Evaluation) { w.Settings.Windows = window("0 3 * * *") }
	steps, w := surging(rebalance.Surge, "", interrupt(0, 3), closed)
	flights := []rebalance.Step{rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepSurvey, rebalance.StepFlee}
	require.GreaterOrEqual(t, len(steps), 4)
	assert.Equal(t, flights, steps[:4], "whatever keeps others from moving")
	assert.Empty(t, w.Moves, "a flight is no move")

	for name, c := range map[string]struct {
		strategy rebalance.Strategy
		change   func(*rebalance.Evaluation)
	}{
		"the strategy is Evict": {rebalance.EvictFirst, func(*rebalance.Evaluation) {}},
		"the mode is Off":       {rebalance.Surge, func(w *rebalance.Evaluation) { w.Settings.Mode = rebalance.Off }},
		"the mode is Report":    {rebalance.Surge, func(w *rebalance.Evaluation) { w.Settings.Mode = rebalance.Report }},
		"the mix is paused":     {rebalance.Surge, func(w *rebalance.Evaluation) { w.Settings.Paused = &rebalance.Pause{Scope: rebalance.PausedMix} }},
		"a rollout":             {rebalance.Surge, func(w *rebalance.Evaluation) { w.Group.Rollout.Rolling = true }},
		"the owner ended":       {rebalance.Surge, func(w *rebalance.Evaluation) { w.Group.Ended = true }},
		"the pods stay": {rebalance.Surge, func(w *rebalance.Evaluation) {
			for _, a := range w.Group.Assignments {
				annotate(a.Pod, pods.DoNotDisrupt, "true")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _ := surging(c.strategy, "", interrupt(0, 3), c.change)
			assert.NotContains(t, steps, rebalance.StepFlee)
		})
	}
}

func TestAReplicaThatCannotBeReleasedDoesNotFlee(t *testing.T) {
	steps, _ := surging(rebalance.SurgeOrEvict, "a Service", interrupt(0, 3))
	assert.NotContains(t, steps, rebalance.StepFlee)
	assert.Contains(t, steps, rebalance.StepEvict, "the others move")
}

func TestAReleasedReplicaGoesOnceAllOthersAreAvailable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clusterstate.Crew{MinReady: time.Duration(rapid.IntRange(0, 30).Draw(t, "minReadySeconds")) * time.Second}
		places := []clusterstate.Place{clusterstate.Settled, clusterstate.Settled, clusterstate.Settled, clusterstate.Departing, clusterstate.Pending}
		whole, n := true, rapid.IntRange(0, 5).Draw(t, "pods")
		for range n {
			p := &clusterstate.Pod{Ready: rapid.IntRange(0, 9).Draw(t, "ready") > 0}
			p.ReadySince = noon.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "ready for")) * time.Second).Unix()
			place := rapid.SampledFrom(places).Draw(t, "place")
			c.Live, c.Places = append(c.Live, p), append(c.Places, place)
			available := p.Ready && (c.MinReady == 0 || !noon.Before(time.Unix(p.ReadySince, 0).Add(c.MinReady)))
			whole = whole && (place == clusterstate.Departing || place == clusterstate.Settled && available)
		}
		c.Asked = n + rapid.IntRange(0, 1).Draw(t, "missing")
		ok, next := rebalance.Retires(&c, noon)
		assert.Equal(t, c.Asked == 0 || whole && n == c.Asked, ok)
		if !next.IsZero() {
			assert.False(t, ok)
			assert.True(t, next.After(noon))
		}
		c.Asked = 0
		ok, _ = rebalance.Retires(&c, noon)
		assert.True(t, ok, "no other one comes")
	})
}

// The next replica would be released beside the first one, and so on: a budget that never allows an eviction would double the workload.
func TestAMoveIsNotOverWhileItsReplicaRuns(t *testing.T) {
	_, w := surging(rebalance.Surge, "")
	require.Len(t, w.Moves, 1)
	g := w.Group
	g.Assignments = slices.Clone(g.Assignments)
	for i := range g.Assignments { // the replacement is available
		a := &g.Assignments[i]
		if p := *a.Pod; p.UID == w.Moves[0].UID {
			p.UID, p.Name = "next", "next"
			a.Pod, a.ID, a.On, a.Place = &p, "next", sp, clusterstate.Settled
		}
	}
	limits := rebalance.Limits{Timeout: 10 * time.Minute}
	g.Leaving = []types.UID{w.Moves[0].UID}
	still := rebalance.Begin(w.Entry, w.Entry, g, nil, false, noon, limits)
	assert.Len(t, still.Moves, 1)
	late := rebalance.Begin(w.Entry, w.Entry, g, nil, false, noon.Add(time.Hour), limits)
	require.Len(t, late.Ended, 1)
	assert.Equal(t, rebalance.TimedOut, late.Ended[0].Outcome)
	in := outOfMix()
	in.Group = g
	assert.Equal(t, rebalance.ReasonNotReady, rebalance.Choose(in).Reason, "and no other one begins")
	g.Leaving = nil
	over := rebalance.Begin(w.Entry, w.Entry, g, nil, false, noon, limits)
	require.Len(t, over.Ended, 1)
	assert.Equal(t, rebalance.Succeeded, over.Ended[0].Outcome)
}

func TestAJournalHasWhatWasReleased(t *testing.T) {
	_, w := surging(rebalance.Surge, "")
	record := rebalance.RecordOf(&w.Entry, noon)
	recalled := rebalance.Recall(rebalance.Entry{}, record, noon)
	require.Len(t, recalled.Moves, 1)
	assert.True(t, recalled.Moves[0].Released)
	assert.Equal(t, types.UID("web-4"), recalled.Moves[0].UID)
}

// Where replicas are not released, placeholders request the capacity for what comes after them.
func TestPlaceholdersRequestTheCapacityOfReplicasThatAreAboutToGo(t *testing.T) {
	provision := func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder }
	for name, c := range map[string]struct {
		strategy rebalance.Strategy
		against  string
		want     []rebalance.Step
	}{
		"evicted": {rebalance.EvictFirst, "", []rebalance.Step{rebalance.StepProvision, rebalance.StepProvision}},
		"cannot be released": {
			rebalance.SurgeOrEvict, "a Service", []rebalance.Step{rebalance.StepSurvey, rebalance.StepProvision, rebalance.StepProvision},
		},
		"released": {
			rebalance.Surge, "", []rebalance.Step{rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepSurvey, rebalance.StepFlee},
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps, w := surging(c.strategy, c.against, interrupt(0, 3), provision)
			require.GreaterOrEqual(t, len(steps), len(c.want))
			assert.Equal(t, c.want, steps[:len(c.want)])
			if name != "released" {
				assert.Len(t, w.Placeholders, 2)
			}
		})
	}
	steps, w := surging(rebalance.EvictFirst, "", interrupt(0, 3))
	assert.NotContains(t, steps, rebalance.StepProvision, "not without the setting")
	assert.Empty(t, w.Placeholders)
}

func TestAPlaceholderStaysWhileItsReplicaIsAboutToGo(t *testing.T) {
	provision := func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder }
	_, w := surging(rebalance.EvictFirst, "", interrupt(0), provision)
	require.Len(t, w.Placeholders, 1)
	h := w.Placeholders[0]
	in := outOfMix()
	in.Settings.Provisioning = rebalance.WithPlaceholder
	in.Group = w.Group
	late := rebalance.Holder{Target: h.Target, Created: noon.Add(-time.Hour)}
	step, v := in.Next(h.Replica, late, time.Minute)
	assert.Equal(t, rebalance.StepWait, step, "however long that takes")
	assert.Equal(t, rebalance.ReasonProvisioning, v.Reason)
	late.Lost = true
	step, _ = in.Next(h.Replica, late, time.Minute)
	assert.Equal(t, rebalance.StepDrop, step)
	late.Lost, in.Settings.Provisioning = false, rebalance.Wait
	step, _ = in.Next(h.Replica, late, time.Minute)
	assert.Equal(t, rebalance.StepDrop, step, "the mix has none any more")
	in.Settings.Provisioning = rebalance.WithPlaceholder
	in.Group.Assignments[0].Place, in.Group.Assignments[0].Cause = clusterstate.Settled, ""
	step, _ = in.Next(h.Replica, late, time.Minute)
	assert.Equal(t, rebalance.StepDrop, step, "the node stays after all")
}

// It would take the place of the placeholder only after that is gone, and goes to the other type before.
func TestAReplacementThatDoesNotWaitHasNoPlaceholder(t *testing.T) {
	steps, w := surging(rebalance.EvictFirst, "", interrupt(3), func(w *rebalance.Evaluation) {
		w.Settings.Provisioning = rebalance.WithPlaceholder
		w.Group.Governing.BorrowOnDemand = true
	})
	assert.NotContains(t, steps, rebalance.StepProvision)
	assert.Empty(t, w.Placeholders)
}

func TestTheCauseDecidesWhoLeavesADepartingNode(t *testing.T) {
	provision := func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder }
	for cause, c := range map[capacity.Cause]struct{ flees, provisions bool }{
		capacity.Interruption: {true, true}, capacity.Maintenance: {true, true}, capacity.Autoscaler: {true, false},
		capacity.Deletion: {true, false}, capacity.Health: {false, false},
	} {
		steps, _ := surging(rebalance.Surge, "", depart(cause, 3))
		assert.Equal(t, c.flees, slices.Contains(steps, rebalance.StepFlee), cause)
		steps, _ = surging(rebalance.EvictFirst, "", depart(cause, 3), provision)
		assert.Equal(t, c.provisions, slices.Contains(steps, rebalance.StepProvision), cause)
	}
}

// A replica that waits to be moved waits for no notice.
func TestWhatHoldsAReplicaFromAMoveDoesNotHoldItsFlight(t *testing.T) {
	held := func(w *rebalance.Evaluation) {
		for _, a := range w.Group.Assignments {
			v := rebalance.Verdict{Reason: rebalance.ReasonRefused, Pod: a.Pod, RetryAt: noon.Add(time.Hour)}
			w.HoldBack(&rebalance.Hold{Verdict: v, Until: v.RetryAt})
		}
	}
	steps, _ := surging(rebalance.Surge, "", interrupt(3), held)
	assert.Contains(t, steps, rebalance.StepFlee)
}

// No placeholder is paid for a replica that cannot be released.
func TestPlaceholdersAreForReplicasThatCanBeReleased(t *testing.T) {
	full := func(w *rebalance.Evaluation) { w.Settings.Provisioning = rebalance.WithPlaceholder }
	in := outOfMix()
	releasable(&in.Group)
	before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
	w := rebalance.Begin(before, before, in.Group, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
	w.Settings = in.Settings
	w.Settings.Strategy = rebalance.Surge
	full(w)
	plan := rebalance.Plan(w.Input(in.Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return false }))
	require.Len(t, plan, 1)
	assert.Equal(t, rebalance.StepSurvey, plan[0].Step)
	w.Apply(plan[0], rebalance.Result{Unreleasable: "an autoscaler"})
	plan = rebalance.Plan(w.Input(in.Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return false }))
	assert.Equal(t, rebalance.StepRest, plan[0].Step)
}

// A replacement that has no place beside its replica may have one in its place.
func TestAReplicaIsEvictedWhereTwoHaveNoPlace(t *testing.T) {
	for s, want := range map[rebalance.Strategy]rebalance.Step{rebalance.Surge: rebalance.StepRest, rebalance.SurgeOrEvict: rebalance.StepEvict} {
		in := outOfMix()
		releasable(&in.Group)
		before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
		w := rebalance.Begin(before, before, in.Group, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
		w.Settings = in.Settings
		w.Settings.Strategy, w.Settings.MaxConcurrent = s, 1
		var last rebalance.Step
		for range 20 {
			plan := w.Input(in.Cluster, w.InFlight(), func(capacity.Type, *clusterstate.Pod) bool { return true })
			a := rebalance.Plan(plan)[0]
			if last = a.Step; last == rebalance.StepRest || last == rebalance.StepEvict {
				break
			}
			r := answer(a, plan, "")
			if a.Step == rebalance.StepMove && a.Surge {
				r = rebalance.Result{Err: rebalance.ReasonInsufficientCapacity.Obstacle(time.Minute, "one for each zone")}
			}
			w.Apply(a, r)
		}
		assert.Equal(t, want, last, s)
	}
}

// A proof may take longer than a hold: what failed in an evaluation is not tried again in it.
func TestAFlightThatFailsIsTriedOnceInAnEvaluation(t *testing.T) {
	in := outOfMix()
	releasable(&in.Group)
	w := rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, in.Group, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
	w.Settings = in.Settings
	w.Settings.Strategy, w.Settings.MaxConcurrent = rebalance.Surge, 0 // no other one moves
	interrupt(3)(w)
	tries := 0
	for range 20 {
		cluster := in.Cluster
		cluster.Now = cluster.Now.Add(time.Duration(tries) * time.Minute)
		a := rebalance.Plan(w.Input(cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true }))[0]
		if a.Step == rebalance.StepRest {
			w.Apply(a, rebalance.Result{})
			break
		}
		require.True(t, a.Flees)
		tries++
		w.Apply(a, rebalance.Result{Err: rebalance.Changed(a.Verdict.Pod)})
	}
	assert.Equal(t, 1, tries)
	assert.False(t, w.Settled(), "it is tried again")
	assert.False(t, w.Next.IsZero())
}

func TestOneEvaluationHasFewFlights(t *testing.T) {
	g := groupOn(split.New(100, 0), slices.Repeat([]capacity.Type{sp}, 30)...)
	releasable(&g)
	for i := range g.Assignments {
		g.Assignments[i].Place, g.Assignments[i].Cause = clusterstate.Departing, capacity.Interruption
	}
	w := rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, g, nil, false, noon, rebalance.Limits{Timeout: 10 * time.Minute})
	w.Settings = outOfMix().Settings
	w.Settings.Strategy = rebalance.Surge
	flights := 0
	for range 100 {
		in := w.Input(outOfMix().Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true })
		a := rebalance.Plan(in)[0]
		w.Apply(a, rebalance.Result{})
		if a.Step == rebalance.StepFlee {
			flights++
		}
		if a.Step == rebalance.StepRest {
			break
		}
	}
	assert.Equal(t, 10, flights)
	assert.Equal(t, noon, w.Next, "the others follow at once, after other workloads had their turns")
}
