// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// writeStream writes objects as documents of one YAML stream.
func writeStream(w io.Writer, objects []*unstructured.Unstructured) error {
	for i, object := range objects {
		text, err := documentOf(object)
		if err != nil {
			return err
		}
		// A stream that begins with "{" would be treated as JSON as a whole.
		if i > 0 || strings.HasPrefix(text, "{") {
			text = "---\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// documentOf is an object as YAML that is read as it was written. The library refuses some characters: an object
// with one of these is written as JSON, which is YAML as well and has a way to write them.
func documentOf(object *unstructured.Unstructured) (string, error) {
	stored, err := json.MarshalIndent(object.Object, "", "  ")
	if err != nil {
		return "", err
	}
	if text, err := yaml.Marshal(object.Object); err == nil && readsAs(text, stored) {
		return string(text), nil
	}
	escaped := escape(string(stored)) + "\n"
	if !readsAs([]byte(escaped), stored) {
		return "", fmt.Errorf("%s cannot be written as YAML", keyOf(object))
	}
	return escaped, nil
}

// readsAs says whether a YAML document has the same content as a JSON one.
func readsAs(document, stored []byte) bool {
	var a, b any
	return yaml.Unmarshal(document, &a) == nil && json.Unmarshal(stored, &b) == nil && reflect.DeepEqual(a, b)
}

// escape writes the characters of a JSON text that YAML does not allow as they are. They can only be within its strings.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
