// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
)

// Report is what was decided about a group of a mix.
type Report struct {
	// Workload names it in messages.
	Workload string
	Verdict
}

// Condition returns the condition FloorProtected of a mix with spec.protectFloor. Decided is false while nothing was decided about its
// groups: the condition stays as it is then.
func Condition(minOnDemand int32, reports []Report) (c metav1.Condition, decided bool) {
	c = metav1.Condition{Type: v1alpha1.ConditionFloorProtected, Status: metav1.ConditionFalse}
	if minOnDemand == 0 {
		c.Reason, c.Message = v1alpha1.ReasonNoFloor, "minOnDemand is 0, so there is no floor: set it, or remove protectFloor"
		return c, true
	}
	failing := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return !r.Fails() })
	if len(failing) == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonBudgetsKept
		c.Message = fmt.Sprintf("evictions leave %s of each workload on on-demand nodes", display.Count(int(minOnDemand), "replica"))
		return c, len(reports) > 0
	}
	first := slices.MinFunc(failing, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Message, b.Message))
	})
	c.Reason, c.Message = first.Reason, fmt.Sprintf("%d of %s: %s: %s", len(failing), display.Count(len(reports), "workload"), first.Workload,
		first.Message)
	return c, true
}

// Fails reports whether the floor of a group is not protected, though it has one.
func (v Verdict) Fails() bool { return v.Reason != "" && v.Reason != v1alpha1.ReasonBudgetsKept }
