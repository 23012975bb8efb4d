// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// undoParameter has what undoes the change of an object by its form: a JSON merge patch of what a user edits of it.
const undoParameter = "undo"

// maxUndo bounds what undoes a change, which is in the URL of a page. A change that needs more is undone by hand.
const maxUndo = 1024

var errNoUndo = errors.New("the change to undo cannot be read")

// undoOf is what makes an object again what it was before, "" if that is too long.
func undoOf(before, after *unstructured.Unstructured) string {
	was, err := json.Marshal(edited(before))
	if err != nil {
		return "" // it was read from JSON
	}
	is, err := json.Marshal(edited(after))
	if err != nil {
		return ""
	}
	patch, err := jsonpatch.CreateMergePatch(is, was)
	if err != nil || len(patch) > maxUndo || string(patch) == "{}" {
		return ""
	}
	return string(patch)
}

// undoneFields are the paths of the fields that an undo changes, in their order; nil for a text that undoes nothing. A field that becomes
// an empty object is one of them, such as a selector of all pods; metadata and spec are always there.
func undoneFields(undo string) (paths []string) {
	var patch map[string]any
	if len(undo) > maxUndo || json.Unmarshal([]byte(undo), &patch) != nil {
		return nil
	}
	var walk func(path string, of map[string]any)
	walk = func(path string, of map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if below, is := of[name].(map[string]any); is && (len(below) > 0 || path == "") {
				walk(path+name+".", below)
				continue
			}
			paths = append(paths, path+name)
		}
	}
	walk("", patch)
	return paths
}

// undoing are the parameters of the page of the form that undoes what was written, nil if nothing does.
func (f *objectForm) undoing() url.Values {
	if f.undo == "" {
		return nil
	}
	return url.Values{undoParameter: {f.undo}}
}

// propose shows in the form of an object what undoes a change of it. It is the answer to a link, so it writes nothing, not even as a dry
// run: the API server judges it once the user has it reviewed.
func (f *objectForm) propose(o *unstructured.Unstructured, undo string) {
	text, err := undone(o, undo)
	if err != nil {
		f.problem("", err.Error())
		return
	}
	is := f.YAML
	f.YAML = text
	proposed := f.parsed(o)
	if proposed == nil || len(f.Problems) > 0 {
		return
	}
	f.take(proposed, false)
	f.Diff = diffOf(is, f.YAML)
}

// undone is what a user edits of an object, as YAML, with an undo.
func undone(o *unstructured.Unstructured, undo string) (string, error) {
	if undoneFields(undo) == nil {
		return "", errNoUndo
	}
	is, err := json.Marshal(edited(o))
	if err != nil {
		return "", err
	}
	was, err := jsonpatch.MergePatch(is, []byte(undo))
	if err != nil {
		return "", errNoUndo
	}
	text, err := yaml.JSONToYAML(was)
	return string(text), err
}
