// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/generators/extremes"
)

// Manifests with aliases in keys and in values, nested ten deep. Twelve of 12 KB once took the controller 1 GB and 26 seconds.
func TestATemplateThatExpandsIsRefused(t *testing.T) {
	const manifest = 64 << 10
	h := newHost(t)
	tenant := newTenant(h.World, 0)
	plain := "{apiVersion: v1, kind: ConfigMap, metadata: {name: '${name}'}, data: {text: '" + strings.Repeat("a", manifest-100) + "'}}"
	bomb := extremes.Bomb(manifest)
	require.Contains(t, bomb, "? *a9\n: {<<: *a9}", "aliases in keys and values, ten deep")
	for i, tc := range []struct {
		name      string
		manifests []string
		// refused is what the API server's answer names, and reported what the condition does.
		refused, reported string
	}{
		{name: "warm", manifests: slices.Repeat([]string{plain}, 16), reported: "spec.functionManifests[2]: Invalid value"},
		{name: "warm-again", manifests: slices.Repeat([]string{plain}, 16), reported: "spec.functionManifests[2]: Invalid value"},
		{name: "twelve", manifests: slices.Repeat([]string{extremes.Bomb(12 << 10)}, 12), reported: "spec.functionManifests[0]: Invalid value"},
		{name: "sixteen", manifests: slices.Repeat([]string{bomb}, 16), reported: "anchors and aliases are not allowed"},
		{name: "thirty", manifests: slices.Repeat([]string{bomb}, 30), refused: "spec.functionManifests: Too many"},
	} {
		before, used := resident(t, h.programs["records"]), processorTime(t, h.programs["records"])
		template := &v1alpha1.DeploymentTemplate{Spec: v1alpha1.DeploymentTemplateSpec{FunctionManifests: tc.manifests}}
		template.Name, template.Namespace = tc.name, tenant.namespace
		err := h.Client.Create(h.Ctx, template)
		if tc.refused != "" {
			require.ErrorContains(t, err, tc.refused, tc.name)
		} else {
			require.NoError(t, err, tc.name)
			h.refusesTemplate(template, tc.reported)
		}
		h.calm(h.World)
		used, growth := processorTime(t, h.programs["records"])-used, peak(t, h.programs["records"])-before
		t.Logf("%s: %s, %d KB", tc.name, used, growth>>10)
		if i > 1 { // the heap has room for an object of that size by then
			assert.Less(t, growth, mostOfOne, tc.name)
			assert.Less(t, used, time.Second, tc.name)
		}
	}
	h.alive(t, "records")
}

// refusesTemplate waits until the controller has refused a template with a message.
func (h *host) refusesTemplate(template *v1alpha1.DeploymentTemplate, message string) {
	h.T.Helper()
	h.Eventually("the controller refuses the template", func() (bool, string) {
		require.NoError(h.T, h.Client.Get(h.Ctx, client.ObjectKeyFromObject(template), template))
		c := meta.FindStatusCondition(template.Status.Conditions, v1alpha1.ConditionAccepted)
		if c == nil {
			return false, "no condition"
		}
		return c.Reason == v1alpha1.ReasonInvalidTemplate && strings.Contains(c.Message, message), c.Message
	})
}
