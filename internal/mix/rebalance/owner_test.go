// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/clusterstate"
)

func TestNothingIsEvictedThatItsOwnerCountsAsFailed(t *testing.T) {
	v, stops := countsAsFailure(&Input{Group: clusterstate.Group{CountsFailures: true}})
	assert.True(t, stops)
	assert.Equal(t, ReasonCountsAsFailure, v.Reason)
	_, stops = countsAsFailure(&Input{})
	assert.False(t, stops)
}

func TestNothingIsEvictedWhoseTemplateNamesItsNode(t *testing.T) {
	v, stops := fixedNode(&Input{Group: clusterstate.Group{FixedNode: "node-1"}})
	assert.True(t, stops)
	assert.Equal(t, ReasonFixedNode, v.Reason)
	assert.Contains(t, v.Message, "node-1")
	_, stops = fixedNode(&Input{})
	assert.False(t, stops)
}
