// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestRecordName(t *testing.T) {
	for id, want := range map[string]string{
		"My_Deployment.ID@Prod": "my-deployment-id-prod", "a": "a", "-a-": "a", "__x__": "x", "web--1": "web--1",
		"grüße": "gr--e", "日本1": "1", strings.Repeat("a", 253): strings.Repeat("a", 253), "-" + strings.Repeat("a", 253): strings.Repeat("a", 253),
	} {
		got, err := RecordName(id)
		require.NoError(t, err, id)
		assert.Equal(t, want, got, id)
	}
	for _, id := range []string{"", "@@@", "-", "日本", strings.Repeat("a", 254)} {
		_, err := RecordName(id)
		assert.Error(t, err, "%q", id)
	}
}

func TestNamesAreValidAndDoNotCollideForBeingCut(t *testing.T) {
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringN(0, 300, 400).Draw(t, "id")
		name, err := RecordName(id)
		if err != nil {
			return
		}
		require.Empty(t, validation.IsDNS1123Subdomain(name), name)
		require.Empty(t, validation.IsValidLabelValue(Hash(id)))
		for _, suffix := range []string{"", "-odgm", "-odgm-svc", "-fn-63"} {
			child := ChildName(name, suffix)
			require.Empty(t, validation.IsDNS1035Label(child), child)
			require.True(t, strings.HasSuffix(child, suffix))
			if len(name)+len(suffix) > maxLabel {
				require.True(t, seen[child] == "" || seen[child] == name, "%s of %s and of %s", child, name, seen[child])
				seen[child] = name
			}
		}
	})
	long := strings.Repeat("a", 70)
	assert.NotEqual(t, ChildName(long+"1", ""), ChildName(long+"2", ""))
	assert.Equal(t, "web", ChildName("web", ""))
	assert.Equal(t, "a1-fn-0", ChildName("1", "-fn-0"))
}
