// SPDX-License-Identifier: Apache-2.0

// Package extremes makes objects of a CustomResourceDefinition, each with one field at an extreme that its schema allows or just
// refuses: the longest text, the most entries, the highest and lowest number. It is pure, and a field without a bound is an error.
package extremes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schema is that of a field.
type Schema = apiextensionsv1.JSONSchemaProps

// Extreme is the content of a field of an object.
type Extreme struct {
	// Field is the path of the field that is at an extreme, such as spec.rebalance.windows[].
	Field string
	// Value is all of the content, with base below it.
	Value map[string]any
}

// maxBytes bounds the texts of an object. The API server takes about 1.5 MB.
const maxBytes = 900 << 10

// longText is how long a text may be that is parsed, and not only compared.
const longText = 4096

// Of returns the extremes of a field with properties: one after the other for each field below it, and all at once. Fields of base
// that the extreme does not set stay, so that the rules of the kind are met.
func Of(name string, s *Schema, base map[string]any) ([]Extreme, error) {
	if missing := Unbounded(name, s); len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "\n"))
	}
	var list []Extreme
	add := func(field string, value any) {
		list = append(list, Extreme{field, merged(base, value.(map[string]any))})
	}
	vary(name, s, add)
	left := maxBytes
	add(name, full(s, 0, &left))
	return list, nil
}

// Unbounded returns the fields whose size or number has no bound.
func Unbounded(path string, s *Schema) (missing []string) {
	need := func(ok bool, bound string) {
		if !ok {
			missing = append(missing, path+" has no "+bound)
		}
	}
	switch {
	case isQuantity(s):
		need(s.MaxLength != nil, "maxLength")
		need(ruled(s, ")) <= 0"), "highest quantity")
	case s.Type == "string":
		need(s.MaxLength != nil || !isFreeText(s), "maxLength")
	case s.Type == "integer", s.Type == "number":
		need(ruled(s, "self <=") || s.Maximum != nil && s.Minimum != nil, "maximum and minimum")
	case s.Type == "array":
		need(s.MaxItems != nil, "maxItems")
		missing = append(missing, Unbounded(path+"[]", s.Items.Schema)...)
	case s.AdditionalProperties != nil:
		need(s.MaxProperties != nil, "maxProperties")
		missing = append(missing, Unbounded(path+"{}", s.AdditionalProperties.Schema)...)
	case s.Type == "object":
		need(s.XPreserveUnknownFields == nil, "schema of what is below it")
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			missing = append(missing, Unbounded(path+"."+name, new(s.Properties[name]))...)
		}
	default:
		need(s.Type == "boolean", "type")
	}
	return missing
}

func isQuantity(s *Schema) bool { return s.XIntOrString || ruled(s, "isQuantity(self)") }

// ruled reports whether a rule of a schema has a text.
func ruled(s *Schema, text string) bool {
	return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, text) })
}

// vary calls add with the extremes of a field, and of the fields below it.
func vary(path string, s *Schema, add func(field string, value any)) {
	switch {
	case s.Type == "array":
		for _, item := range []func(int, *int) any{
			func(i int, _ *int) any { return least(s.Items.Schema, i) },
			func(i int, left *int) any { return full(s.Items.Schema, i, left) },
		} {
			left, list := maxBytes, []any{}
			for i := 0; i < int(*s.MaxItems) && left > 0; i++ {
				list = append(list, item(i, &left))
			}
			add(path, list)
		}
		vary(path+"[]", s.Items.Schema, func(field string, value any) { add(field, []any{value}) })
	case s.AdditionalProperties != nil:
		left := maxBytes
		add(path, full(s, 0, &left))
		vary(path+"{}", s.AdditionalProperties.Schema, func(field string, value any) { add(field, map[string]any{"k": value}) })
	case s.Type == "object":
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			vary(path+"."+name, new(s.Properties[name]), func(field string, value any) {
				add(field, merged(least(s, 0).(map[string]any), map[string]any{name: value}))
			})
		}
	default:
		for _, value := range scalars(s) {
			add(path, value)
		}
	}
}

