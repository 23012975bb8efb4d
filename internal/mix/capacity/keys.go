// SPDX-License-Identifier: Apache-2.0

package capacity

import "slices"

// NodeKeys returns the keys of labels, taints and annotations of nodes that the shipped rules, and the decisions of this package, read.
func NodeKeys() []string {
	keys := []string{balancersLabel, kwokNode}
	for _, r := range DefaultRules() {
		keys = append(keys, r.Key)
		if r.Requires != "" && r.Requires != AnyNode {
			keys = append(keys, r.Requires)
		}
	}
	for _, kind := range [][]signal{departingTaints, departingLabels, departingAnnotations} {
		for i := range kind {
			keys = append(keys, kind[i].key)
		}
	}
	keys = slices.Concat(keys, registrationTaints, closedTaints)
	slices.Sort(keys)
	return slices.Compact(keys)
}
