// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Both programs keep at most mostAnnotations bytes of an object's annotations, and mostValue bytes of each if the
// object has more. The API server accepts 256 KiB, and a program keeps the objects of all tenants. Berth's annotations
// are far shorter.
const mostAnnotations, mostValue = 16 << 10, 4 << 10

// Bounded returns the annotations that both programs keep: all of them, unless they are very long. Then long values are
// truncated and marked, so that no truncated value is valid, and the longest annotations are dropped.
func Bounded(all map[string]string) map[string]string {
	size := 0
	for k, v := range all {
		size += len(k) + len(v)
	}
	if size <= mostAnnotations {
		return all
	}
	type annotation struct{ key, value string }
	list := make([]annotation, 0, len(all))
	for k, v := range all {
		if len(v) > mostValue {
			v = strings.ToValidUTF8(v[:mostValue], "") + "…"
		}
		list = append(list, annotation{k, v})
	}
	slices.SortFunc(list, func(a, b annotation) int {
		return cmp.Or(cmp.Compare(len(a.key)+len(a.value), len(b.key)+len(b.value)), cmp.Compare(a.key, b.key))
	})
	kept, left := map[string]string{}, mostAnnotations
	for _, a := range list {
		if left -= len(a.key) + len(a.value); left < 0 {
			break
		}
		kept[a.key] = a.value
	}
	return kept
}

// BoundObject is a cache.TransformFunc for objects that tenants write: it keeps Bounded annotations and drops managed
// fields.
func BoundObject(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
		o.SetAnnotations(Bounded(o.GetAnnotations()))
	}
	return object, nil
}