// scalars returns the extremes of a field without fields below it.
func scalars(s *Schema) (values []any) {
	switch {
	case isQuantity(s):
		for _, text := range []string{"1n", "1M", "1Pi", "1Ei", "9223372036854775807", "1e15", "123456789012345678.9"} {
			values = append(values, text)
		}
	case len(s.Enum) > 0:
		for _, one := range s.Enum {
			values = append(values, strings.Trim(string(one.Raw), `"`))
		}
	case s.Type == "integer":
		values = []any{int64(lowest(s)), int64(highest(s)), int64(highest(s)) + 1}
	case s.Type == "boolean":
		values = []any{true}
	case s.Format == "date-time":
		values = []any{"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"}
	default:
		values = []any{longest(s, 0)}
		if n := int(*s.MaxLength); n >= longText {
			for _, unit := range []string{"[", "{}, ", "é\"\\\n", "${name}"} {
				values = append(values, strings.Repeat(unit, n/len(unit)))
			}
			values = append(values, Bomb(n), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${name}\"}\ndata: ["+strings.Repeat("a,", n/2-50)+"]")
		}
	}
	return values
}

// Bomb is YAML of at most n bytes that expands to a list of 4,000 maps with aliases in lists, in keys and in merges, ten deep.
func Bomb(n int) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${name}\"}\na: &a0 [" + strings.Repeat("{},", min(3999, n/6)) + "{}]\n"
	for i := range 10 {
		more := fmt.Sprintf("b%d: &a%d [%s*a%d]\n? *a%d\n: {<<: *a%d}\n", i, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 93), i, i, i)
		if len(text)+len(more) > n {
			break
		}
		text += more
	}
	return text
}

// full returns a value that is as large as the schema and what is left of the bytes allow. Those of different numbers differ.
func full(s *Schema, number int, left *int) any {
	switch {
	case s.Type == "array":
		list := []any{}
		for i := 0; i < int(*s.MaxItems) && (*left > 0 || i < int(deref(s.MinItems))); i++ {
			list = append(list, full(s.Items.Schema, i, left))
		}
		return list
	case s.AdditionalProperties != nil:
		m := map[string]any{}
		for i := 0; i < int(*s.MaxProperties) && *left > 0; i++ {
			m[fmt.Sprint("k", i)] = full(s.AdditionalProperties.Schema, i, left)
		}
		return m
	case s.Type == "object":
		return fullObject(s, number, left)
	case isFreeText(s):
		text := longest(s, number)
		*left -= len(text)
		return text
	case s.Type == "integer":
		*left -= 8
		return int64(highest(s))
	}
	*left -= 8
	return scalars(s)[0]
}

func fullObject(s *Schema, number int, left *int) map[string]any {
	m := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if *left > 0 || slices.Contains(s.Required, name) {
			m[name] = full(new(s.Properties[name]), number, left)
		}
	}
	return m
}

func isFreeText(s *Schema) bool {
	return s.Type == "string" && !isQuantity(s) && len(s.Enum) == 0 && s.Format != "date-time"
}

// least returns the smallest value.
func least(s *Schema, number int) any {
	switch {
	case s.Type == "array":
		list := []any{}
		for i := range int(deref(s.MinItems)) {
			list = append(list, least(s.Items.Schema, i))
		}
		return list
	case s.Type == "object":
		m := map[string]any{}
		for _, name := range s.Required {
			m[name] = least(new(s.Properties[name]), number)
		}
		return m
	case isFreeText(s):
		text := fmt.Sprint("a", number)
		return text + strings.Repeat("a", max(0, int(deref(s.MinLength))-len(text)))
	case s.Type == "integer":
		return int64(lowest(s))
	}
	return scalars(s)[0]
}

// longest returns the longest text of labels of DNS, which most rules allow.
func longest(s *Schema, number int) string {
	n, label := int(*s.MaxLength), strings.Repeat("a", 62)
	text := fmt.Sprint("a", number) + strings.Repeat("a", 55)
	for len(text)+64 < n {
		text += "." + label
	}
	if len(text) > n {
		text = text[:n]
	}
	return text
}

// A bound that a rule has instead of the schema is one of 32 bits.
func highest(s *Schema) float64 { return cmp.Or(deref(s.Maximum), 1<<31-1) }

func lowest(s *Schema) float64 { return deref(s.Minimum) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// merged returns a copy of base with what is in over.
func merged(base, over map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(base)
	for key, value := range over {
		before, is := out[key].(map[string]any)
		after, are := value.(map[string]any)
		if is && are {
			value = merged(before, after)
		}
		out[key] = value
	}
	return out
}
