// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestID(t *testing.T) {
	for name, want := range map[string]string{
		"shop":                         `^shop-[0-9a-f]{8}$`,
		"My Shop!":                     `^my-shop-[0-9a-f]{8}$`,
		"--a__b--":                     `^a-b-[0-9a-f]{8}$`,
		"Müller":                       `^m-ller-[0-9a-f]{8}$`,
		"日本":                           `^env-[0-9a-f]{8}$`,
		"":                             `^env-[0-9a-f]{8}$`,
		"7th":                          `^7th-[0-9a-f]{8}$`,
		strings.Repeat("a", 63):        `^a{43}-[0-9a-f]{8}$`,
		strings.Repeat("a", 42) + "-b": `^a{42}-[0-9a-f]{8}$`,
	} {
		assert.Regexp(t, want, ID("team", name), name)
	}
	assert.NotEqual(t, ID("team", "My Shop"), ID("team", "my-shop"), "similar names have distinct ids")
	assert.NotEqual(t, ID("team", "shop"), ID("other", "shop"), "a namespace of its own for each")
}

// Whatever the name, the id is a DNS label of at most 52 characters, the same for the same name and another for
// another. The namespace that is made of it is a DNS label too.
func TestIDsAreLabels(t *testing.T) {
	name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9 ._-]{0,70}`), rapid.StringMatching(`[a-z0-9-]{60}`))
	rapid.Check(t, func(t *rapid.T) {
		a, b, namespace := name.Draw(t, "a"), name.Draw(t, "b"), rapid.StringMatching(`[a-z][a-z0-9-]{0,61}[a-z0-9]`).Draw(t, "namespace")
		id := ID(namespace, a)
		assert.Empty(t, validation.IsDNS1123Label(id))
		assert.LessOrEqual(t, len(id), 52)
		assert.Equal(t, id, ID(namespace, a))
		if a != b {
			assert.NotEqual(t, id, ID(namespace, b))
		}
		own := NamespaceOf("env-", namespace, id)
		assert.Empty(t, validation.IsDNS1123Label(own))
		assert.NotEqual(t, own, NamespaceOf("env-", namespace+"x", id), "two namespaces may have the same name of an environment")
	})
}
