// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/mix/clusterstate"
)

func TestAPauseAfterARefusalEndsWithTheBudgetThatRefused(t *testing.T) {
	budget := DisruptionBudget{Name: "b", UID: "b", Generation: 1, Selector: labels.Everything(), Allowed: 1}
	for name, tc := range map[string]struct {
		reason *Reason
		change func(*DisruptionBudget)
		ends   bool
	}{
		"nothing changed":                        {ReasonPDB, func(*DisruptionBudget) {}, false},
		"the budget was changed":                 {ReasonPDB, func(b *DisruptionBudget) { b.Generation++ }, true},
		"the budget allows another number":       {ReasonPDB, func(b *DisruptionBudget) { b.Allowed = 0 }, true},
		"a webhook refused, not the budget":      {ReasonRefused, func(b *DisruptionBudget) { b.Allowed = 0 }, false},
		"the budget does not select it any more": {ReasonOverlappingPDBs, func(b *DisruptionBudget) { b.Selector = labels.Nothing() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := Refusal{Reason: tc.reason}
			r.By = refusedBy(&r, []DisruptionBudget{budget})
			before := time.Unix(1e9, 0)
			r.Failures, r.RetryAt = 2, before // moves that failed before
			e := Entry{Refusal: r, Failures: 3, RetryAt: before.Add(time.Hour)}
			e.Held = map[string]Hold{"a": {Verdict: Verdict{Reason: tc.reason}}, "b": {Verdict: Verdict{Reason: ReasonReport}}}
			changed := budget
			tc.change(&changed)
			e.ForgetRefusal([]DisruptionBudget{changed})
			assert.Equal(t, tc.ends, e.Failures == 2)
			assert.Equal(t, tc.ends, e.RetryAt.Equal(before))
			require.Len(t, e.Held, map[bool]int{true: 1, false: 2}[tc.ends])
		})
	}
}

// A budget that is used up refuses what follows the first eviction. What changes with each pod that restarts makes no move that failed
// before forgotten.
func TestARefusalHidesNoMoveThatFailed(t *testing.T) {
	noon := time.Unix(1e9, 0)
	e := Entry{Failures: 2, RetryAt: noon}
	budgets := []DisruptionBudget{{Name: "b", UID: "b", Generation: 1, Selector: labels.Everything(), Allowed: 1, Observed: true}}
	full, limits := budgets, Limits{Backoff: time.Minute, MaxBackoff: time.Hour, Timeout: time.Minute}
	refuse := func() {
		e.Refuse(&Hold{Verdict: Verdict{Reason: ReasonPDB, Pod: &clusterstate.Pod{}}}, budgets, noon, limits)
	}
	refuse()
	refuse()
	assert.Equal(t, int32(4), e.Failures, "refusals count")
	budgets = Spend(budgets, nil, true)
	e.ForgetRefusal(budgets)
	assert.Equal(t, int32(2), e.Failures)

	refuse()
	limits.Failed(&e, noon, noon.Add(time.Minute))
	assert.Equal(t, int32(4), e.Failures)
	e.ForgetRefusal(full)
	assert.Equal(t, int32(4), e.Failures, "a move failed since")
}
