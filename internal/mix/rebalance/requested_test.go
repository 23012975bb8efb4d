// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/evictions"
	"berth.dev/berth/internal/mix/rebalance"
)

// request has the evictions of some replicas requested.
func request(slots ...int) func(*rebalance.Evaluation) {
	return func(w *rebalance.Evaluation) {
		w.Requested = map[types.UID]time.Time{}
		for i := range w.Group.Assignments {
			for _, slot := range slots {
				if a := &w.Group.Assignments[i]; a.Slot == slot {
					w.Requested[a.Pod.UID] = noon
				}
			}
		}
	}
}

func TestReplicasWhoseEvictionIsRequestedAreReleasedAtOnce(t *testing.T) {
	closed := func(w *rebalance.Evaluation) { w.Settings.Windows = window("0 3 * * *") }
	steps, w := surging(rebalance.Surge, "", request(0, 3), closed)
	flights := []rebalance.Step{rebalance.StepSurvey, rebalance.StepFlee, rebalance.StepSurvey, rebalance.StepFlee}
	require.GreaterOrEqual(t, len(steps), 4)
	assert.Equal(t, flights, steps[:4], "whatever keeps others from moving")
	assert.Empty(t, w.Moves, "it is no move")
	steps, _ = surging(rebalance.Surge, "", request(), closed)
	assert.NotContains(t, steps, rebalance.StepFlee)

	in := outOfMix()
	releasable(&in.Group)
	w = rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, in.Group, nil, false, noon, rebalance.Limits{Timeout: time.Minute})
	w.Settings = in.Settings
	w.Settings.Strategy = rebalance.Surge
	request(3)(w)
	a := rebalance.Plan(w.Input(in.Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true }))[0]
	assert.True(t, a.Requested, "it is confirmed before the release")
	interrupt(3)(w)
	a = rebalance.Plan(w.Input(in.Cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true }))[0]
	assert.False(t, a.Requested, "the node departs all the same")
}

// What becomes of a replica whose eviction is requested is what the plan does: it is released, or there is a reason.
func TestTheFateOfARequestIsWhatThePlanDoes(t *testing.T) {
	for name, c := range map[string]struct {
		strategy rebalance.Strategy
		against  string
		change   func(*rebalance.Evaluation)
		want     evictions.State
		why      string
	}{
		"it can be released":    {rebalance.Surge, "", func(*rebalance.Evaluation) {}, evictions.Waiting, ""},
		"the strategy is Evict": {rebalance.EvictFirst, "", func(*rebalance.Evaluation) {}, evictions.Refused, "rebalance.strategy is Evict"},
		"the mode is Off":       {rebalance.Surge, "", func(w *rebalance.Evaluation) { w.Settings.Mode = rebalance.Off }, evictions.Refused, "rebalance.mode is Off"},
		"the mode is Report":    {rebalance.Surge, "", func(w *rebalance.Evaluation) { w.Settings.Mode = rebalance.Report }, evictions.Refused, "Report"},
		"the mix is paused": {rebalance.Surge, "", func(w *rebalance.Evaluation) {
			w.Settings.Paused = &rebalance.Pause{Scope: rebalance.PausedMix, Name: "web"}
		}, evictions.Refused, "paused"},
		"a rollout":       {rebalance.Surge, "", func(w *rebalance.Evaluation) { w.Group.Rollout.Rolling = true }, evictions.Waiting, "a rollout is in progress"},
		"the owner ended": {rebalance.Surge, "", func(w *rebalance.Evaluation) { w.Group.Ended = true }, evictions.Refused, ""},
		"an annotation": {rebalance.Surge, "", func(w *rebalance.Evaluation) {
			for _, a := range w.Group.Assignments {
				annotate(a.Pod, pods.DoNotDisrupt, "true")
			}
		}, evictions.Refused, pods.DoNotDisrupt},
		"a PodGroup": {rebalance.Surge, "", func(w *rebalance.Evaluation) {
			for _, a := range w.Group.Assignments {
				a.Pod.Grouped = true
			}
		}, evictions.Refused, "PodGroup"},
		"no node": {rebalance.Surge, "", func(w *rebalance.Evaluation) {
			for i := range w.Group.Assignments {
				w.Group.Assignments[i].Place = clusterstate.Pending
				p := *w.Group.Assignments[i].Pod
				p.Node, w.Group.Assignments[i].Pod = "", &p
			}
		}, evictions.Refused, "no node"},
		"a Service":        {rebalance.Surge, "a Service", func(*rebalance.Evaluation) {}, evictions.Refused, "a Service"},
		"invalid settings": {rebalance.Surge, "", func(w *rebalance.Evaluation) { w.Invalid = errors.New("a window") }, evictions.Refused, "a window"},
	} {
		t.Run(name, func(t *testing.T) {
			fate := evictions.Fate{}
			var uid types.UID
			remember := func(w *rebalance.Evaluation) {
				uid = w.Group.Assignments[3].Pod.UID
				w.Requested = map[types.UID]time.Time{uid: noon}
				if c.against != "" {
					return
				}
				known := false
				fate, known = w.Input(outOfMix().Cluster, 0, outOfMix().MayFit).FateOf(uid)
				require.True(t, known)
			}
			steps, w := surging(c.strategy, c.against, c.change, remember)
			after, known := w.Input(outOfMix().Cluster, 0, outOfMix().MayFit).FateOf(uid)
			if c.against != "" {
				require.True(t, known)
				fate = after
			}
			assert.Equal(t, c.want, fate.State)
			assert.Contains(t, fate.Why, c.why)
			released := c.want == evictions.Waiting && fate.Why == ""
			assert.Equal(t, released, contains(steps, rebalance.StepFlee), "%v", steps)
			if released {
				assert.False(t, known, "the cluster state shows that it was released")
			}
		})
	}
	_, w := surging(rebalance.Surge, "")
	_, known := w.Input(outOfMix().Cluster, 0, outOfMix().MayFit).FateOf("another pod")
	assert.False(t, known)
	own := w.Group.Assignments[0].Pod.UID
	w.Moves = append(w.Moves, rebalance.Move{UID: own, Requested: true})
	passed, known := w.Input(outOfMix().Cluster, 0, outOfMix().MayFit).FateOf(own)
	assert.True(t, known)
	assert.Equal(t, evictions.Refused, passed.State, "the other responders of the pod go on with a move of Berth")
	w.Moves = nil
	dry := outOfMix().Cluster
	dry.DryRun = true
	fate, _ := w.Input(dry, 0, outOfMix().MayFit).FateOf(w.Group.Assignments[0].Pod.UID)
	assert.Equal(t, evictions.Refused, fate.State)
}

