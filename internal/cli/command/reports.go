// SPDX-License-Identifier: Apache-2.0

package command

import (
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
)

// Reports are the names of objects by the state of their controller's reports.
type Reports map[live.ReportState][]string

// Add adds an object.
func (r Reports) Add(name string, state live.ReportState) { r[state] = append(r[state], name) }

// Notes name those whose status is not current, and state what follows.
func (r Reports) Notes(so string) (out []string) {
	if absent := r[live.ReportAbsent]; len(absent) > 0 {
		out = append(out, "no status in "+printers.Listed(absent)+": "+so)
	}
	if stale := r[live.ReportStale]; len(stale) > 0 {
		out = append(out, "the status is older than the spec in "+printers.Listed(stale)+": "+so)
	}
	return out
}
