// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

// PrintHistory prints a history as a table, or none if it has no entries.
func (o *Options) PrintHistory(h *overview.History, none string) error {
	h.Sort()
	t := &printers.Table{Header: []string{"TIME", "AGE", "TYPE", "REASON", "FROM", "MESSAGE"}}
	for i := range h.Entries {
		e := &h.Entries[i]
		ago := o.Age(e.Time)
		if e.Count > 1 {
			ago += fmt.Sprintf(" (x%d over %s)", e.Count, o.Age(*e.First))
		}
		t.Add(e.Time.UTC().Format(time.RFC3339), ago, e.Type, e.Reason, e.From, e.Message)
	}
	return o.PrintList(h, t, none)
}