// A request waits, so that its pod is not released before its replacement has a place.
func TestARequestedReplicaWaitsForCapacity(t *testing.T) {
	_, w := surging(rebalance.EvictFirst, "")
	uid := w.Group.Assignments[3].Pod.UID
	w.Settings.Strategy, w.Requested = rebalance.Surge, map[types.UID]time.Time{uid: noon}
	in := w.Input(outOfMix().Cluster, 0, nowhere)
	fate, known := in.FateOf(uid)
	require.True(t, known)
	assert.Equal(t, evictions.Waiting, fate.State)
	assert.Contains(t, fate.Why, "free capacity for its replacement")
	for _, a := range rebalance.Plan(in) {
		assert.NotContains(t, []rebalance.Step{rebalance.StepFlee, rebalance.StepSurvey}, a.Step)
	}
	for _, a := range rebalance.Plan(w.Input(outOfMix().Cluster, 0, outOfMix().MayFit)) {
		assert.True(t, a.Flees && a.Requested && a.Proves, "%+v", a)
	}
}

// Without a request, the store keeps for up to eight minutes what was read to be against a release. A request is refused once.
func TestARequestIsNotRefusedForWhatWasReadBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		seen time.Time
		want evictions.State
	}{
		"read after the request": {noon, evictions.Refused},
		"read before it":         {noon.Add(time.Second), evictions.Waiting},
	} {
		_, w := surging(rebalance.Surge, "a Service", request(3))
		uid := w.Group.Assignments[3].Pod.UID
		w.Requested, w.Now = map[types.UID]time.Time{uid: c.seen}, noon.Add(2*time.Second)
		fate, known := w.Input(outOfMix().Cluster, 0, outOfMix().MayFit).FateOf(uid)
		require.True(t, known, name)
		assert.Equal(t, c.want, fate.State, name)
	}
}

