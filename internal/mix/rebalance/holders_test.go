// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/rebalance"
)

func TestWaitingNotesWhatHoldsAReplica(t *testing.T) {
	list := []rebalance.Placeholder{{UID: "a"}, {UID: "b"}}
	about := func(reason *rebalance.Reason, message string) func(rebalance.Placeholder) rebalance.Verdict {
		return func(h rebalance.Placeholder) rebalance.Verdict {
			if h.UID == "b" {
				return rebalance.Verdict{Reason: reason, Message: message}
			}
			return rebalance.Verdict{Reason: rebalance.ReasonMove, Message: "pod a moves"}
		}
	}
	noted := rebalance.Waiting(list, about(rebalance.ReasonPDB, "none allowed"))
	assert.Equal(t, []rebalance.Placeholder{{UID: "a"}, {UID: "b", Waits: "DisruptionBudget: none allowed"}}, noted)
	assert.Equal(t, []rebalance.Placeholder{{UID: "a"}, {UID: "b"}}, list, "what is in the store does not change")
	assert.Equal(t, list, rebalance.Waiting(noted, about(rebalance.ReasonMove, "pod b moves")))
}
