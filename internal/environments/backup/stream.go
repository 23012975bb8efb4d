// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Write writes objects as documents of one YAML stream.
func Write(w io.Writer, objects []*unstructured.Unstructured) error {
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

// documentOf returns an object as YAML that reads back as it was. The YAML library rejects some characters; an object with one of
// them is written as JSON, which is YAML too and can escape them.
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
		return "", fmt.Errorf("%s cannot be written as YAML", KeyOf(object))
	}
	return escaped, nil
}

// readsAs reports whether a YAML document has the same content as a JSON one.
func readsAs(document, stored []byte) bool {
	var a, b any
	return yaml.Unmarshal(document, &a) == nil && json.Unmarshal(stored, &b) == nil && reflect.DeepEqual(a, b)
}

// escape escapes the characters of a JSON text that YAML does not allow. They occur in strings only.
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
