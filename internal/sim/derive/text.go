// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/sim/scenario"
)

// lineWidth is where the lines of a comment wrap.
const lineWidth = 120

// YAML is the scenario as a file, with the notes at its top.
func (d *Derived) YAML() ([]byte, error) {
	text := append([]byte(d.comment()), d.body...)
	if _, err := scenario.Parse("scenario", text, nil); err != nil {
		return nil, fmt.Errorf("the scenario would not be valid, which is a fault of berth-sim: %w", err)
	}
	return text, nil
}

// comment is the head of the file.
func (d *Derived) comment() string {
	var b strings.Builder
	from := "a snapshot of " + d.header.Time.UTC().Format(time.RFC3339)
	if v := d.header.ServerVersion; v != "" {
		from += ", Kubernetes " + display.Inert(v, maxName)
	}
	if d.header.Anonymised {
		from += ", with pseudonyms"
	}
	wrap(&b, "# ", "# ", "A scenario derived from "+from+". Review it, add what no snapshot has, and run it with berth-sim.")
	heading := ""
	for _, n := range d.Notes {
		if n.Heading != heading {
			heading = n.Heading
			b.WriteString("#\n# " + heading + ":\n")
		}
		wrap(&b, "# - ", "#   ", n.Text)
	}
	b.WriteString("\n")
	return b.String()
}

// wrap writes a text in lines.
func wrap(b *strings.Builder, first, others, text string) {
	line := first
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > lineWidth:
			b.WriteString(line + "\n")
			line = others + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}

// text is the scenario in YAML, with the fields in the order of their types.
func (d *Derived) text() ([]byte, error) {
	encoded, err := json.Marshal(&d.Scenario)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(encoded, &document); err != nil { // JSON is YAML, and its fields keep their order
		return nil, err
	}
	root := document.Content[0]
	plain(root)
	if duration := member(root, "duration"); duration != nil {
		duration.Value = display.Short(d.Scenario.Duration.Duration)
	}
	if pools := member(root, "nodePools"); pools != nil {
		for i, sources := range d.sources {
			for name, text := range sources {
				if field := find(pools.Content[i], name); field != nil {
					field.LineComment = "# " + text
				}
			}
		}
	}
	if workloads := member(root, "workloads"); workloads != nil {
		for _, w := range workloads.Content {
			if mix := member(w, "mix"); mix != nil {
				remove(mix, "selector") // which is required in the API, and empty here
			}
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// plain removes the style of JSON. A text that would be read as another value keeps its quotes.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		if _, text := budget.Scalar(n).(string); !text {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// member is the value of a field, nil for none.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// find is the value of a field of an object, or of one below it.
func find(n *yaml.Node, name string) *yaml.Node {
	if field := member(n, name); field != nil {
		return field
	}
	for i := 1; i < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.MappingNode {
			if field := find(n.Content[i], name); field != nil {
				return field
			}
		}
	}
	return nil
}

func remove(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
			return
		}
	}
}
