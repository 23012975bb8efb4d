// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxOfPrefix bounds the keys and values of the labels, or of the annotations, of an object that are kept. Berth reads a handful of
// 100 bytes each.
const maxOfPrefix = 8 << 10

// Identity removes from the metadata of an object all but what identifies it and its version, and its labels of a prefix, such as
// berth.dev/: an API server takes annotations of 256 KiB, and labels, owners, finalizers and managed fields of a megabyte.
func Identity(o metav1.Object, prefix string) {
	o.SetManagedFields(nil)
	o.SetAnnotations(nil)
	o.SetLabels(OfPrefix(o.GetLabels(), prefix))
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
}

// OfPrefix returns the labels or annotations of a prefix, such as berth.dev/, in the order of their keys, as far as they are not too
// long together.
func OfPrefix(all map[string]string, prefix string) map[string]string {
	var kept map[string]string
	left := maxOfPrefix
	for _, key := range slices.Sorted(maps.Keys(all)) {
		size := len(key) + len(all[key])
		if !strings.HasPrefix(key, prefix) || size > left {
			continue
		}
		left -= size
		if kept == nil {
			kept = map[string]string{}
		}
		kept[strings.Clone(key)] = strings.Clone(all[key]) // not parts of a longer text
	}
	return kept
}
