// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestProfiles(t *testing.T) {
	dev, edge := Features{}, Features{HPA: true, Prometheus: true}
	full := Features{NFREnforcement: true, HPA: true, Prometheus: true, ODGM: true}
	for profile, want := range map[string]Features{
		"dev": dev, "": dev, "anything": dev, "edge": edge, "EDGE": edge, "full": full, "prod": full, "production": full,
	} {
		assert.Equal(t, want, FeaturesOf(profile, Overrides{}), profile)
	}
	on, off := true, false
	assert.Equal(t, Features{Knative: true, ODGM: true}, FeaturesOf("dev", Overrides{Knative: &on, ODGM: &on}), "what is set beats the profile")
	got := FeaturesOf("full", Overrides{NFREnforcement: &off, HPA: &off, Prometheus: &off, ODGM: &off})
	assert.Equal(t, Features{}, got)
}
