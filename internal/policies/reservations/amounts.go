// SPDX-License-Identifier: Apache-2.0

package reservations

import corev1 "k8s.io/api/core/v1"

// Amounts are amounts of resources in whole numbers, as the scheduler compares them: CPU in millicores, memory and storage in
// bytes.
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
			a.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			a.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			a.EphemeralStorage = quantity.Value()
		default:
			a.addScalar(name, quantity.Value())
		}
	}
	return a
}

func (a *Amounts) add(o *Amounts) {
	a.MilliCPU += o.MilliCPU
	a.Memory += o.Memory
	a.EphemeralStorage += o.EphemeralStorage
	for name, amount := range o.Scalars {
		a.addScalar(name, amount)
	}
}

func (a *Amounts) addScalar(name corev1.ResourceName, amount int64) {
	if a.Scalars == nil {
		a.Scalars = map[corev1.ResourceName]int64{}
	}
	a.Scalars[name] += amount
}
