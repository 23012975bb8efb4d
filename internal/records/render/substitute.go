// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Variables are what a manifest can refer to: text, int64, bool, lists and maps
// of those. One that is nil is known, and leaves its field out.
type Variables map[string]any

// variable is a reference in a scalar; a "$" before it makes it plain text.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// Substitute puts the values of variables in the places of a manifest's scalars. Since it does so after the manifest was parsed, a
// value can neither end its field nor begin another. A scalar that is nothing but a variable becomes its value, whatever its type; in
// the midst of text only texts and numbers are allowed.
func Substitute(path *field.Path, m *Manifest, vars Variables) (map[string]any, error) {
	out, err := putMap(path, m.content, vars)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// put returns a value with its variables replaced; left means that its field is left out.
func put(path *field.Path, v any, vars Variables) (out any, left bool, err error) {
	switch v := v.(type) {
	case map[string]any:
		out, err = putMap(path, v, vars)
		return out, false, err
	case []any:
		out, err = putList(path, v, vars)
		return out, false, err
	case string:
		return putText(path, v, vars)
	}
	return v, false, nil
}

func putMap(path *field.Path, v map[string]any, vars Variables) (any, error) {
	m := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if variable.MatchString(key) {
			return nil, field.Invalid(path.Key(key), key, "variables are not allowed in the name of a field")
		}
		item, left, err := put(path.Child(key), v[key], vars)
		if err != nil {
			return nil, err
		}
		if !left {
			m[key] = item
		}
	}
	return m, nil
}

func putList(path *field.Path, v []any, vars Variables) (any, error) {
	list := make([]any, 0, len(v))
	for i := range v {
		item, left, err := put(path.Index(i), v[i], vars)
		if err != nil {
			return nil, err
		}
		if !left {
			list = append(list, item)
		}
	}
	return list, nil
}

func putText(path *field.Path, text string, vars Variables) (out any, left bool, err error) {
	if m := variable.FindStringSubmatch(text); m != nil && m[0] == text && !strings.HasPrefix(text, "$$") {
		value, known := vars[m[1]]
		if !known {
			return nil, false, unknown(path, m[1], vars)
		}
		return value, value == nil, nil
	}
	out = variable.ReplaceAllStringFunc(text, func(ref string) string {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		name := ref[2 : len(ref)-1]
		value, known := vars[name]
		switch value := value.(type) {
		case string:
			return value
		case int64:
			return strconv.FormatInt(value, 10)
		case bool:
			return strconv.FormatBool(value)
		}
		switch {
		case err != nil:
		case !known:
			err = unknown(path, name, vars)
		default:
			err = field.Invalid(path, text, fmt.Sprintf("%s is not a text: it must be the whole value", ref))
		}
		return ""
	})
	return out, false, err
}

func unknown(path *field.Path, name string, vars Variables) error {
	return field.NotSupported(path, "${"+name+"}", slices.Sorted(maps.Keys(vars)))
}

// shown is as much of a text as an error can show.
func shown(text string) string {
	const most = 80
	if line, _, more := strings.Cut(text, "\n"); more || len(text) > most {
		return strings.ToValidUTF8(line[:min(len(line), most)], "") + "…"
	}
	return text
}
