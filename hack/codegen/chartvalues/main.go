// SPDX-License-Identifier: Apache-2.0

// Command chartvalues writes manifests/chart/README.md: how to install the chart, and a table of its values with their
// defaults and meanings, which are the comments of values.yaml.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// programs have values of the same names. A value that has no comment has the meaning of the first program's.
var programs = []string{"scheduler", "controller", "records", "environments", "console"}

const head = `# Berth

<!-- make generate, from the comments of values.yaml -->

This chart installs berth-scheduler, a second kube-scheduler that keeps the mix of spot and on-demand nodes of each
workload exact, and its companion controller. CHART is the file berth-VERSION.tgz of a release, or manifests/chart of the
repository. Name the registry that has the images:

    helm install berth CHART --namespace berth-system --create-namespace --set image.registry=REGISTRY --wait

A chart that ` + "`make release`" + ` packaged has its registry as the default. Install the chart once in a cluster. An upgrade
upgrades the CustomResourceDefinitions too; an uninstall keeps them and every object of their kinds.

The pages that the table names (docs/…) are in the repository of Berth.

## Values

The chart refuses a value that is not in this table.

| value | default | meaning |
|---|---|---|
`

func main() {
	if err := run("manifests/chart"); err != nil {
		fmt.Fprintln(os.Stderr, "chartvalues:", err)
		os.Exit(1)
	}
}

func run(chart string) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	text, err := page(values)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(chart, "values.yaml"), err)
	}
	return os.WriteFile(filepath.Join(chart, "README.md"), []byte(text), 0o644)
}

// page returns the README of a chart with these values.
func page(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return "", fmt.Errorf("want a map of values")
	}
	t := table{meanings: map[string]string{}}
	if err := t.add("", document.Content[0]); err != nil {
		return "", err
	}
	return head + t.rows.String(), nil
}

type table struct {
	rows strings.Builder
	// meanings have the comments of the values of the programs, by their names below the program.
	meanings map[string]string
}

// add adds a row for each value of a map. The comment of a map with several values is a row of its own.
func (t *table) add(prefix string, values *yaml.Node) error {
	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name, meaning := prefix+key.Value, comment(key)
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 || value.Style&yaml.FlowStyle != 0 {
			if err := t.addRow(name, value, meaning); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		if meaning != "" {
			fmt.Fprintf(&t.rows, "| **%s** | | %s |\n", name, cell(meaning))
		}
		if err := t.add(name+".", value); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) addRow(name string, value *yaml.Node, meaning string) error {
	program, short, _ := strings.Cut(name, ".")
	if slices.Contains(programs, program) {
		if meaning == "" {
			meaning = t.meanings[short]
		}
		if t.meanings[short] == "" {
			t.meanings[short] = meaning
		}
	}
	if meaning == "" {
		return errors.New("no comment, which the README of the chart would have as the meaning")
	}
	shown, err := flow(value)
	fmt.Fprintf(&t.rows, "| `%s` | `%s` | %s |\n", name, shown, cell(meaning))
	return err
}

// comment returns the lines above a key, without those of an earlier paragraph.
func comment(key *yaml.Node) string {
	paragraphs := strings.Split(strings.TrimSpace(key.HeadComment), "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "#")))
	}
	return strings.Join(words, " ")
}

// flow returns a value on one line.
func flow(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode {
		if value.Value == "" {
			return `""`, nil
		}
		return value.Value, nil
	}
	one := *value
	setFlow(&one)
	b, err := yaml.Marshal(&one)
	return strings.Join(strings.Fields(string(b)), " "), err
}

func setFlow(n *yaml.Node) {
	n.Style = yaml.FlowStyle
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			setFlow(c)
		}
	}
}

// cell escapes what would end the cell of a table or begin an element of HTML.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(text)
}
