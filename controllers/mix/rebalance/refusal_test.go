// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// An admission webhook may react to each attempt: one that refuses is called less and less often.
func TestARefusedEvictionBacksOffLikeAMoveThatFailed(t *testing.T) {
	p, s := strayController(t, 4)
	attempts := 0
	s.on["evict"] = func() error { attempts++; return apierrors.NewInternalError(errors.New("failed calling webhook")) }
	began := p.Clock.Now()
	for p.Clock.Now().Before(began.Add(6 * time.Hour)) {
		p.reconcile(t, "shop")
		p.Clock.(*clocktesting.FakeClock).Step(10 * time.Second)
	}
	// The longest pause of the tests is shorter than half an hour; each hour has a few attempts.
	assert.LessOrEqual(t, attempts, int(6*time.Hour/p.MaxBackoff)+10)
	assert.GreaterOrEqual(t, attempts, 3)
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, ReasonEvictionFailed, e.Verdict.Reason)
	assert.Contains(t, e.Verdict.Message, "failed calling webhook")
	assert.Equal(t, int32(attempts), e.Failures)

	s.on["evict"] = func() error {
		attempts++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("denied"))
	}
	p.Clock.(*clocktesting.FakeClock).Step(p.MaxBackoff)
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(strayKey)
	assert.Equal(t, ReasonRefused, e.Verdict.Reason)
	assert.Equal(t, int32(1), e.Failures, "another cause")

	delete(s.on, "evict")
	p.Clock.(*clocktesting.FakeClock).Step(p.MaxBackoff)
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(strayKey)
	assert.NotEmpty(t, s.evicted)
	assert.Zero(t, e.Refusal)
}

func TestAPauseAfterARefusalEndsWithTheBudgetThatRefused(t *testing.T) {
	budget := rebalance.DisruptionBudget{Name: "b", UID: "b", Generation: 1, Selector: labels.Everything(), Allowed: 1}
	for name, tc := range map[string]struct {
		reason rebalance.Reason
		change func(*rebalance.DisruptionBudget)
		ends   bool
	}{
		"nothing changed":                        {rebalance.ReasonPDB, func(*rebalance.DisruptionBudget) {}, false},
		"the budget was changed":                 {rebalance.ReasonPDB, func(b *rebalance.DisruptionBudget) { b.Generation++ }, true},
		"the budget allows another number":       {rebalance.ReasonPDB, func(b *rebalance.DisruptionBudget) { b.Allowed = 0 }, true},
		"a webhook refused, not the budget":      {ReasonRefused, func(b *rebalance.DisruptionBudget) { b.Allowed = 0 }, false},
		"the budget does not select it any more": {rebalance.ReasonOverlappingPDBs, func(b *rebalance.DisruptionBudget) { b.Selector = labels.Nothing() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := testController(t)
			w := p.evaluationOf(workloads.Entry{})
			w.budgets = []rebalance.DisruptionBudget{budget}
			r := workloads.Refusal{Reason: tc.reason}
			r.By = refusedBy(&r, w.budgets)
			r.Failures, r.RetryAt = 2, noon // moves that failed before
			w.Refusal, w.Failures, w.RetryAt = r, 3, noon.Add(time.Hour)
			w.Held = map[string]workloads.Hold{"a": {Verdict: rebalance.Verdict{Reason: tc.reason}}, "b": {Verdict: rebalance.Verdict{Reason: rebalance.ReasonReport}}}
			changed := budget
			tc.change(&changed)
			w.budgets = []rebalance.DisruptionBudget{changed}
			w.forgetRefusal()
			assert.Equal(t, tc.ends, w.Failures == 2)
			assert.Equal(t, tc.ends, w.RetryAt.Equal(noon))
			require.Len(t, w.Held, map[bool]int{true: 1, false: 2}[tc.ends])
		})
	}
}

// A budget that is used up refuses what follows the first eviction. What changes with each pod that restarts makes no move that failed
// before forgotten.
func TestARefusalHidesNoMoveThatFailed(t *testing.T) {
	p := testController(t)
	w := p.evaluationOf(workloads.Entry{Failures: 2, RetryAt: noon})
	budget := rebalance.DisruptionBudget{Name: "b", UID: "b", Generation: 1, Selector: labels.Everything(), Allowed: 1, Observed: true}
	w.budgets = []rebalance.DisruptionBudget{budget}
	refused := func() {
		p.refused(w, &workloads.Hold{Verdict: rebalance.Verdict{Reason: rebalance.ReasonPDB, Pod: &clusterstate.Pod{}}})
	}
	refused()
	refused()
	assert.Equal(t, int32(4), w.Failures, "refusals count")
	w.budgets = rebalance.Spend(w.budgets, nil, true)
	w.forgetRefusal()
	assert.Equal(t, int32(2), w.Failures)

	refused()
	p.limits().failed(&w.Entry, noon, noon.Add(time.Minute))
	assert.Equal(t, int32(4), w.Failures)
	w.budgets = []rebalance.DisruptionBudget{budget}
	w.forgetRefusal()
	assert.Equal(t, int32(4), w.Failures, "a move failed since")
}
