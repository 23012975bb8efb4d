// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OnOneNode reports whether a claim may be for a volume that pods of one node use at a time.
func OnOneNode(c *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
	})
}
