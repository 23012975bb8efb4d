// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/internal/budget"
)

// Amounts are amounts of resources in whole numbers, as the scheduler compares them: CPU in millicores, memory and storage in
// bytes. An amount that is no int64 is the largest one.
type Amounts struct {
	MilliCPU, Memory, EphemeralStorage int64
	// Scalars are the amounts of all other resources, such as GPUs, nil if there are none.
	Scalars map[corev1.ResourceName]int64
}

// AmountsOf returns the amounts of a list.
func AmountsOf(list corev1.ResourceList) Amounts {
	var a Amounts
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			a.MilliCPU = amount(&quantity, resource.Milli)
		case corev1.ResourceMemory:
			a.Memory = amount(&quantity, 0)
		case corev1.ResourceEphemeralStorage:
			a.EphemeralStorage = amount(&quantity, 0)
		default:
			a.addScalar(name, amount(&quantity, 0))
		}
	}
	return a
}

// amount is a quantity in a unit. Quantity.ScaledValue returns 0 or a part of it where that is no int64.
func amount(q *resource.Quantity, scale resource.Scale) int64 {
	if most := resource.NewScaledQuantity(math.MaxInt64, scale); q.Cmp(*most) >= 0 {
		return math.MaxInt64
	}
	return q.ScaledValue(scale)
}

func (a *Amounts) add(o *Amounts) {
	a.MilliCPU = budget.Add(a.MilliCPU, o.MilliCPU)
	a.Memory = budget.Add(a.Memory, o.Memory)
	a.EphemeralStorage = budget.Add(a.EphemeralStorage, o.EphemeralStorage)
	for name, amount := range o.Scalars {
		a.addScalar(name, amount)
	}
}

func (a *Amounts) addScalar(name corev1.ResourceName, amount int64) {
	if a.Scalars == nil {
		a.Scalars = map[corev1.ResourceName]int64{}
	}
	a.Scalars[name] = budget.Add(a.Scalars[name], amount)
}
