// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// formKind is how the text of a field becomes a value.
type formKind int

const (
	textField formKind = iota
	numberField
	boolField
	// labelsField is a map of texts, one key=value in a line. listField is a list of texts, separated by commas.
	labelsField
	listField
	// proseField is a text of several lines. termsField and preferredField are the terms of a node affinity, one in a line.
	proseField
	termsField
	preferredField
)

// formField is a field of a form.
type formField struct {
	// path is that of the field, such as spec.rebalance.mode.
	path, label, hint string
	kind              formKind
	choices           []string
	// parent stays when the field is the last one in it, because it is required.
	parent bool
	// instead are fields that are removed when this one is set.
	instead string
}

func (f *formField) names() []string { return strings.Split(f.path, ".") }

// objectBudget bounds an object that a user writes as YAML.
var objectBudget = budget.YAML{Bytes: maxForm, Nodes: 20_000, Depth: 32}

// objectForm is an object as the texts that a user edits: as fields, and as YAML. Unlike on other pages, the texts are not made printable:
// they are written back.
type objectForm struct {
	kind *editedKind
	// Namespace, Name and Version identify what is edited. Version is empty for a new object.
	Namespace, Name, Version string
	// texts are those of the fields, by their paths.
	texts map[string]string
	YAML  string
	// Problems are by the path of a field. The key "" has those of no field.
	Problems map[string][]string
	// Diff is what the object would become. Reviewed is the YAML that is written then.
	Diff     []diffLine
	Reviewed string
}

// problem adds a problem of a field.
func (f *objectForm) problem(field, message string) {
	if f.Problems == nil {
		f.Problems = map[string][]string{}
	}
	f.Problems[field] = append(f.Problems[field], message)
}

// objectFormOf is the form that edits an object.
func objectFormOf(k *editedKind, o *unstructured.Unstructured) *objectForm {
	f := &objectForm{kind: k, Namespace: o.GetNamespace(), Name: o.GetName(), texts: k.textsOf(o)}
	if o.GetUID() != "" || o.GetResourceVersion() != "" {
		f.Version = contentVersion(o)
	}
	f.YAML = yamlOf(o)
	return f
}

// textsOf are the texts of the fields of an object.
func (k *editedKind) textsOf(o *unstructured.Unstructured) map[string]string {
	texts := map[string]string{}
	for i := range k.fields {
		field := &k.fields[i]
		if v, found, err := unstructured.NestedFieldNoCopy(o.Object, field.names()...); err == nil && found {
			texts[field.path] = field.text(v)
		}
	}
	return texts
}

// text is the text of a value.
func (f *formField) text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any:
		var lines []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			lines = append(lines, fmt.Sprintf("%s=%v", key, v[key]))
		}
		return strings.Join(lines, "\n")
	case []any:
		of, between := func(v any) string { return fmt.Sprint(v) }, ", "
		if f.kind == termsField || f.kind == preferredField {
			of, between = termText, "\n"
		}
		var all []string
		for _, item := range v {
			all = append(all, of(item))
		}
		return strings.Join(all, between)
	}
	return fmt.Sprint(v)
}

// value is the value of a text, nil for none.
func (f *formField) value(text string) (any, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the field is removed
	}
	switch f.kind {
	case numberField:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q must be a whole number", text)
		}
		return n, nil
	case boolField:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q must be true or false", text)
		}
		return b, nil
	case labelsField:
		return labelsOf(text)
	case termsField, preferredField:
		return termsOf(text, f.kind == preferredField)
	case listField:
		var all []any
		for item := range strings.SplitSeq(text, ",") {
			all = append(all, strings.TrimSpace(item))
		}
		return all, nil
	}
	return text, nil
}

