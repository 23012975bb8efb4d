// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/internal/budget"
)

// decoder sets Go values to those of a document. Other than the decoders of JSON and YAML, it returns all errors, and keeps the line of
// each field.
type decoder struct {
	lines    map[string]int // of the fields that are set, by path
	problems []Problem
}

// defaulter has defaults, which the values of the document replace.
type defaulter interface{ Default() }

// value sets a value to that of a node. A field that is null keeps its default.
func (d *decoder) value(path *field.Path, n *yaml.Node, into reflect.Value) {
	if n.Kind == yaml.ScalarNode && budget.Scalar(n) == nil {
		return
	}
	d.lines[text(path)] = n.Line
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if v, ok := reflect.TypeAssert[defaulter](into.Addr()); ok {
		v.Default()
	}
	_, leaf := reflect.TypeAssert[json.Unmarshaler](into.Addr())
	switch kind := into.Kind(); {
	case leaf, kind != reflect.Struct && kind != reflect.Slice && kind != reflect.Map:
		d.leaf(path, n, into)
	case kind == reflect.Slice:
		d.list(path, n, into)
	default:
		d.object(path, n, into)
	}
}

func (d *decoder) list(path *field.Path, n *yaml.Node, into reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.fail(path, n, "want a list")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		d.lines[path.Index(i).String()] = element.Line
		d.value(path.Index(i), element, into.Index(i))
	}
}

// object sets a struct, or a map of which the type has no fields.
func (d *decoder) object(path *field.Path, n *yaml.Node, into reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.fail(path, n, "want fields")
		return
	}
	if into.Kind() == reflect.Map {
		into.Set(reflect.MakeMap(into.Type()))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.fail(path, key, "want the name of a field")
			continue
		}
		name := key.Value
		if seen[name] {
			d.report(key.Line, field.Duplicate(path, short(name)))
			continue
		}
		seen[name] = true
		d.member(path, key, value, into)
	}
}

// member sets a field of a struct, or a value of a map.
func (d *decoder) member(path *field.Path, key, value *yaml.Node, into reflect.Value) {
	name := key.Value
	if into.Kind() == reflect.Map {
		member := reflect.New(into.Type().Elem()).Elem()
		d.value(path.Key(short(name)), value, member)
		into.SetMapIndex(reflect.ValueOf(name), member)
		return
	}
	fields := fieldsOf(into.Type())
	i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return nameOf(f) == name })
	if i < 0 {
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = nameOf(f)
		}
		d.report(key.Line, field.NotSupported(path, short(name), names))
		return
	}
	d.value(path.Child(name), value, into.FieldByIndex(fields[i].Index))
}

// fieldsOf are the fields of a struct that a document may have.
func fieldsOf(t reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); name != "" && name != "-" {
			fields = append(fields, f)
		}
	}
	return fields
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (d *decoder) leaf(path *field.Path, n *yaml.Node, into reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.fail(path, n, wanted(into.Type()))
		return
	}
	if q, ok := reflect.TypeAssert[*resource.Quantity](into.Addr()); ok {
		parsed, err := budget.ParseQuantity(n.Value)
		if *q = parsed; err != nil {
			d.fail(path, n, wanted(into.Type()))
		}
		return
	}
	encoded, err := json.Marshal(budget.Scalar(n))
	if err == nil {
		err = json.Unmarshal(encoded, into.Addr().Interface())
	}
	if err != nil { // JSON has no infinity and no NaN
		d.fail(path, n, wanted(into.Type()))
	}
}

// wanted is what a value of a type has to be, in words.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return "want a duration such as 90s, 30m or 72h"
	case reflect.TypeFor[resource.Quantity]():
		return "want a quantity such as 500m or 4Gi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "want a whole number, or a percentage such as 25%"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "want true or false"
	case reflect.String:
		return "want a text"
	case reflect.Float64:
		return "want a number"
	case reflect.Uint64:
		return "want a whole number from 0 to 9223372036854775807"
	}
	return "want a whole number that is not above 2147483647"
}

func (d *decoder) fail(path *field.Path, n *yaml.Node, message string) {
	value := any(short(n.Value))
	switch n.Kind {
	case yaml.MappingNode:
		value = "{…}"
	case yaml.SequenceNode:
		value = "[…]"
	}
	d.report(n.Line, field.Invalid(path, value, message))
}

func (d *decoder) report(line int, err *field.Error) {
	d.problems = append(d.problems, Problem{Line: line, Error: err})
}

// text is the path of a field, "" for the document.
func text(path *field.Path) string {
	if path == nil {
		return ""
	}
	return path.String()
}

// longestValue bounds a value in a message.
const longestValue = 60

// short is a value in a message.
func short(value string) string {
	if len(value) <= longestValue {
		return value
	}
	return strings.ToValidUTF8(value[:longestValue], "") + "…"
}
