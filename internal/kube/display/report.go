// SPDX-License-Identifier: Apache-2.0

package display

// ReportState is how recent a status is.
type ReportState string

// The states of a report.
const (
	ReportCurrent ReportState = "Current"
	ReportStale   ReportState = "Stale"
	ReportAbsent  ReportState = "Absent"
)

// Reported returns whether a status about a generation is current. A generation
// of 0 is that of an object that no API server made.
func Reported(observed, generation int64) ReportState {
	switch {
	case observed == 0:
		return ReportAbsent
	case observed < generation:
		return ReportStale
	}
	return ReportCurrent
}

// Reports are the names of objects by the state of their controller's reports.
type Reports map[ReportState][]string

// Add adds an object.
func (r Reports) Add(name string, state ReportState) { r[state] = append(r[state], name) }

// Notes name those whose status is not current, and state what follows.
func (r Reports) Notes(so string) (out []string) {
	if absent := r[ReportAbsent]; len(absent) > 0 {
		out = append(out, "no status in "+Listed(absent)+": "+so)
	}
	if stale := r[ReportStale]; len(stale) > 0 {
		out = append(out, "the status is older than the spec in "+Listed(stale)+": "+so)
	}
	return out
}
