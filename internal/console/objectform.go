// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
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
	// limitsField is a list of limits of domains, one in a line.
	limitsField
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
	// texts are those of the fields, by their paths, and was what they were when the form was made: a text that differs is one that
	// the user has changed.
	texts, was map[string]string
	YAML       string
	// Problems are by the path of a field. The key "" has those of no field.
	Problems map[string][]string
	// undo makes an object that was written again what it was before, "" if nothing does.
	undo string
	// Diff is what the object would become. Reviewed is the YAML that is written then, "" if the API server has not judged it.
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
	f := &objectForm{kind: k, Namespace: o.GetNamespace(), Name: o.GetName(), texts: k.textsOf(o), was: k.textsOf(o)}
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
		switch f.kind {
		case termsField, preferredField:
			of, between = termText, "\n"
		case limitsField:
			of, between = limitText, "\n"
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
	case limitsField:
		return domainLimitsOf(text)
	case listField:
		var all []any
		for item := range strings.SplitSeq(text, ",") {
			all = append(all, strings.TrimSpace(item))
		}
		return all, nil
	}
	return text, nil
}

// filledLines are the lines of a text that are not blank, without the space around them.
func filledLines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// labelsOf is a map of the lines of a text.
func labelsOf(text string) (any, error) {
	labels := map[string]any{}
	for line := range filledLines(text) {
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

// wasPrefix is before the paths of fields in the names of what their texts were.
const wasPrefix = "was."

// readTexts are the texts of the fields that a browser sends, and what they were.
func (f *objectForm) readTexts(sent url.Values) {
	f.texts, f.was = map[string]string{}, map[string]string{}
	text := func(name string) string { return strings.TrimSpace(strings.ReplaceAll(sent.Get(name), "\r\n", "\n")) }
	for i := range f.kind.fields {
		path := f.kind.fields[i].path
		f.texts[path], f.was[path] = text(path), text(wasPrefix+path)
	}
}

// applied is a draft with the fields that the user has changed. All others stay as the draft has them.
func (f *objectForm) applied(draft *unstructured.Unstructured) *unstructured.Unstructured {
	out := draft.DeepCopy()
	out.SetNamespace(f.Namespace)
	out.SetName(f.Name)
	for i := range f.kind.fields {
		field := &f.kind.fields[i]
		if !f.changed(field.path) {
			continue
		}
		v, err := field.value(f.texts[field.path])
		if err != nil {
			f.problem(field.path, err.Error())
			continue
		}
		field.set(out.Object, v)
	}
	for i := range f.kind.fields {
		f.replaceOther(&f.kind.fields[i], out)
	}
	return out
}

// changed reports whether the user has changed a field.
func (f *objectForm) changed(path string) bool { return f.texts[path] != f.was[path] }

// replaceOther removes the field in place of which another one is set. What the user wrote there must not be lost without notice.
func (f *objectForm) replaceOther(field *formField, o *unstructured.Unstructured) {
	if field.instead == "" || f.texts[field.path] == "" {
		return
	}
	touched := func(other formField) bool {
		return (other.path == field.path || strings.HasPrefix(other.path, field.instead+".")) && f.changed(other.path)
	}
	if !slices.ContainsFunc(f.kind.fields, touched) {
		return
	}
	names := strings.Split(field.instead, ".")
	other, _, err := unstructured.NestedMap(o.Object, names...)
	if err == nil && len(other) == 0 {
		unstructured.RemoveNestedField(o.Object, names...)
		return
	}
	f.problem(field.path, fmt.Sprintf("it is in place of %s: remove one of the two", field.instead))
}

// take shows an object as YAML and as fields. With keep, the fields that the user has changed stay as they are: they were not applied.
func (f *objectForm) take(o *unstructured.Unstructured, keep bool) {
	f.YAML, f.Namespace, f.Name = yamlOf(o), o.GetNamespace(), o.GetName()
	shown := f.kind.textsOf(o)
	for i := range f.kind.fields {
		if path := f.kind.fields[i].path; !keep || !f.changed(path) {
			f.texts[path] = shown[path]
		}
	}
	f.was = shown
}

// set sets a field, or removes it, with its parents that are empty then.
func (f *formField) set(o map[string]any, v any) {
	names := f.names()
	if v != nil {
		_ = unstructured.SetNestedField(o, v, names...) // a parent that is no map is what the API server refuses
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

// parsed is an object with what a user wrote as YAML, nil if that cannot be read. A new object whose YAML has no names has those of the
// form.
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
	out.SetNamespace(cmp.Or(o.GetNamespace(), f.Namespace))
	out.SetName(cmp.Or(o.GetName(), f.Name))
	if f.Version != "" && (o.GetNamespace() != f.Namespace || o.GetName() != f.Name) {
		f.problem("", "metadata.namespace and metadata.name cannot be changed")
	}
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

// fieldView is a field as the template shows it. Most is the greatest length of a name.
type fieldView struct {
	Path, Label, Hint, Text, Was string
	Choices                      []string
	Area, Number                 bool
	Problems                     []string
	Most                         int
}

// Names are the fields of the names of a new object.
func (f *objectForm) Names() []fieldView {
	if f.Version != "" {
		return nil
	}
	return []fieldView{
		{Path: "metadata.namespace", Label: "Namespace", Text: f.Namespace, Most: 63, Problems: f.Problems["metadata.namespace"]},
		{Path: "metadata.name", Label: "Name", Text: f.Name, Most: 253, Problems: f.Problems["metadata.name"]},
	}
}

// areas are the kinds of fields whose texts have several lines.
var areas = []formKind{labelsField, proseField, termsField, preferredField, limitsField}

// Fields are the fields for the template.
func (f *objectForm) Fields() (views []fieldView) {
	for i := range f.kind.fields {
		field := &f.kind.fields[i]
		v := fieldView{
			Path: field.path, Label: field.label, Hint: field.hint, Text: f.texts[field.path], Was: f.was[field.path],
			Choices: field.choices, Area: slices.Contains(areas, field.kind), Number: field.kind == numberField,
			Problems: f.Problems[field.path],
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
