// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
)

func TestTheTemplatesThatShipAreAccepted(t *testing.T) {
	for name, template := range shipped(t) {
		require.NoError(t, CheckTemplate(template, Settings{}), name)
	}
}

func TestTemplatesThatCannotBeRenderedAreNotAccepted(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: \"${name}\"}\n"
	for name, tc := range map[string]struct {
		functions, odgm []string
		want            string
	}{
		"no YAML":                        {functions: []string{"a: [b"}, want: "spec.functionManifests[0]"},
		"an unknown variable":            {functions: []string{service + "spec: {type: \"${typo}\"}"}, want: "typo"},
		"a kind that must not be made":   {functions: []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: \"${name}\"}"}, want: "Secret"},
		"one name for all functions":     {functions: []string{"apiVersion: v1\nkind: Service\nmetadata: {name: fixed}"}, want: "Service fixed"},
		"an ODGM that cannot be reached": {functions: []string{service}, odgm: []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${name}\"}"}, want: "spec.odgmManifests"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckTemplate(&v1alpha1.DeploymentTemplate{Spec: v1alpha1.DeploymentTemplateSpec{FunctionManifests: tc.functions, ODGMManifests: tc.odgm}}, Settings{})
			refused := &Error{}
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, v1alpha1.ReasonInvalidTemplate, refused.Reason)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
