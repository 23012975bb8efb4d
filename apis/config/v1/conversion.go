// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/config"
)

// Convert_v1_MixSpec_To_config_MixSpec is the generated conversion, except that it rejects a mix without a spotPercent,
// which the internal type cannot distinguish from 0.
func Convert_v1_MixSpec_To_config_MixSpec(in *MixSpec, out *config.MixSpec, s conversion.Scope) error {
	if in.SpotPercent == nil {
		return field.Required(field.NewPath("defaultMix", "spotPercent"), "must be set, from 0 to 100")
	}

	return autoConvert_v1_MixSpec_To_config_MixSpec(in, out, s)
}
