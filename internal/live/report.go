// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// SortByName sorts objects by namespace and name.
func SortByName[T any, P interface {
	*T
	client.Object
}](list []T) {
	slices.SortFunc(list, func(a, b T) int {
		x, y := P(&a), P(&b)
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	})
}

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
