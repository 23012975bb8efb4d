// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// prefer orders Reservations by how well their capacity on a node suits a pod: first those that hold most of what it requests,
// and so those that hold all of it, then those that hold least, so that more is left for larger pods, then those that are made
// for this pod alone. Others keep their order.
func prefer(requests *Amounts, a, b *Reservation) int {
	return cmp.Or(compare(smaller(requests, &b.Unit), smaller(requests, &a.Unit)), compare(&a.Unit, &b.Unit),
		-cmp.Compare(len(a.Object.Spec.PodName), len(b.Object.Spec.PodName)))
}

// smaller has the smaller amount of each resource that a has.
func smaller(a, b *Amounts) *Amounts {
	s := &Amounts{
		MilliCPU: min(a.MilliCPU, b.MilliCPU), Memory: min(a.Memory, b.Memory),
		EphemeralStorage: min(a.EphemeralStorage, b.EphemeralStorage),
	}
	for name, amount := range a.Scalars {
		s.addScalar(name, min(amount, b.Scalars[name]))
	}
	return s
}

// compare orders amounts: where one has no more of any resource than the other, it is not after it. Scalars come first: they are
// what a cluster has least of.
func compare(a, b *Amounts) int {
	names := slices.Collect(maps.Keys(a.Scalars))
	names = slices.AppendSeq(names, maps.Keys(b.Scalars))
	slices.SortFunc(names, cmp.Compare[corev1.ResourceName])
	for _, name := range names {
		if c := cmp.Compare(a.Scalars[name], b.Scalars[name]); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.EphemeralStorage, b.EphemeralStorage))
}