// A requested replica waits for a place no longer than one on a node that is drained, and is looked at again in time.
func TestARequestedReplicaWithoutAPlaceIsLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		longest time.Duration
	}{
		"no place":       {rebalance.ReasonInsufficientCapacity.Obstacle(time.Minute, "full"), rebalance.HoldMisplaced},
		"it is refused":  {rebalance.ReasonReplacementRefused.Unproven("a policy"), rebalance.HoldReplacement},
		"another reason": {errors.New("a webhook refused the patch"), rebalance.HoldMisplaced},
	} {
		_, w := surging(rebalance.EvictFirst, "", request(3))
		w.Settings.Strategy, w.Verdict, w.Before.Unproven = rebalance.Surge, rebalance.Verdict{}, 9
		w.Held = nil
		w.Apply(rebalance.Action{
			Step: rebalance.StepFlee, Flees: true, Requested: true, Proves: true,
			Verdict: rebalance.Verdict{Pod: w.Group.Assignments[3].Pod, Target: capacity.Spot},
		}, rebalance.Result{Err: c.err})
		due := w.Due(w.Now, 10*time.Minute)
		require.False(t, due.IsZero(), name)
		assert.LessOrEqual(t, due.Sub(w.Now), c.longest, name)
	}
}

func contains(steps []rebalance.Step, step rebalance.Step) bool {
	return slices.Contains(steps, step)
}

// A unit is not released, so that a request for one of its pods is answered at once.
func TestARequestForAPodOfAUnitIsRefused(t *testing.T) {
	in := outOfMix()
	releasable(&in.Group)
	for i := range in.Group.Assignments {
		unite(&in.Group.Assignments[i], "unit")
	}
	w := rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, in.Group, nil, false, noon, rebalance.Limits{Timeout: time.Minute})
	w.Settings = in.Settings
	w.Settings.Strategy = rebalance.Surge
	for _, p := range w.Group.Assignments[0].Members() {
		fate, known := w.Input(in.Cluster, 0, nil).FateOf(p.UID)
		require.True(t, known)
		assert.Equal(t, evictions.Refused, fate.State)
	}
}

// A move that is an EvictionRequest is in progress for as long as the responders of its pod take, and is withdrawn at its deadline. A new
// leader has no reason to doubt that it was made.
func TestAMoveByARequestTakesAsLongAsItsResponders(t *testing.T) {
	for name, c := range map[string]struct {
		requests, responds bool
		strategy           rebalance.Strategy
		want               bool
	}{
		"configured, and the pod names a responder": {true, true, rebalance.EvictFirst, true},
		"not configured, or not served":             {false, true, rebalance.EvictFirst, false},
		"the pod names none":                        {true, false, rebalance.EvictFirst, false},
		"it is released":                            {true, true, rebalance.Surge, false},
	} {
		in := outOfMix()
		releasable(&in.Group)
		for _, a := range in.Group.Assignments {
			if c.responds {
				annotate(a.Pod, "spec.evictionResponders", "")
			}
		}
		before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
		limits := rebalance.Limits{Timeout: 10 * time.Minute}
		w := rebalance.Begin(before, before, in.Group, nil, false, noon, limits)
		w.Settings = in.Settings
		w.Settings.Strategy = c.strategy
		in.Cluster.Requests = c.requests
		moves := rebalance.Plan(w.Input(in.Cluster, 0, in.MayFit))
		if moves[0].Step == rebalance.StepSurvey {
			w.Apply(moves[0], rebalance.Result{})
			moves = rebalance.Plan(w.Input(in.Cluster, 0, in.MayFit))
		}
		require.Equal(t, rebalance.StepMove, moves[0].Step, name)
		m := moves[0].Move
		assert.Equal(t, c.want, m.Requested, name)
		if !c.want {
			continue
		}
		e := w.With(m)
		later := func(e rebalance.Entry, d time.Duration) []rebalance.Ending {
			return rebalance.Begin(e, e, in.Group, nil, false, noon.Add(d), limits).Ended
		}
		assert.Empty(t, later(e, 9*time.Minute), "the pod runs, and is on its way")
		ended := later(e, 10*time.Minute)
		require.Len(t, ended, 1)
		assert.Equal(t, rebalance.TimedOut, ended[0].Outcome)
		assert.True(t, ended[0].Withdraws())

		recalled := rebalance.Recall(rebalance.Entry{WrongSince: before.WrongSince}, rebalance.RecordOf(&e, noon), noon)
		require.Len(t, recalled.Moves, 1)
		assert.True(t, recalled.Moves[0].Requested)
		assert.Empty(t, later(recalled, 9*time.Minute), "the next leader waits as well")
		assert.Len(t, later(recalled, 10*time.Minute), 1)
	}
	over := rebalance.Ending{Move: rebalance.Move{Requested: true}, Outcome: rebalance.Succeeded}
	assert.False(t, over.Withdraws())
	over = rebalance.Ending{Outcome: rebalance.TimedOut}
	assert.False(t, over.Withdraws(), "it was no request")
}
