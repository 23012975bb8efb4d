// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// idle is why no replica is being moved where none is blocked. A mix that is not satisfied is not on target.
func idle(mine []rebalance.Entry) (reason, message string) {
	incomplete, pending := 0, 0
	for i := range mine {
		g := &mine[i].Group
		if g.Satisfied() {
			continue
		}
		n, _, _ := g.Counts()
		incomplete, pending = incomplete+1, pending+n
	}
	switch {
	case incomplete == 0:
		return rebalance.ReasonOnTarget.Name, "no replica has to move"
	case pending > 0:
		return v1alpha1.ReasonPodsPending, fmt.Sprintf("no replica is being moved; replicas without a node: %d", pending)
	}
	return v1alpha1.ReasonWaiting, fmt.Sprintf("no replica is being moved; workloads that are not complete: %d", incomplete)
}
