// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/internal/budget"
)

// Covered reports whether an object has all desired fields, so that there is nothing to apply. Fields that others have added do not
// count.
func Covered(have runtime.Object, want *unstructured.Unstructured) bool {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	fields := maps.Clone(want.Object)
	// A typed object of the cache does not have them.
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return err == nil && covers(content, fields)
}

// listKeys are the fields that identify the items of a list, in the order in which they are tried.
var listKeys = []string{"name", "containerPort", "port", "uid", "type", "topologyKey", "key"}

// covers reports whether a value has all of another one: maps all its fields, lists with a key all its items in any order, and other
// lists the same items. Typed objects leave out what is empty or zero.
func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		h, ok := as[map[string]any](have)
		return ok && coversMap(h, want)
	case []any:
		h, ok := as[[]any](have)
		return ok && coversList(h, want)
	case string:
		h, ok := as[string](have)
		return ok && (h == want || sameQuantity(h, want))
	case int64:
		return coversNumber(have, want)
	case bool:
		h, ok := as[bool](have)
		return ok && h == want
	}
	return have == want
}

// as returns a value of a type; what is absent is the zero value.
func as[T any](v any) (t T, ok bool) {
	if v == nil {
		return t, true
	}
	t, ok = v.(T)
	return t, ok
}

func coversNumber(have any, want int64) bool {
	switch h := have.(type) {
	case int64:
		return h == want
	case float64:
		return h == float64(want)
	case nil:
		return want == 0
	}
	return false
}

func coversMap(have, want map[string]any) bool {
	for k, v := range want {
		if !covers(have[k], v) {
			return false
		}
	}
	return true
}

func coversList(have, want []any) bool {
	if !keyed(want) {
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !covers(have[i], want[i]) {
				return false
			}
		}
		return true
	}
	// More than one may have the same key: a port number may be served by TCP and by UDP.
	for _, item := range want {
		if !slices.ContainsFunc(have, func(h any) bool { return covers(h, item) }) {
			return false
		}
	}
	return true
}

// keyed reports whether a field identifies the items of a list, not their position.
func keyed(list []any) bool {
	for _, key := range listKeys {
		all := len(list) > 0
		for _, item := range list {
			m, ok := item.(map[string]any)
			all = all && ok && m[key] != nil
		}
		if all {
			return true
		}
	}
	return false
}

// sameQuantity reports whether two strings are the same quantity, such as 0.5 and 500m.
func sameQuantity(a, b string) bool {
	p, err := budget.ParseQuantity(a)
	if err != nil {
		return false
	}
	q, err := budget.ParseQuantity(b)
	return err == nil && p.Cmp(q) == 0
}