// labelsOf is a map of the lines of a text.
func labelsOf(text string) (any, error) {
	labels := map[string]any{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, v, is := strings.Cut(line, "=")
		if !is {
			return nil, fmt.Errorf("%q must be key=value", line)
		}
		if _, twice := labels[strings.TrimSpace(key)]; twice {
			return nil, fmt.Errorf("%q is there twice", strings.TrimSpace(key))
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(v)
	}
	return labels, nil
}

// readTexts are the texts of the fields that a browser sends.
func (f *objectForm) readTexts(sent url.Values) {
	f.texts = map[string]string{}
	for i := range f.kind.fields {
		path := f.kind.fields[i].path
		f.texts[path] = strings.TrimSpace(strings.ReplaceAll(sent.Get(path), "\r\n", "\n"))
	}
}

// applied is an object with the fields whose texts differ from those of the object. All others stay as they are.
func (f *objectForm) applied(base *unstructured.Unstructured) *unstructured.Unstructured {
	out, before := base.DeepCopy(), f.kind.textsOf(base)
	out.SetNamespace(f.Namespace)
	out.SetName(f.Name)
	for i := range f.kind.fields {
		field := &f.kind.fields[i]
		text := f.texts[field.path]
		if text == before[field.path] {
			continue
		}
		v, err := field.value(text)
		if err != nil {
			f.problem(field.path, err.Error())
			continue
		}
		field.set(out.Object, v)
	}
	return out
}

// set sets a field, or removes it, with its parents that are empty then.
func (f *formField) set(o map[string]any, v any) {
	names := f.names()
	if v != nil {
		_ = unstructured.SetNestedField(o, v, names...) // a parent that is no map is what the API server refuses
		if f.instead != "" {
			unstructured.RemoveNestedField(o, strings.Split(f.instead, ".")...)
		}
		return
	}
	unstructured.RemoveNestedField(o, names...)
	for n := len(names) - 1; n > 1 && !f.parent; n-- { // spec stays
		parent, found, err := unstructured.NestedMap(o, names[:n]...)
		if !found || err != nil || len(parent) > 0 {
			return
		}
		unstructured.RemoveNestedField(o, names[:n]...)
	}
}

// editedMetadata are the fields of metadata that a user edits.
var editedMetadata = []string{"name", "namespace", "labels", "annotations"}

// edited is what a user edits of an object.
func edited(o *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	for _, name := range editedMetadata {
		if v, found, _ := unstructured.NestedFieldCopy(o.Object, "metadata", name); found {
			metadata[name] = v
		}
	}
	return map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": metadata, "spec": o.Object["spec"]}
}

// yamlOf is what a user edits of an object, as YAML.
func yamlOf(o *unstructured.Unstructured) string {
	text, err := yaml.Marshal(edited(o))
	if err != nil {
		return "" // it was read from JSON
	}
	return string(text)
}

// contentVersion identifies what a user edits of an object. Its status, which controllers write all the time, is not part of it.
func contentVersion(o *unstructured.Unstructured) string {
	text, err := json.Marshal([]any{o.GetUID(), edited(o)})
	if err != nil {
		return "" // it was read from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// parsed is an object with what a user wrote as YAML, nil if that cannot be read.
func (f *objectForm) parsed(base *unstructured.Unstructured) *unstructured.Unstructured {
	v, _, err := objectBudget.Parse(f.YAML)
	if err != nil {
		f.problem("", "the YAML cannot be read: "+err.Error())
		return nil
	}
	written, is := v.(map[string]any)
	if !is {
		f.problem("", "the YAML must be an object")
		return nil
	}
	o := &unstructured.Unstructured{Object: written}
	if o.GetAPIVersion() != v1alpha1.SchemeGroupVersion.String() || o.GetKind() != f.kind.kind {
		f.problem("", fmt.Sprintf("apiVersion and kind must be %s and %s", v1alpha1.SchemeGroupVersion, f.kind.kind))
	}
	out := base.DeepCopy()
	f.checkKeys(written, "", "apiVersion", "kind", "metadata", "spec")
	metadata, is := written["metadata"].(map[string]any)
	if !is {
		f.problem("", "metadata must be an object")
		return nil
	}
	f.checkKeys(metadata, "metadata.", editedMetadata...)
	if f.Version == "" {
		f.Namespace, f.Name = o.GetNamespace(), o.GetName()
	} else if o.GetNamespace() != f.Namespace || o.GetName() != f.Name {
		f.problem("", "metadata.namespace and metadata.name cannot be changed")
	}
	out.SetNamespace(f.Namespace)
	out.SetName(f.Name)
	out.Object["spec"] = written["spec"]
	for _, name := range []string{"labels", "annotations"} {
		if v, has := metadata[name]; has && v != nil {
			_ = unstructured.SetNestedField(out.Object, v, "metadata", name)
		} else {
			unstructured.RemoveNestedField(out.Object, "metadata", name)
		}
	}
	return out
}

// checkKeys adds a problem for each key that is not one of the names: it would be lost.
func (f *objectForm) checkKeys(of map[string]any, in string, names ...string) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if !slices.Contains(names, key) {
			f.problem("", fmt.Sprintf("%s%s cannot be edited here", in, key))
		}
	}
}

// fieldNames are the paths of the fields that the form has, for problems.
func (f *objectForm) fieldNames() []string {
	names := []string{"metadata.namespace", "metadata.name"}
	for i := range f.kind.fields {
		names = append(names, f.kind.fields[i].path)
	}
	return names
}

// fieldView is a field as the template shows it.
type fieldView struct {
	Path, Label, Hint, Text string
	Choices                 []string
	Area, Number            bool
	Problems                []string
}

// areas are the kinds of fields whose texts have several lines.
var areas = []formKind{labelsField, proseField, termsField, preferredField}

// Fields are the fields for the template.
func (f *objectForm) Fields() (views []fieldView) {
	for i := range f.kind.fields {
		field := &f.kind.fields[i]
		v := fieldView{
			Path: field.path, Label: field.label, Hint: field.hint, Text: f.texts[field.path], Choices: field.choices,
			Area: slices.Contains(areas, field.kind), Number: field.kind == numberField, Problems: f.Problems[field.path],
		}
		if field.kind == boolField {
			v.Choices = []string{"true", "false"}
		}
		// A value that the form lacks stays one of the choices.
		if v.Choices != nil && v.Text != "" && !slices.Contains(v.Choices, v.Text) {
			v.Choices = append(slices.Clone(v.Choices), v.Text)
		}
		views = append(views, v)
	}
	return views
}

// diffLine is a line of a comparison: Op is + for one that is added, - for one that is removed, and a space otherwise.
type diffLine struct{ Op, Text string }

// maxDiff bounds the lines that are compared, without those at the beginning and the end that are the same.
const maxDiff = 1000

// diffOf compares texts line by line.
func diffOf(before, after string) (lines []diffLine) {
	a, b := linesOf(before), linesOf(after)
	add := func(op string, of []string) {
		for _, text := range of {
			lines = append(lines, diffLine{op, inertLine(text)})
		}
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	add(" ", a[:head])
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) > maxDiff || len(y) > maxDiff {
		add("-", x)
		add("+", y)
	} else {
		compareLines(x, y, add)
	}
	add(" ", a[len(a)-tail:])
	return lines
}

// linesOf are the lines of a text, none of an empty one.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// compareLines adds lines so that those in both, in one order, are as many as possible.
func compareLines(a, b []string, add func(op string, lines []string)) {
	same := make([][]int, len(a)+1) // same[i][j] is how many lines a[i:] and b[j:] have in common
	for i := range same {
		same[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				same[i][j] = same[i+1][j+1] + 1
			} else {
				same[i][j] = max(same[i+1][j], same[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			add(" ", a[i:i+1])
			i, j = i+1, j+1
		case same[i+1][j] >= same[i][j+1]:
			add("-", a[i:i+1])
			i++
		default:
			add("+", b[j:j+1])
			j++
		}
	}
	add("-", a[i:])
	add("+", b[j:])
}
