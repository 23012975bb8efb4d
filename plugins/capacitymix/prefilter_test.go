// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/test/plugintest"
)

// The scheduling queue can have a replacement before the ledger has the deletion of its predecessor. With the next
// slot, which has the other type here, the mix would be wrong.
func TestAReplacementWaitsForTheSlotOfItsPredecessor(t *testing.T) {
	deleted, replacement := plugintest.Pod("web", 0), plugintest.Pod("web", 1)
	f := webFixture(t, 50, deleted, replacement) // slot 0 on-demand, slot 1 spot
	f.filter(t, deleted)
	replacement.ResourceVersion = "12"

	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, status := f.plugin.PreFilter(ended, framework.NewCycleState(), replacement, f.infos)
	require.ErrorIs(t, status.AsError(), errBehind)

	deleted.ResourceVersion = "11"
	f.deletePod(deleted)
	f.addPod(replacement)
	state, _ := f.filter(t, replacement)
	c, err := state.Read(preFilterStateKey)
	require.NoError(t, err)
	require.Equal(t, 0, c.(*preFilterState).slot)
}
