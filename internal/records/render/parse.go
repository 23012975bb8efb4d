// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// What a template and a record may cost. A template that ships has 90 nodes and 1,600 bytes.
const (
	// maxManifestBytes is the length that the CustomResourceDefinition allows.
	maxManifestBytes, maxDepth = 64 << 10, 64
	// maxTemplateBytes and maxTemplateNodes are for all manifests of a template.
	maxTemplateBytes, maxTemplateNodes = 128 << 10, 8 << 10
	// maxRecordBytes and maxRecordNodes are for all objects that are rendered for a record.
	maxRecordBytes, maxRecordNodes = 4 << 20, 64 << 10
)

// cost is how many keys, scalars, lists and maps a value has, and the bytes of its texts. Sums end at the highest number.
type cost struct{ nodes, bytes int }

func (c cost) plus(d cost, times int) cost {
	sum := func(a, b int) int { return int(budget.Add(int64(a), budget.Mul(int64(b), int64(times)))) }
	return cost{sum(c.nodes, d.nodes), sum(c.bytes, d.bytes)}
}

// Manifest is a manifest of a template that was parsed.
type Manifest struct {
	content map[string]any
	// fixed is what it costs without the values of its variables, and references is how often it has each of them.
	fixed      cost
	references map[string]int
}

// ParseManifest parses a manifest of at most so many keys, scalars, lists and maps.
func ParseManifest(path *field.Path, text string, nodes int) (*Manifest, error) {
	value, _, err := budget.YAML{Bytes: maxManifestBytes, Nodes: nodes, Depth: maxDepth}.Parse(text)
	if err != nil {
		return nil, field.Invalid(path, shown(text), "cannot be read as YAML: "+err.Error())
	}
	content, ok := value.(map[string]any)
	if !ok {
		return nil, field.Invalid(path, shown(text), "is not one object")
	}
	m := &Manifest{content: content, references: map[string]int{}}
	m.fixed = costOf(content, m.references)
	return m, nil
}

// costOf returns what a value costs, and counts its references to variables, unless references is nil.
func costOf(v any, references map[string]int) cost {
	c := cost{nodes: 1}
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			c = c.plus(cost{1, len(key)}, 1).plus(costOf(item, references), 1)
		}
	case []any:
		for _, item := range v {
			c = c.plus(costOf(item, references), 1)
		}
	case string:
		c.bytes = len(v)
		if references != nil {
			countReferences(v, references)
		}
	}
	return c
}

func countReferences(text string, references map[string]int) {
	for _, found := range variable.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(found[0], "$$") {
			references[found[1]]++
		}
	}
}

// parsed are the manifests of a template.
type parsed struct {
	functions, odgm []*Manifest
	// addons are by the name of the add-on.
	addons map[string][]*Manifest
}

// parse parses the manifests of a template.
func parse(t *v1alpha1.DeploymentTemplate) (p parsed, err error) {
	left := &cost{maxTemplateNodes, maxTemplateBytes}
	if p.functions, err = parseAll("functionManifests", t.Spec.FunctionManifests, left); err != nil {
		return p, err
	}
	if p.odgm, err = parseAll("odgmManifests", odgmManifests(t), left); err != nil {
		return p, err
	}
	p.addons = map[string][]*Manifest{}
	for i := range t.Spec.Addons {
		a := &t.Spec.Addons[i]
		if p.addons[a.Name], err = parseAll(fieldOf(a.Name), a.Manifests, left); err != nil {
			return p, err
		}
	}
	return p, nil
}

// fieldOf is the field of a template with the manifests of an add-on.
func fieldOf(addon string) string { return "addons[" + addon + "].manifests" }

// parseAll parses the manifests of a field, and takes what they cost from what is left.
func parseAll(name string, texts []string, left *cost) (list []*Manifest, err error) {
	for i, text := range texts {
		path := field.NewPath("spec", name).Index(i)
		if left.bytes -= len(text); left.bytes < 0 {
			return nil, field.Invalid(path, shown(text),
				fmt.Sprintf("the manifests of the template have more than %d bytes", maxTemplateBytes))
		}
		m, err := ParseManifest(path, text, maxTemplateNodes)
		if err != nil {
			return nil, err
		}
		if left.nodes -= m.fixed.nodes; left.nodes < 0 {
			return nil, field.Invalid(path, shown(text),
				fmt.Sprintf("the manifests of the template have more than %d keys, scalars, lists and maps", maxTemplateNodes))
		}
		list = append(list, m)
	}
	return list, nil
}

// checkCost refuses manifests whose objects would cost more than a record may. Nothing is built before.
func checkCost(sources []source) error {
	var sum cost
	for i := range sources {
		src := &sources[i]
		values := map[string]cost{} // of the variables that were needed
		for j, m := range src.manifests {
			sum = sum.plus(m.fixed, 1)
			for name, times := range m.references {
				if _, known := values[name]; !known {
					values[name] = costOf(src.variables[name], nil)
				}
				sum = sum.plus(values[name], times)
			}
			if sum.nodes > maxRecordNodes || sum.bytes > maxRecordBytes {
				return field.Invalid(field.NewPath("spec", src.field).Index(j), "for "+src.labels[v1alpha1.ComponentLabel], fmt.Sprintf(
					"the objects of the record have more than %d keys, scalars, lists and maps, or %d bytes", maxRecordNodes, maxRecordBytes))
			}
		}
	}
	return nil
}
