// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

// maxChanges is how many changes are named.
const maxChanges = 32

// Diff names what differs between two specs, by the paths of fields, with values where both are short. It is for people.
func Diff(before, after *v1alpha1.EnvironmentSpec) []string {
	var out []string
	differ("spec", content(before), content(after), &out)
	if len(out) > maxChanges {
		out = append(out[:maxChanges], fmt.Sprintf("and %d more", len(out)-maxChanges))
	}
	return out
}

func content(spec *v1alpha1.EnvironmentSpec) map[string]any {
	fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(spec) // of texts and numbers
	return fields
}

func differ(path string, before, after any, out *[]string) {
	if reflect.DeepEqual(before, after) {
		return
	}
	b, wasMap := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if wasMap && isMap {
		keys := append(sorted(b), sorted(a)...)
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			differ(path+"."+k, b[k], a[k], out)
		}
		return
	}
	bl, wasList := before.([]any)
	al, isList := after.([]any)
	if wasList && isList && len(bl) == len(al) {
		for i := range bl {
			differ(fmt.Sprintf("%s[%d]", path, i), bl[i], al[i], out)
		}
		return
	}
	*out = append(*out, path+": "+short(before)+" -> "+short(after))
}

// short shows a value if it is one that fits in a line.
func short(v any) string {
	const most = 60
	switch v := v.(type) {
	case nil:
		return "absent"
	case map[string]any, []any:
		return "..."
	default:
		text := fmt.Sprint(v)
		if r := []rune(text); len(r) > most {
			return string(r[:most]) + "..."
		}
		return text
	}
}
