// SPDX-License-Identifier: Apache-2.0

package display

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Unmet are the conditions that report what is not as it should be, or not yet.
func Unmet(all []metav1.Condition) (list []metav1.Condition) {
	for _, c := range all {
		fine := metav1.ConditionTrue
		if c.Type == v1alpha1.ConditionProgressing || c.Type == v1alpha1.ConditionDegraded {
			fine = metav1.ConditionFalse
		}
		if c.Status != fine {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return list
}
