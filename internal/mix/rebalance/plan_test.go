// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// evaluation is the evaluation of a workload, with the answers that its actions get.
type evaluation struct {
	*rebalance.Evaluation
	t       *rapid.T
	cluster rebalance.Cluster
	roomy   map[capacity.Type]bool
	steps   []rebalance.Step
	evicted []types.UID
}

func drawEvaluation(t *rapid.T) *evaluation {
	types := rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{sp, od}), 1, 6).Draw(t, "types")
	g := groupOn(drawMix(t), types...)
	w := &evaluation{t: t, cluster: outOfMix().Cluster, roomy: map[capacity.Type]bool{sp: rapid.Bool().Draw(t, "spot is free"), od: true}}
	w.cluster.Limit, w.cluster.DryRun = rapid.IntRange(1, 3).Draw(t, "limit"), rapid.IntRange(0, 5).Draw(t, "dry run") == 0
	settings, invalid, there := outOfMix().Settings, error(nil), []*clusterstate.Pod(nil)
	settings.MaxConcurrent = rapid.IntRange(1, 3).Draw(t, "concurrent")
	settings.Mode = rapid.SampledFrom([]rebalance.Mode{rebalance.Evict, rebalance.Evict, rebalance.Evict, rebalance.Report}).Draw(t, "mode")
	settings.Provisioning = rapid.SampledFrom([]rebalance.Provisioning{rebalance.Wait, rebalance.WithPlaceholder}).Draw(t, "provisioning")
	settings.Strategy = rapid.SampledFrom([]rebalance.Strategy{rebalance.EvictFirst, rebalance.Surge, rebalance.SurgeOrEvict}).Draw(t, "strategy")
	if rapid.Bool().Draw(t, "releasable") {
		releasable(&g)
	}
	if rapid.IntRange(0, 9).Draw(t, "invalid") == 0 {
		invalid = errors.New("no such window")
	}
	before := rebalance.Entry{WrongSince: noon.Add(-time.Hour)}
	for i, a := range g.Assignments {
		switch rapid.IntRange(0, 5).Draw(t, "before") {
		case 0:
			v := rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Message: "full", Pod: a.Pod, Target: a.Wants}
			before.HoldBack(&rebalance.Hold{Verdict: v, Until: noon.Add(time.Minute)})
		case 1:
			h := rebalance.Placeholder{UID: holderOf(i), Replica: a.Pod.UID, Seen: true, Holder: rebalance.Holder{Target: a.Wants, Created: noon}}
			before.Placeholders = append(before.Placeholders, h)
			there = append(there, &clusterstate.Pod{UID: h.UID, Running: rapid.Bool().Draw(t, "runs")})
		}
	}
	limits := rebalance.Limits{Backoff: time.Minute, MaxBackoff: time.Hour, Timeout: 10 * time.Minute}
	w.Evaluation = rebalance.Begin(before, before, g, there, w.cluster.DryRun, noon, limits)
	w.Settings, w.Invalid = settings, invalid
	if !w.cluster.DryRun {
		require.Len(t, w.Placeholders, len(before.Placeholders), "placeholders are kept")
	}
	return w
}

func holderOf(i int) types.UID { return types.UID(fmt.Sprintf("placeholder-%d", i)) }

func (w *evaluation) input() *rebalance.Input {
	w.cluster.InFlight = w.InFlight()
	return w.Input(w.cluster, w.InFlight(), func(t capacity.Type, _ *clusterstate.Pod) bool { return w.roomy[t] })
}

// live are the pods of the workload, one of which may have become another one meanwhile.
func (w *evaluation) live() (pods []corev1.Pod) {
	for _, a := range w.Group.Assignments {
		pods = append(pods, liveOf(a.Pod))
	}
	if len(pods) > 0 && rapid.IntRange(0, 9).Draw(w.t, "stale") == 0 {
		pods[0].UID = "another"
	}
	return pods
}

// act answers as a controller does.
func (w *evaluation) act(a rebalance.Action) (r rebalance.Result) {
	refused := rapid.IntRange(0, 4).Draw(w.t, "answer") == 0
	switch a.Step {
	case rebalance.StepMove, rebalance.StepRelease:
		proof := &rebalance.Proof{Live: w.live(), Released: a.Step == rebalance.StepRelease}
		if a.Step == rebalance.StepRelease {
			r.Placeholder = rebalance.Used
		}
		if r.Proof = proof; refused {
			r.Proof, r.Err = nil, rebalance.ReasonInsufficientCapacity.Obstacle(time.Minute, "full")
		}
	case rebalance.StepSurvey:
		if refused {
			r.Unreleasable = "a Service"
		}
	case rebalance.StepEvict, rebalance.StepSurge:
		m := a.Move
		if r.Began = &m; refused {
			r.Began, r.Refused, r.Err = nil, true, rebalance.ReasonRefused.Obstacle(time.Minute, "no")
		}
		if a.Handover != "" && a.Handover != rebalance.BeforeEviction && !refused {
			r.Placeholder = rebalance.Used
		}
	case rebalance.StepHold:
		r.Err = a.Obstacle
	case rebalance.StepProvision:
		if r.Created = (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new-" + a.Verdict.Pod.UID}}); refused {
			r.Created, r.Err = nil, rebalance.ReasonNoPlaceholder.Obstacle(time.Minute, "no")
		}
	case rebalance.StepDrop:
		r.Placeholder = rebalance.Dropped
	case rebalance.StepFail:
		r.Placeholder = rebalance.Expired
	}
	return r
}

