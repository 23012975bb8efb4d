// SPDX-License-Identifier: Apache-2.0

package extremes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// step is a part of a path: a field, the key of a map, or the number of an entry of a list.
var step = regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`)

// gone is in the place of a value that is removed, so that the entries of a list keep their numbers until all are.
type gone struct{}

// Without removes fields from an object, by their paths as an API server names them: spec.rebalance.windows[3].schedule, or
// spec.selector.matchLabels[app]. Of a field that is not there, which the API server misses, it removes what it would be in. It
// reports whether it removed anything. The first field of a path stays.
func Without(object map[string]any, paths []string) (removed bool) {
	for _, path := range paths {
		if steps := step.FindAllString(path, -1); len(steps) > 1 {
			removed = mark(object[steps[0]], steps[1:]) || removed
		}
	}
	sweep(object)
	return removed
}

// mark marks the last value of a path that is there, but not the one that it is called with.
func mark(value any, steps []string) bool {
	name := strings.Trim(steps[0], "[]")
	var next any
	var replace func()
	switch v := value.(type) {
	case gone:
		return true
	case map[string]any:
		next, replace = v[name], func() { v[name] = gone{} }
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i < len(v) {
			next, replace = v[i], func() { v[i] = gone{} }
		}
	}
	if next == nil {
		return false
	}
	if len(steps) == 1 || !mark(next, steps[1:]) {
		replace()
	}
	return true
}

// sweep returns a value without what is marked.
func sweep(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if isGone(item) {
				delete(v, key)
			} else {
				v[key] = sweep(item)
			}
		}
	case []any:
		kept := slices.DeleteFunc(v, isGone)
		for i := range kept {
			kept[i] = sweep(kept[i])
		}
		return kept
	}
	return value
}

func isGone(value any) bool {
	_, is := value.(gone)
	return is
}
