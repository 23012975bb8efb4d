// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// Names of the workloads, as in manifests/samples.
const (
	web = "web"
	db  = "db"
)

const (
	nameColumn = 14
	typeColumn = 12
	cellColumn = 7
	freeCell   = "."
)

// pad pads a text with spaces. It never truncates.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(1, columns-utf8.RuneCountInString(text)))
}

// inkOf is the color of a type.
func inkOf(t capacity.Type) ink {
	switch t {
	case capacity.Spot:
		return spotInk
	case capacity.OnDemand:
		return demand
	}
	return red
}

// nodeTable has a row for every node and a cell for every pod that it has capacity for.
func (s *screen) nodeTable(pic picture) []string {
	lines := []string{s.paint(faint, pad("node", nameColumn)+pad("type", typeColumn)+"pods")}
	for i := range pic.nodes {
		n := &pic.nodes[i]
		var row strings.Builder
		row.WriteString(pad(n.name, nameColumn) + s.paint(inkOf(n.is), pad(n.is.String(), typeColumn)))
		pods := pic.on(n.name)
		for j := range pods {
			row.WriteString(s.cell(&pods[j]))
		}
		if n.cordoned {
			row.WriteString(s.paint(faint, "cordoned"))
		} else {
			row.WriteString(s.paint(faint, strings.Repeat(pad(freeCell, cellColumn), max(0, n.podCapacity-len(pods)))))
		}
		lines = append(lines, strings.TrimRight(row.String(), " "))
	}
	return lines
}

// cell is a pod in the row of its node.
func (s *screen) cell(p *pod) string {
	text, i := p.app, plain
	switch {
	case p.slot == split.NoSlot: // no mix governs it
	case p.app == web:
		text, i = fmt.Sprint(p.slot), inkOf(p.on)
	default:
		text, i = fmt.Sprintf("%s-%d", p.app, p.slot), inkOf(p.on)
	}
	if p.borrows() {
		text, i = text+"*", borrowed
	}
	return s.paint(i, pad(text, cellColumn))
}

// legend explains the cells of a picture.
func legend(pic picture) string {
	parts := []string{"7: slot 7 of web"}
	if len(pic.of(db)) > 0 {
		parts = append(parts, "db-0: slot 0 of db")
	}
	if slices.ContainsFunc(pic.pods, func(p pod) bool { return p.borrows() }) {
		parts = append(parts, "7*: a spot slot, borrowed on-demand")
	}
	return strings.Join(append(parts, freeCell+": free capacity"), "    ")
}

// ruleText is the rule of the mix with the number of replicas: "min(70 % of 20, 20 - 2) = 14".
func ruleText(m split.Mix, n int) string {
	terms := []string{fmt.Sprintf("%d %% of %d", m.SpotPercent, n)}
	switch {
	case int(m.MinOnDemand) > n:
		terms = append(terms, "0")
	case m.MinOnDemand > 0:
		terms = append(terms, fmt.Sprintf("%d - %d", n, m.MinOnDemand))
	}
	if m.MaxSpot != split.NoMax {
		terms = append(terms, fmt.Sprintf("max %d", m.MaxSpot))
	}
	text := strings.Join(terms, ", ")
	if len(terms) > 1 {
		text = "min(" + text + ")"
	}
	return fmt.Sprintf("%s = %d", text, m.Spot(n))
}

// summary is the line under a table with the counts and the rule of a group.
func (s *screen) summary(app string, m split.Mix, pods []pod, verdict string) string {
	c, _ := count(pods)
	have := fmt.Sprintf("%s %2d replicas: %2d spot / %2d on-demand", pad(app, 4), len(pods), c.Spot, c.OnDemand)
	return fmt.Sprintf("%s rule: %s %s", pad(have, 42), pad(ruleText(m, len(pods))+" spot", 35), verdict)
}

// strip has a letter for every pod of a group in the order of the slots: S for spot, o for on-demand.
func (s *screen) strip(pods []pod) string {
	var b strings.Builder
	for i := range pods {
		letter := "?"
		switch pods[i].on {
		case capacity.Spot:
			letter = "S"
		case capacity.OnDemand:
			letter = "o"
		}
		b.WriteString(s.paint(inkOf(pods[i].on), letter))
	}
	return b.String()
}

// evidence is the label of a node that a rule matched.
func evidence(n *node, rules []capacity.Rule) string {
	i := slices.IndexFunc(rules, func(r capacity.Rule) bool { return r.Name == n.rule })
	if i < 0 {
		return "no label of a rule"
	}
	r := rules[i]
	if r.Operator == capacity.Absent {
		return fmt.Sprintf("%s, no %s", r.Requires, r.Key[strings.LastIndex(r.Key, "/")+1:])
	}
	return r.Key + "=" + n.labels[r.Key]
}
