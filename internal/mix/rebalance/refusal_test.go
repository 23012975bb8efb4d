// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
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
			e := Entry{Refusal: r, Failures: 3, RetryAt: time.Unix(1e9, 0)}
			e.Held = map[string]Hold{"a": {Verdict: Verdict{Reason: tc.reason}}, "b": {Verdict: Verdict{Reason: ReasonReport}}}
			changed := budget
			tc.change(&changed)
			e.ForgetRefusal([]DisruptionBudget{changed})
			assert.Equal(t, tc.ends, e.Failures == 0)
			assert.Equal(t, tc.ends, e.RetryAt.IsZero())
			require.Len(t, e.Held, map[bool]int{true: 1, false: 2}[tc.ends])
		})
	}
}
