// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// patchOf returns the operations that change a pod, as the API server sent it. They are those between before and after, not those
// between raw and after: a newer API server sends fields that this program does not have, and those must stay.
func patchOf(raw []byte, before, after *corev1.Pod) ([]jsonpatch.Operation, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	changed, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.CreatePatch(old, changed)
	if err != nil || len(operations) == 0 {
		return nil, err
	}
	var sent any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &sent); err != nil {
		return nil, err
	}
	var all []jsonpatch.Operation
	for _, o := range operations {
		missing, object, err := addParents(sent, o.Path)
		if err != nil {
			return nil, err
		}
		if o.Operation == "replace" && object {
			o.Operation = "add" // the same, and it may be missing too
		}
		all = append(append(all, missing...), o)
	}
	return all, nil
}

// unescape reads a part of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// addParents returns the operations that add the missing objects above a path to a document, and adds them: a client may leave out
// what is empty, such as the resources of a container. It also reports whether the parent of the path's last part is an object.
func addParents(document any, path string) (missing []jsonpatch.Operation, object bool, err error) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts[:len(parts)-1] {
		switch here := document.(type) {
		case map[string]any:
			key := unescape.Replace(part)
			if here[key] == nil {
				here[key] = map[string]any{}
				missing = append(missing, jsonpatch.NewOperation("add", "/"+strings.Join(parts[:i+1], "/"), map[string]any{}))
			}
			document = here[key]
		case []any:
			at, err := strconv.Atoi(part)
			if err != nil || at < 0 || at >= len(here) {
				return nil, false, fmt.Errorf("patch: %s is not in the pod", path)
			}
			document = here[at]
		default:
			return nil, false, fmt.Errorf("patch: %s is not in the pod", path)
		}
	}
	_, object = document.(map[string]any)
	return missing, object, nil
}
