// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// A simulation accepts no mix that the API server refuses: each bound and each enum of the CustomResourceDefinition is tried.
func TestTheBoundsOfAMixAreThoseOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../../manifests/crds/berth.dev_capacitymixes.yaml")
	require.NoError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(text, &crd))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	tried := 0
	walk("", spec, func(field, value string) {
		tried++
		for _, refused := range []string{"selector", "roles", "unit", "tolerations", "rebalance.windows"} {
			if strings.HasPrefix(field, refused) {
				return // as a whole
			}
		}
		document := map[string]any{}
		set(document, field, value)
		if _, has := document["spotPercent"]; !has {
			document["spotPercent"] = 50
		}
		mix, err := yaml.Marshal(document)
		require.NoError(t, err)
		_, err = Parse("x", []byte("duration: 1h\nnodePools: [{name: a, capacityType: spot, cpu: 1, memory: 1Gi}]\nworkloads:\n- name: w\n  replicas: 1\n  mix:\n    "+
			strings.ReplaceAll(string(mix), "\n", "\n    ")), nil)
		if assert.ErrorContains(t, err, "workloads[0].mix.", "%s", mix) {
			assert.Contains(t, err.Error(), strings.ReplaceAll(strings.ReplaceAll(field, "[]", "[0]"), "[0][0]", "[0]"), "%s", mix)
		}
	})
	assert.Greater(t, tried, 20)
}

// walk calls try with a value that the schema refuses, for each bound of each field.
func walk(path string, schema apiextensionsv1.JSONSchemaProps, try func(field, value string)) {
	if schema.Minimum != nil {
		try(path, fmt.Sprint(int64(*schema.Minimum)-1))
	}
	if schema.Maximum != nil {
		try(path, fmt.Sprint(int64(*schema.Maximum)+1))
	}
	if len(schema.Enum) > 0 {
		try(path, "NoSuchValue")
	}
	if schema.Items != nil {
		walk(path+"[]", *schema.Items.Schema, try)
	}
	for name := range schema.Properties {
		walk(strings.TrimPrefix(path+"."+name, "."), schema.Properties[name], try)
	}
}

// set sets a value of a document by a path such as maxPerDomain[].maxCount.
func set(document map[string]any, path, value string) {
	name, rest, more := strings.Cut(path, ".")
	element := map[string]any{}
	switch {
	case !more:
		var v any
		_ = yaml.Unmarshal([]byte(value), &v)
		document[name] = v
		return
	case strings.HasSuffix(name, "[]"):
		document[strings.TrimSuffix(name, "[]")] = []any{element}
	default:
		document[name] = element
	}
	set(element, rest, value)
}

func TestTheListsOfAMixAreBounded(t *testing.T) {
	for mix, want := range map[string]string{
		"spreadSpotOver: []":                                           "mix.spreadSpotOver: Required value",
		"spreadSpotOver: [a, b, c, d, e]":                              "mix.spreadSpotOver: Too many: 5: must have at most 4 items",
		"spreadSpotOver: [a, a]":                                       `mix.spreadSpotOver[1]: Duplicate value: "a"`,
		"spreadSpotOver: ['']":                                         "mix.spreadSpotOver[0]: Required value",
		"spreadSpotOver: ['a b']":                                      `mix.spreadSpotOver[0]: Invalid value: "a b"`,
		"maxPerDomain: [{topologyKey: a}]":                             "mix.maxPerDomain[0]: Required value: want either maxPercent or maxCount",
		"maxPerDomain: [{maxCount: 1}]":                                "mix.maxPerDomain[0].topologyKey: Required value",
		"maxPerDomain: [{topologyKey: a, maxCount: 1, maxPercent: 1}]": "mix.maxPerDomain[0]: Required value: want either",
		"maxPerDomain: [{topologyKey: a, maxCount: 1}, {topologyKey: a, maxCount: 2}]": `mix.maxPerDomain[1].topologyKey: Duplicate value: "a"`,
		"maxPerDomain: [{}, {}, {}, {}, {}]":                                           "mix.maxPerDomain: Too many: 5",
		"spotWaitSeconds: 1, whenSpotUnavailable: Wait":                                "mix.spotWaitSeconds: Invalid value: 1: has no effect",
		"roles: [{name: a, selector: {}, capacityType: spot}]":                         "mix.roles: Forbidden",
		"unit: {type: Pod}": "mix.unit: Forbidden",
		"tolerations: {}":   "mix.tolerations: Forbidden",
		"selector: {}":      "",
		"spreadSpotOver: [topology.kubernetes.io/zone], group: Top, protectFloor: true":                                   "",
		"maxPerDomain: [{topologyKey: topology.kubernetes.io/zone, maxPercent: 34}]":                                      "",
		"rebalance: {paused: true, strategy: SurgeOrEvict, provisioning: Placeholder}":                                    "",
		"spotWaitSeconds: 60, whenSpotUnavailable: OnDemand, whenDomainInterrupted: DoNotSchedule, deletionCost: Respect": "",
	} {
		_, err := Parse("x", []byte("duration: 1h\nnodePools: [{name: a, capacityType: spot, cpu: 1, memory: 1Gi}]\nworkloads:\n"+
			"- name: w\n  replicas: 1\n  mix: {spotPercent: 50, "+mix+"}"), nil)
		if want == "" {
			require.NoError(t, err, mix)
			continue
		}
		require.ErrorContains(t, err, "x:6: workloads[0]."+want, mix)
	}
}
