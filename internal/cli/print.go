// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Formats of -o.
const (
	asWide = "wide"
	asJSON = "json"
	asYAML = "yaml"
)

// printed writes v as JSON or YAML if that was requested.
func (o *options) printed(v any) (bool, error) {
	switch o.output {
	case asJSON:
		out, err := json.MarshalIndent(v, "", "    ")
		if err == nil {
			_, err = fmt.Fprintln(o.Out, string(out))
		}
		return true, err
	case asYAML:
		out, err := yaml.Marshal(v)
		if err == nil {
			_, err = o.Out.Write(out)
		}
		return true, err
	}
	return false, nil
}

// table prints rows as kubectl does. A leading column named NAMESPACE is left
// out unless several namespaces are shown.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(out io.Writer, namespaces bool) error {
	first := 0
	if !namespaces && t.header[0] == "NAMESPACE" {
		first = 1
	}
	w := printers.GetNewTabWriter(out)
	for _, row := range append([][]string{t.header}, t.rows...) {
		cells := make([]string, 0, len(row))
		for i, cell := range row[first:len(t.header)] {
			// kubectl leaves no cell empty: scripts cut by columns.
			if cell == "" && i+first < len(t.header) {
				cell = "<none>"
			}
			cells = append(cells, strings.ReplaceAll(cell, "\n", " "))
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

func number[T ~int | ~int32 | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// Split is a number of replicas per type.
type Split struct {
	Spot     int `json:"spot"`
	OnDemand int `json:"onDemand"`
	Unknown  int `json:"unknown,omitempty"`
}

// String is "14/6": spot and on-demand, and where there are some, unknown.
func (s Split) String() string {
	if s.Unknown > 0 {
		return fmt.Sprintf("%d/%d/%d?", s.Spot, s.OnDemand, s.Unknown)
	}
	return fmt.Sprintf("%d/%d", s.Spot, s.OnDemand)
}

func (s Split) plus(t Split) Split {
	return Split{Spot: s.Spot + t.Spot, OnDemand: s.OnDemand + t.OnDemand, Unknown: s.Unknown + t.Unknown}
}

func actual(g *clusterstate.Group) Split {
	c := g.Actual()
	return Split{Spot: c.Spot, OnDemand: c.OnDemand, Unknown: c.Unknown}
}

func pendingByType(g *clusterstate.Group) Split {
	c := g.PendingByType()
	return Split{Spot: c.Spot, OnDemand: c.OnDemand, Unknown: c.Unknown}
}

func desired(g *clusterstate.Group) Split {
	return Split{Spot: g.Policy.Mix.Spot(g.Replicas), OnDemand: g.Policy.Mix.OnDemand(g.Replicas)}
}

// age is how long ago a time was, as kubectl prints it.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}

// count is "1 pod", "3 pods".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// typeNames are the types in the order in which they are shown.
var typeNames = []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown}

type (
	fleetNode = clusterstate.Node
	fleetPod  = clusterstate.Pod
)

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
