// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFeatureGatesOfTheSchedulerAreTakenOver(t *testing.T) {
	const gate = "TaintTolerationComparisonOperators"
	assert.False(t, ComparesTolerations(), "the default of Kubernetes 1.37")
	require.NoError(t, SetFeatureGates(nil))
	require.NoError(t, SetFeatureGates(map[string]bool{gate: true}))
	assert.True(t, ComparesTolerations())
	require.NoError(t, SetFeatureGates(map[string]bool{gate: false}))
	assert.False(t, ComparesTolerations())
	require.ErrorContains(t, SetFeatureGates(map[string]bool{"NoSuchGate": true}), "NoSuchGate")
}
