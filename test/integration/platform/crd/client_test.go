// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/apis/client"
)

func TestTheClientOfTheReadmeCreatesAndListsMixes(t *testing.T) {
	t.Parallel()
	const namespace = "client-of-the-readme"
	require.NoError(t, server.CreateNamespace(t.Context(), namespace))
	_, err := client.CreateMix(t.Context(), server.Config(), namespace, "web")
	require.NoError(t, err)
	mixes, err := client.CreateMix(t.Context(), server.Config(), namespace, "shop")
	require.NoError(t, err)
	require.Len(t, mixes, 2)
	assert.Equal(t, "shop", mixes[0].Name)
	assert.Equal(t, v1alpha1.WhenSpotUnavailableOnDemand, mixes[0].Spec.WhenSpotUnavailable, "the default of the API server")
	_, err = client.CreateMix(t.Context(), server.Config(), namespace, "shop")
	require.ErrorContains(t, err, "already exists")
}
