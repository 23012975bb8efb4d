// SPDX-License-Identifier: Apache-2.0

package governing

import "strconv"

// costs are the deletion costs of most slots: every reconciliation of a replica compares its cost.
var costs = func() (list [100]string) {
	for slot := range list {
		list[slot] = "-" + strconv.Itoa(slot)
	}
	return list
}()

// DeletionCost returns the deletion cost of a replica with a slot: the highest slot has the lowest cost, so that a
// scale-down removes it first.
func DeletionCost(slot int) string {
	if slot >= 0 && slot < len(costs) {
		return costs[slot]
	}
	return "-" + strconv.Itoa(slot)
}
