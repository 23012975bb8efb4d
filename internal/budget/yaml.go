// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// YAML bounds a text in YAML. The text is one document without anchors, aliases, merge keys and tags, so that its values are never
// more than its characters.
type YAML struct {
	// Bytes is the longest text. Nodes is how many keys, scalars, lists and maps it may have, and Depth how deep they may be nested.
	Bytes, Nodes, Depth int
}

// indicatorsPerNode is how many characters of a text may be such that begin a node, for each node that it may have: most are within
// scalars.
const indicatorsPerNode = 4

// Parse returns the value of a text, and how many nodes it has. Maps are map[string]any, lists []any, and scalars string, bool, int64,
// float64 or nil, as Kubernetes reads them: by YAML 1.1. What is outside of the budget is refused before a value is made.
func (b YAML) Parse(text string) (value any, nodes int, err error) {
	root, nodes, err := b.Document(text)
	if root == nil || err != nil {
		return nil, 0, err
	}
	value, err = valueOf(root)
	return value, nodes, err
}

// Document returns the root of a text, nil for an empty text, and how many nodes it has: for those who need the lines of values. A map
// may have a key twice. Scalar has the values.
func (b YAML) Document(text string) (root *yaml.Node, nodes int, err error) {
	if len(text) > b.Bytes {
		return nil, 0, fmt.Errorf("has %d bytes, more than %d", len(text), b.Bytes)
	}
	// The parser makes all nodes of a document, of 200 bytes each, before it can be stopped.
	if n := indicators(text); n > b.Nodes*indicatorsPerNode {
		return nil, 0, fmt.Errorf("has %d characters of the syntax of YAML, more than %d", n, b.Nodes*indicatorsPerNode)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("is more than one document")
	}
	if err := b.check(&document, -1, &nodes); err != nil { // the document is a node of the parser only
		return nil, 0, err
	}
	return document.Content[0], nodes - 1, nil
}

// indicators counts the characters of a text that may begin a node or a comment. Each but the first node is behind one of them.
func indicators(text string) (n int) {
	for i := range len(text) {
		switch text[i] {
		case '\n', '\r', ',', '[', '{', ':', '-', '?', '#':
			n++
		}
	}
	return n
}

// check refuses what a text must not have, and counts its nodes. An alias is behind its anchor, so the anchor is what is found.
func (b YAML) check(n *yaml.Node, depth int, nodes *int) error {
	*nodes++
	switch {
	case n.Anchor != "":
		return fmt.Errorf("line %d: &%s is an anchor: anchors and aliases are not allowed", n.Line, n.Anchor)
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str":
		return fmt.Errorf("line %d: %s is a tag: only !!str is allowed", n.Line, n.Tag)
	case *nodes-1 > b.Nodes:
		return fmt.Errorf("line %d: has more than %d keys, scalars, lists and maps", n.Line, b.Nodes)
	case depth >= b.Depth:
		return fmt.Errorf("line %d: is nested deeper than %d", n.Line, b.Depth)
	}
	for _, child := range n.Content {
		if err := b.check(child, depth+1, nodes); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns the value of a node that was checked.
func valueOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return mapOf(n)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, child := range n.Content {
			var err error
			if list[i], err = valueOf(child); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return scalarOf(n), nil
}

func mapOf(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := keyOf(n.Content[i])
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("line %d: key %q is already set", n.Content[i].Line, key)
		}
		if m[key], err = valueOf(n.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// keyOf returns the name of a field. Numbers and booleans are names as well.
func keyOf(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("line %d: a key must be a scalar", n.Line)
	}
	switch key := scalarOf(n).(type) {
	case string:
		if key == "<<" && n.Style&quoted == 0 {
			return "", fmt.Errorf("line %d: << is a merge key, which is not allowed", n.Line)
		}
		return key, nil
	case nil:
		return "", fmt.Errorf("line %d: a key must not be null", n.Line)
	default:
		text, err := json.Marshal(key)
		return string(text), err
	}
}

// quoted are the styles of scalars that are texts, whatever they look like.
const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle

// plain is what a number, a boolean or a null looks like in YAML 1.1.
var plain = regexp.MustCompile(`^([-+.0-9][-+.0-9A-Fa-foxX_]*|[.][A-Za-z]+|[-+][.][A-Za-z]+|~|[yYnNtTfFoO][A-Za-z]{0,4}|)$`)

// longestPlain bounds a number. The parser below makes a big number of a long one.
const longestPlain = 64

// Scalar returns the value of a scalar of a Document: a string, bool, int64, float64 or nil.
func Scalar(n *yaml.Node) any { return scalarOf(n) }

// scalarOf returns the value of a scalar. What it is, is left to the parser that Kubernetes uses, which gets one scalar at a time.
func scalarOf(n *yaml.Node) any {
	text := n.Value
	if n.Style&quoted != 0 || len(text) > longestPlain || !plain.MatchString(text) {
		return text
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(i, 10) == text {
		return i
	}
	encoded, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return text
	}
	if i, err := strconv.ParseInt(string(encoded), 10, 64); err == nil {
		return i
	}
	var value any
	if json.Unmarshal(encoded, &value) != nil {
		return text
	}
	switch value.(type) {
	case bool, float64, nil:
		return value
	}
	return text
}
