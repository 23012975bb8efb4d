// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
)

// ReportState is how recent the status of a mix is.
type ReportState string

// The states of a report.
const (
	ReportCurrent ReportState = "Current"
	ReportStale   ReportState = "Stale"
	ReportAbsent  ReportState = "Absent"
)

// ReportOf returns how recent the status of a mix is.
func ReportOf(m *v1alpha1.CapacityMix) ReportState {
	return Reported(m.Status.ObservedGeneration, m.Generation)
}

// Reported says what a status is worth that is about a generation. A generation
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

// Reports are the objects of which the controller says nothing, or nothing new.
type Reports struct{ absent, stale []string }

// Add adds an object if its status is not current.
func (r *Reports) Add(name string, state ReportState) {
	switch state {
	case ReportAbsent:
		r.absent = append(r.absent, name)
	case ReportStale:
		r.stale = append(r.stale, name)
	}
}

// Notes name them, and say what follows.
func (r *Reports) Notes(so string) (out []string) {
	if len(r.absent) > 0 {
		out = append(out, "no status in "+printers.Listed(r.absent)+": "+so)
	}
	if len(r.stale) > 0 {
		out = append(out, "the status is older than the spec in "+printers.Listed(r.stale)+": "+so)
	}
	return out
}

// Unmet are the conditions that tell of something that is not as it should be, or not yet.
func Unmet(all []metav1.Condition) (list []metav1.Condition) {
	for _, c := range all {
		fine := metav1.ConditionTrue
		if c.Type == v1alpha1.ConditionProgressing || c.Type == v1alpha1.ConditionDegraded {
			fine = metav1.ConditionFalse
		}
		if c.Status != fine {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return list
}
