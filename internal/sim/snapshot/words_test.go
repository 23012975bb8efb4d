// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/mix/capacity"
)

// unread are names below AnnotationPrefix that a snapshot does not have, with the reason.
var unread = map[string]string{
	"mix": "for people", "move": "on events", "blocked-reason": "on events", "floor-recount": "of the writer of budgets",
	"paused-by": "for people", "paused-at": "for people", "paused-reason": "for people", "force-delete": "of the API",
	"capacity-mix": "a gate", "surge": "a responder", "rebalance": "a requester", "placeholder": "a label", "floor": "a label",
	"inject": "a label", "bind-group": "a label", "resource-limit-in-use": "a finalizer", "reservation-in-use": "a finalizer",
	"never-ready": "a readiness gate",
}

// An annotation that is added to Berth is kept, or a line has the reason why it is not.
func TestEveryAnnotationOfMixesIsKeptOrUnread(t *testing.T) {
	constant := regexp.MustCompile(`AnnotationPrefix \+ "/([a-z-]+)"`)
	for _, file := range []string{"well_known.go", "reservation_types.go", "capacitymix_types.go", "resourcelimit_types.go"} {
		source, err := os.ReadFile(filepath.Join("../../../apis/v1alpha1", file))
		require.NoError(t, err)
		found := constant.FindAllStringSubmatch(string(source), -1)
		for _, m := range found {
			_, kept := annotations["berth.dev/"+m[1]]
			assert.True(t, kept != (unread[m[1]] != ""), "berth.dev/%s must be in annotations, or in unread", m[1])
		}
		if file == "well_known.go" {
			assert.Greater(t, len(found), 30)
		}
	}
}

// A value of an enum that is added to the API keeps its meaning in an anonymised snapshot.
func TestTheValuesOfEnumsAreWords(t *testing.T) {
	found := 0
	for _, kind := range []string{"capacitymixes", "resourcelimits", "schedulingpolicies", "reservations"} {
		manifest, err := os.ReadFile("../../../manifests/crds/berth.dev_" + kind + ".yaml")
		require.NoError(t, err)
		crd := apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(manifest, &crd))
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for _, value := range enums(&spec) {
			found++
			assert.True(t, isWord(value), "%s of %s", value, kind)
		}
	}
	assert.Greater(t, found, 30)
}

func enums(s *apiextensionsv1.JSONSchemaProps) (values []string) {
	for _, v := range s.Enum {
		values = append(values, strings.Trim(string(v.Raw), `"`))
	}
	for _, p := range s.Properties {
		values = append(values, enums(&p)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		values = append(values, enums(s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		values = append(values, enums(s.AdditionalProperties.Schema)...)
	}
	return values
}

// Each label by which a rule determines a capacity type is kept, with its values; a label without a domain only with those.
func TestLabelsOfRulesAreKept(t *testing.T) {
	a := &anonymiser{pseudonyms: pseudonyms{known: map[string]string{}}, compared: sets.New[string]()}
	for _, r := range capacity.DefaultRules() {
		assert.Equal(t, r.Key, a.name(r.Key))
		for _, v := range r.Values {
			assert.Equal(t, v, a.value(r.Key, v), r.Key)
		}
		assert.Equal(t, strings.Contains(r.Key, "/"), a.value(r.Key, "payments") == "payments", r.Key)
		if r.Requires != "" {
			assert.Equal(t, r.Requires, a.name(r.Requires))
			assert.NotEqual(t, "payments", a.value(r.Requires, "payments"), "the name of a pool")
		}
	}
	for _, key := range []string{"topology.kubernetes.io/zone", "kubernetes.io/arch", "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-cpu"} {
		assert.Equal(t, "payments", a.value(key, "payments"), key)
	}
	assert.NotEqual(t, "payments", a.value("kubernetes.io/hostname", "payments"))
}
