// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/hack/codegen/metricsource"
)

// programs are the folders that have a program's metrics.
var programs = []struct {
	name    string
	folders []string
}{
	{"berth-scheduler", []string{"plugins", "scheduler"}},
	{"berth-controller", []string{"controllers", "services", "internal/config/program", "cmd/berth-controller"}},
}

// metricsPage has a table of the metrics of each program.
func metricsPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n<!-- make generate, from the source -->\n\n" +
		"Each program also exports the metrics of its libraries. [Monitoring](../monitoring.md) describes how to scrape and use them.\n")
	for _, program := range programs {
		var all []metricsource.Metric
		for _, folder := range program.folders {
			s, err := metricsource.Read(folder)
			if err != nil {
				return "", err
			}
			all = append(all, s.Metrics...)
		}
		slices.SortFunc(all, func(a, b metricsource.Metric) int { return cmp.Compare(a.Name, b.Name) })
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | |\n|---|---|---|---|\n", program.name)
		for _, m := range all {
			labels := ""
			if len(m.Labels) > 0 {
				labels = "`" + strings.Join(m.Labels, "`, `") + "`"
			}
			// A collector's descriptions do not have their type; all of ours are gauges.
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, cmp.Or(m.Kind, "gauge"), labels, m.Help)
		}
	}
	return b.String(), nil
}
