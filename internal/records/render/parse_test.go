// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${name}\"}\n"

// bomb is a manifest with a list of so many empty maps, so many aliases of it, and lists of aliases of the list before, nested as deep.
func bomb(maps, aliases, depth int) string {
	text := configMap + "data:\n  l0: &l0 [" + strings.Repeat("{},", maps-1) + "{}]\n"
	for i := range depth {
		text += fmt.Sprintf("  l%d: &l%d [%s*l%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*l%d, ", i), aliases-1), i)
	}
	return text + "  ? *l0\n  : *l0\n"
}

func templateOf(manifests ...string) *v1alpha1.DeploymentTemplate {
	return &v1alpha1.DeploymentTemplate{Spec: v1alpha1.DeploymentTemplateSpec{FunctionManifests: manifests}}
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestATemplateThatExpandsIsRefusedForLittle(t *testing.T) {
	wide := strings.Repeat("# filled up to 64 KB\n", 2000)
	for name, manifests := range map[string][]string{
		"12 manifests with 94 aliases of 4,000 maps":         slices.Repeat([]string{bomb(4000, 94, 1)}, 12),
		"30 manifests of 64 KB with aliases nested ten deep": slices.Repeat([]string{bomb(4000, 94, 10) + wide}, 30),
	} {
		template := templateOf(manifests...)
		var err error
		bytes := allocated(func() { err = CheckTemplate(template, Settings{}) })
		refused := &Error{}
		require.ErrorAs(t, err, &refused, name)
		assert.Equal(t, v1alpha1.ReasonInvalidTemplate, refused.Reason)
		assert.ErrorContains(t, err, "spec.functionManifests[0]", name)
		assert.ErrorContains(t, err, "anchors and aliases are not allowed", name)
		assert.Less(t, bytes, uint64(5<<20), name)
		bytes = allocated(func() { _, err = Render(recordOf("a"), template, settings) })
		require.ErrorContains(t, err, "spec.functionManifests[0]", name)
		assert.Less(t, bytes, uint64(5<<20), name)
	}
}

func TestATemplateHasABudgetForAllItsManifests(t *testing.T) {
	list := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: [" + strings.Repeat("a,", 4000) + "]\n"
	text := configMap + "data: {a: '" + strings.Repeat("b", 60<<10) + "'}\n"
	named := func(addon string, manifests ...string) *v1alpha1.DeploymentTemplate {
		template := templateOf(configMap)
		template.Spec.Addons = []v1alpha1.TemplateAddon{{Name: addon, Manifests: manifests}}
		return template
	}
	odgm := templateOf(list)
	odgm.Spec.ODGMManifests = []string{list, list}
	for want, template := range map[string]*v1alpha1.DeploymentTemplate{
		"spec.functionManifests[2]: Invalid value: \"apiVersion: v1…\": the manifests of the template have more than 131072 bytes": templateOf(text, text, text),
		"spec.functionManifests[2]: Invalid value: \"apiVersion: v1…\": the manifests of the template have more than 8192 keys":    templateOf(list, list, list),
		"spec.odgmManifests[1]":           odgm,
		"spec.addons[cache].manifests[2]": named("cache", list, list, list),
	} {
		assert.ErrorContains(t, CheckTemplate(template, Settings{}), want)
	}
}

// A record multiplies what its template has: by its functions, and by the values of its variables.
func TestARecordHasABudgetForAllItsObjects(t *testing.T) {
	many := make([]string, 64)
	for i := range many {
		many[i] = fmt.Sprint("f-", i)
	}
	wide := configMap + "data: {a: [" + strings.Repeat("a,", 2000) + "]}\n"
	_, err := Render(recordOf(many...), templateOf(wide), settings)
	require.ErrorContains(t, err, `spec.functionManifests[0]: Invalid value: "for function": the objects of the record have more than 65536 keys`)
	_, err = Render(recordOf("a"), templateOf(wide), settings)
	require.NoError(t, err)

	record := recordOf("a")
	long := map[string]v1alpha1.ConfigValue{}
	for i := range 10 {
		long[fmt.Sprint("LONG_", i)] = v1alpha1.ConfigValue(strings.Repeat("x", 32<<10))
	}
	record.Spec.DeploymentUnit.Functions[0].Config = long
	often := templateOf(configMap + "data: [" + strings.Repeat("'${env}',", 200) + "]\n")
	bytes := allocated(func() { _, err = Render(record, often, settings) })
	require.ErrorContains(t, err, "or 4194304 bytes")
	assert.Less(t, bytes, uint64(16<<20), "of 64 MB; the race detector drops what sync.Pool has")
	require.ErrorContains(t, CheckTemplate(templateOf(configMap+"data: ["+strings.Repeat("'${env}',", 4000)+"]\n"), Settings{}), "the objects of the record")
}

// Each collection has the options and routes of the record, and each member of the ODGM has all collections.
func TestTheCollectionsOfARecordHaveABudget(t *testing.T) {
	record := recordOf("a")
	record.Spec.Addons = &[]v1alpha1.Addon{v1alpha1.AddonODGM}
	c := &v1alpha1.ODGMConfig{Options: map[string]v1alpha1.AttributeValue{}, NodeIDs: map[string]v1alpha1.NodeIDs{}}
	for i := range 64 {
		c.Collections = append(c.Collections, fmt.Sprint("c-", i))
		c.Options[fmt.Sprint("o-", i)] = v1alpha1.AttributeValue(strings.Repeat("x", 1024))
		c.NodeIDs["edge"] = append(c.NodeIDs["edge"], v1alpha1.NodeIDOf(uint64(i)))
	}
	record.Spec.ODGMConfig, record.Spec.TargetEnvironment = c, "edge"
	var err error
	bytes := allocated(func() { _, err = Render(record, templateOf(configMap), settings) })
	require.ErrorContains(t, err, "spec.odgmConfig.collections: Invalid value: 64: the collections with their options and invocations have more than 1048576 bytes")
	assert.Less(t, bytes, uint64(10<<20))
}

func TestCostIsThatOfTheValue(t *testing.T) {
	m, err := ParseManifest(field.NewPath("m"), "a: [x, '${b}', 'y-${b}-$${c}']", 100)
	require.NoError(t, err)
	assert.Equal(t, cost{6, 1 + 1 + 4 + 12}, m.fixed)
	assert.Equal(t, map[string]int{"b": 2}, m.references)
	assert.Equal(t, cost{4, 5}, costOf(map[string]any{"k": []any{"text", int64(1)}}, nil).plus(cost{-1, 0}, 1))
	assert.Equal(t, cost{1<<63 - 1, 1<<63 - 1}, cost{1, 1}.plus(cost{1 << 40, 1 << 40}, 1<<40))
}

func BenchmarkCheckTemplate(b *testing.B) {
	for name, template := range map[string]*v1alpha1.DeploymentTemplate{
		"aliases":      templateOf(slices.Repeat([]string{bomb(4000, 94, 10)}, 16)...),
		"in the limit": templateOf(strings.Replace(bomb(3900, 1, 0), "&l0", "", 1), "a: ["+strings.Repeat("b,", 4000)+"]"),
		"long texts":   templateOf(slices.Repeat([]string{configMap + "data: {a: \"" + strings.Repeat("é\\n", 15<<10) + "\"}"}, 2)...),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = CheckTemplate(template, Settings{})
			}
		})
	}
}
