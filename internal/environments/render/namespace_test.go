// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCopiedLabelsDoNotLowerThePodSecurityLevel(t *testing.T) {
	const enforce, version = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"
	copied := []string{enforce, version, "team"}
	for name, tc := range map[string]struct{ configured, author, want map[string]string }{
		"a stricter one is copied": {
			map[string]string{enforce: "baseline", "zone": "a"},
			map[string]string{enforce: "restricted", version: "v1.30", "team": "shop", "not": "copied"},
			map[string]string{enforce: "restricted", version: "v1.30", "team": "shop", "zone": "a"},
		},
		"one that allows more is not, nor is its version": {
			map[string]string{enforce: "baseline"},
			map[string]string{enforce: "privileged", version: "v1.0", "team": "shop"},
			map[string]string{enforce: "baseline", "team": "shop"},
		},
		"the version of the same level is copied": {
			map[string]string{enforce: "baseline"},
			map[string]string{enforce: "baseline", version: "v1.30"},
			map[string]string{enforce: "baseline", version: "v1.30"},
		},
		"an administrator may require none": {
			nil, map[string]string{enforce: "privileged"}, map[string]string{enforce: "privileged"},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, NamespaceLabels(tc.configured, tc.author, copied)) })
	}
	levels := rapid.SampledFrom(podSecurityLevels)
	rapid.Check(t, func(t *rapid.T) {
		configured, author := levels.Draw(t, "configured"), levels.Draw(t, "author")
		got := NamespaceLabels(map[string]string{enforce: configured}, map[string]string{enforce: author}, copied)[enforce]
		want := podSecurityLevels[max(slices.Index(podSecurityLevels, configured), slices.Index(podSecurityLevels, author))]
		assert.Equal(t, want, got)
	})
}
