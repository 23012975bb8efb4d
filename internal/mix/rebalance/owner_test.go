// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/clusterstate"
)

func TestNothingIsEvictedThatItsOwnerCountsAsFailed(t *testing.T) {
	v := countsAsFailure(&subject{Input: &Input{Group: clusterstate.Group{CountsFailures: true}}})
	assert.Equal(t, ReasonCountsAsFailure, v.Reason)
	assert.Zero(t, countsAsFailure(&subject{Input: &Input{}}))
}

func TestNothingIsEvictedWhoseTemplateNamesItsNode(t *testing.T) {
	v := fixedNode(&subject{Input: &Input{Group: clusterstate.Group{FixedNode: "node-1"}}})
	assert.Equal(t, ReasonFixedNode, v.Reason)
	assert.Contains(t, v.Message, "node-1")
	assert.Zero(t, fixedNode(&subject{Input: &Input{}}))
}
