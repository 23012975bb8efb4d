// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is measured is what it says: every peer places the pods, Berth by the mix.
func TestEveryPeerPlacesThePods(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, peer := range everybody {
		t.Run(peer, func(t *testing.T) {
			r, err := newRunner(t.Context(), peer, root, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 3, Existing: 30, Pods: 60, Replicated: true})
			require.NoError(t, err)
			v, err := r.turn(60, time.Minute)
			require.NoError(t, err)
			assert.InDelta(t, 60, v["pods"], 0)
			assert.Zero(t, v["pods_without_node"])
			assert.InDelta(t, 1, v["attempts_per_pod"], 0)
			good := r.quality()
			assert.InDelta(t, 60, good["pods"], 0)
			if _, ours := samples[peer]; ours || peer == Affinity {
				assert.Zero(t, good["mix_error_pods"])
			}
			if peer == Floor {
				assert.Positive(t, good["mix_error_pods"], "a scheduler without a mix is off, or nothing is measured")
			}
		})
	}
}

func TestAPodOfAFullSideBorrows(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for peer, waiting := range map[string]float64{Berth16: 0, Affinity: 4} {
		r, err := newRunner(t.Context(), peer, root, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 1, Pods: 20, Full: true})
		require.NoError(t, err)
		v, err := r.turn(20, time.Minute)
		require.NoError(t, err)
		assert.InDelta(t, waiting, v["pods_without_node"], 0, peer)
	}
}
