// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

func TestDeployRefusesWhatTheConfigurationDoesNotHave(t *testing.T) {
	none, named := &[]v1alpha1.Addon{}, &[]v1alpha1.Addon{v1alpha1.AddonODGM}
	for name, c := range map[string]struct {
		profile, image string
		addons         *[]v1alpha1.Addon
		want           string
	}{
		"no ODGM":                     {"full", "", none, ""},
		"no addons, no image":         {"full", "", nil, "records.odgmImage"},
		"an ODGM, no image":           {"full", "", named, "records.odgmImage"},
		"an ODGM and its image":       {"full", "odgm:1", named, ""},
		"no addons, off":              {"dev", "", nil, ""},
		"an ODGM, off":                {"dev", "", named, "records.features.odgm"},
		"an ODGM that is off, image":  {"dev", "odgm:1", named, "records.features.odgm"},
		"no addons, with their image": {"full", "odgm:1", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := controller.Default()
			assert.Empty(t, config.Records.ODGMImage, "no image of others by default")
			config.Records.Profile, config.Records.ODGMImage = c.profile, c.image
			err := deployable(config)(t.Context(), &v1alpha1.DeploymentRecordSpec{Addons: c.addons})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, codes.FailedPrecondition, server.AsError(err).Code)
		})
	}
}