// run plans and acts until the workload rests; check is called before each action.
func (w *evaluation) run(check func(rebalance.Action)) {
	const enough = 100
	for range enough {
		for _, a := range rebalance.Plan(w.input()) {
			check(a)
			w.steps = append(w.steps, a.Step)
			r := w.act(a)
			w.Apply(a, r)
			if r.Began != nil {
				w.evicted = append(w.evicted, r.Began.UID)
			}
			if a.Step == rebalance.StepRest {
				return
			}
		}
	}
	w.t.Fatalf("the plans do not come to an end: %v", w.steps)
}

func TestPlansEvictNoMoreReplicasThanTheBudgetsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEvaluation(t)
		most := max(len(w.Placeholders), min(w.Settings.MaxConcurrent, w.cluster.Limit))
		w.run(func(rebalance.Action) { require.LessOrEqual(t, w.InFlight(), most) })
		require.LessOrEqual(t, len(w.evicted), most)
		seen := map[types.UID]bool{}
		for _, uid := range w.evicted {
			require.False(t, seen[uid], "%s is evicted twice", uid)
			seen[uid] = true
		}
		if w.Invalid != nil || w.Settings.Mode != rebalance.Evict || w.cluster.DryRun {
			require.Empty(t, w.evicted)
			require.Empty(t, w.Placeholders)
		}
	})
}

func TestPlansMoveNoReplicaThatIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEvaluation(t)
		w.run(func(a rebalance.Action) {
			switch a.Step {
			case rebalance.StepMove, rebalance.StepReport, rebalance.StepRelease, rebalance.StepEvict, rebalance.StepSurge:
				assert.NotContains(t, w.Held, string(a.Verdict.Pod.UID), "%s", a.Step)
			}
		})
	})
}

func TestEveryActionHasAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEvaluation(t)
		w.run(func(a rebalance.Action) {
			require.NotNil(t, a.Verdict.Reason, "%s", a.Step)
			if a.Step == rebalance.StepHold {
				require.Error(t, a.Obstacle)
			}
		})
		require.NotNil(t, w.Verdict.Reason)
	})
}

func TestTheSameInputGivesTheSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEvaluation(t)
		w.run(func(rebalance.Action) {
			one, other := rebalance.Plan(w.input()), rebalance.Plan(w.input())
			require.Len(t, other, len(one))
			for i := range one {
				assert.Equal(t, one[i].Step, other[i].Step)
				assert.Equal(t, one[i].Verdict, other[i].Verdict)
				assert.Equal(t, one[i].Placeholder, other[i].Placeholder)
				assert.Equal(t, one[i].Move, other[i].Move)
				assert.Equal(t, one[i].Waiting, other[i].Waiting)
			}
		})
	})
}

// What was read between the proof of capacity and the eviction may be other than what was decided by.
func TestAReplicaIsNotEvictedIfItsWorkloadChangedDuringTheProof(t *testing.T) {
	for name, change := range map[string]func(*evaluation, *rebalance.Result){
		"a pod is new": func(_ *evaluation, r *rebalance.Result) {
			r.Proof.Live = append(r.Proof.Live, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "new"}})
		},
		"a pod is gone":              func(_ *evaluation, r *rebalance.Result) { r.Proof.Live = r.Proof.Live[1:] },
		"the grace began":            func(w *evaluation, _ *rebalance.Result) { w.cluster.GraceUntil = noon.Add(time.Minute) },
		"its scale requests more":    func(_ *evaluation, r *rebalance.Result) { r.Proof.Scale = &rebalance.Scale{Replicas: 9, Known: true} },
		"its pods are not available": func(_ *evaluation, r *rebalance.Result) { r.Proof.Scale = &rebalance.Scale{MinReady: time.Hour} },
	} {
		t.Run(name, func(t *testing.T) {
			in := outOfMix()
			for i := range in.Group.Assignments {
				in.Group.Assignments[i].Pod.ReadySince = noon.Unix()
			}
			w := &evaluation{cluster: in.Cluster, roomy: map[capacity.Type]bool{sp: true, od: true}}
			before := rebalance.Entry{WrongSince: in.History.WrongSince}
			w.Evaluation = rebalance.Begin(before, before, in.Group, nil, false, noon, rebalance.Limits{})
			w.Settings = in.Settings
			a := rebalance.Plan(w.input())[0]
			require.Equal(t, rebalance.StepMove, a.Step)
			r := rebalance.Result{Proof: &rebalance.Proof{}}
			for _, s := range w.Group.Assignments {
				p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: s.Pod.UID}, Spec: corev1.PodSpec{NodeName: s.Pod.Node}}
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon),
				}}
				r.Proof.Live = append(r.Proof.Live, p)
			}
			w.Apply(a, r)
			w.cluster.Now = noon.Add(30 * time.Second)
			next := rebalance.Plan(w.input())[0]
			require.Equal(t, rebalance.StepEvict, next.Step, "as long as nothing changed")
			assert.Equal(t, w.cluster.Now, next.Move.Started, "the time of the proof does not count")
			change(w, &r)
			w.Apply(a, r)
			assert.Equal(t, rebalance.StepHold, rebalance.Plan(w.input())[0].Step)
		})
	}
}
