// SPDX-License-Identifier: Apache-2.0

package topologyspread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config"
)

// What it does about pods is in test/perf/cycle, in a whole scheduler, and in test/integration/mix/transparency.
func TestThePluginHasNoArguments(t *testing.T) {
	_, err := New(t.Context(), &config.CapacityMixArgs{}, nil)
	require.EqualError(t, err, "want no args, got *config.CapacityMixArgs")
}
