// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A snapshot of a cluster keeps these labels: without one of them, a node would have another type, or not depart.
func TestNodeKeysHasAllThatIsRead(t *testing.T) {
	keys := NodeKeys()
	for _, r := range DefaultRules() {
		assert.Contains(t, keys, r.Key)
	}
	for _, s := range departingTaints {
		assert.Contains(t, keys, s.key)
	}
	assert.Subset(t, keys, []string{"cloud.google.com/gke-nodepool", "berth.dev/drain", "karpenter.sh/unregistered", "kwok.x-k8s.io/node"})
	assert.NotContains(t, keys, AnyNode)
	assert.IsIncreasing(t, keys)
}
