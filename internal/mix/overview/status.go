// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// Status is what `status` shows.
type Status struct {
	Mixes     []MixStatus      `json:"mixes"`
	Workloads []WorkloadStatus `json:"workloads"`
	// Notes are for people.
	Notes []string `json:"notes,omitempty"`
	// Partial is set where mixes or workloads could not be read.
	Partial bool `json:"-"`
}

// MixStatus is a CapacityMix with the sums of its workloads.
type MixStatus struct {
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	SpotPercent int32      `json:"spotPercent"`
	MinOnDemand int32      `json:"minOnDemand"`
	MaxSpot     *int32     `json:"maxSpot,omitempty"`
	Workloads   Maybe[int] `json:"workloads"`
	Standing    `json:",inline"`
	// Floor is the state of protectFloor, nil without it.
	Floor      *FloorStatus        `json:"floor,omitempty"`
	Blocked    string              `json:"blocked,omitempty"`
	Invalid    string              `json:"invalid,omitempty"`
	Controller display.ReportState `json:"controller"`
	Created    metav1.Time         `json:"created"`
}

// FloorStatus is whether evictions are kept from going below the floor of a mix, as the controller reports it.
type FloorStatus struct {
	// Protected is null where there is no current report.
	Protected Maybe[bool] `json:"protected"`
	Reason    string      `json:"reason,omitempty"`
	Message   string      `json:"message,omitempty"`
}

// Word is the state of a floor in one word: Protected, or the reason why it is not.
func (f *FloorStatus) Word() string {
	switch {
	case f == nil:
		return ""
	case f.Protected.Unknown():
		return display.Unknown
	case f.Protected.Is(true):
		return "Protected"
	}
	return f.Reason
}

// floorOf is the state of the floor of a mix, nil for one without protectFloor.
func floorOf(m *v1alpha1.CapacityMix) *FloorStatus {
	if !m.Spec.ProtectFloor {
		return nil
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionFloorProtected)
	if c == nil || ReportOf(m) != display.ReportCurrent || c.Status == metav1.ConditionUnknown {
		return &FloorStatus{}
	}
	return &FloorStatus{
		Protected: Known(c.Status == metav1.ConditionTrue),
		Reason:    display.Inert(c.Reason, maxName), Message: display.Inert(c.Message, maxMessage),
	}
}

// WorkloadStatus is one revision of a workload.
type WorkloadStatus struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Revision  string `json:"revision,omitempty"`
	Parts     `json:",inline"`
	// Source is where the mix comes from: capacitymix/<name>, annotations/pod, annotations/controller or default.
	Source   string `json:"source"`
	Rule     string `json:"rule"`
	Replicas int    `json:"replicas"`
	Standing `json:",inline"`
	// State is one word, and Message why the mix is not satisfied, in a sentence.
	State       string       `json:"state"`
	Message     string       `json:"message,omitempty"`
	FailedMoves int32        `json:"failedMoves,omitempty"`
	RetryTime   *metav1.Time `json:"retryTime,omitempty"`
	// Bare is set for the pods of a mix that have no controller.
	Bare bool `json:"-"`
}

// KindName is kind/name, with the role if there is one. Pods without a controller are one line for all those of a mix.
func KindName(kind, name, role string, bare bool) string {
	if bare {
		name = "*"
	}
	return ofRole(kind+"/"+name, role)
}

// StatusOf counts a cluster, or one mix of it.
func StatusOf(c *Cluster, only string) *Status {
	s := &Status{Mixes: []MixStatus{}, Workloads: []WorkloadStatus{}, Partial: c.Missing("pods") || c.Missing(MixesResource)}
	workloads, why := map[string][]*Standing{}, scheduledOf(c.Pods) // by namespace/source
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			if only != "" && g.Governing.Source != governing.SourceCapacityMix+only {
				continue
			}
			key := namespace + "/" + g.Governing.Source
			w := workloadStatus(c, &g, why)
			workloads[key] = append(workloads[key], &w.Standing)
			s.Workloads = append(s.Workloads, w)
		}
	}
	for _, m := range c.Mixes {
		if only != "" && m.Name != only {
			continue
		}
		s.Mixes = append(s.Mixes, mixStatus(c, m, workloads[m.Namespace+"/"+governing.SourceCapacityMix+m.Name]))
	}
	s.Notes = append(conflictNotes(c, only), notes(s)...)
	return s
}

func mixStatus(c *Cluster, m *v1alpha1.CapacityMix, workloads []*Standing) MixStatus {
	s := MixStatus{
		Namespace: m.Namespace, Name: m.Name, SpotPercent: m.Spec.SpotPercent, MinOnDemand: m.Spec.MinOnDemand, MaxSpot: m.Spec.MaxSpot,
		Floor: floorOf(m), Controller: ReportOf(m), Created: m.CreationTimestamp,
	}
	if c.Missing("pods") {
		s.takeReport(m)
	} else {
		s.Workloads, s.Standing = Known(len(workloads)), Standing{NoCounts(), Known(true)}
		for _, w := range workloads {
			s.add(w)
		}
	}
	if err := c.Invalid[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}]; err != nil {
		s.Invalid, s.Satisfied = err.Error(), Known(false)
	}
	if s.Satisfied.Is(false) {
		s.Blocked = blockedBy(m)
	}
	return s
}

// takeReport takes over what the controller reports of the current spec of a mix, where its pods could not be read.
func (s *MixStatus) takeReport(m *v1alpha1.CapacityMix) {
	if s.Controller != display.ReportCurrent || m.Status.Desired == nil || m.Status.Actual == nil {
		return
	}
	s.Workloads = Known(int(m.Status.WorkloadCount))
	s.Desired, s.Actual = Known(SplitOf(*m.Status.Desired)), Known(SplitOf(*m.Status.Actual))
	s.Satisfied = Known(m.Status.SatisfiedCount == m.Status.WorkloadCount)
}

// blockedBy is the controller's reason for not moving anything, "" if it gave none.
func blockedBy(m *v1alpha1.CapacityMix) string {
	if ReportOf(m) != display.ReportCurrent {
		return ""
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionRebalancing)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != rebalance.ReasonOnTarget.Name { // an older status
		return c.Reason
	}
	for _, w := range m.Status.Workloads {
		if w.Blocked != nil {
			return w.Blocked.Reason
		}
	}
	return ""
}

func workloadStatus(c *Cluster, g *clusterstate.Group, why scheduled) WorkloadStatus {
	w := WorkloadStatus{
		Namespace: g.Workload.Namespace, Kind: g.Workload.Kind, Name: g.Workload.Name, Revision: g.Workload.Revision,
		Source: g.Governing.Source, Rule: g.Governing.Mix.String(), Replicas: g.Replicas, Parts: PartsOf(g), Bare: bare(g),
	}
	m := c.MixOf(w.Namespace, g.Governing)
	w.Standing = StandingOf(g, m, c.Unread())
	w.State, w.Message = stateOf(g, m, &w.Standing, c.Unread(), why)
	if report := Report(m, g); report != nil && w.Satisfied.Is(false) {
		w.FailedMoves, w.RetryTime = report.FailedMoves, report.RetryTime
	}
	return w
}

// notes name mixes whose controller is not there, and mixes that do nothing.
func notes(s *Status) []string {
	var out []string
	reports := display.Reports{}
	for _, m := range s.Mixes {
		name := m.Namespace + "/" + m.Name
		if m.Invalid != "" {
			out = append(out, fmt.Sprintf("CapacityMix %s governs nothing: %s", name, m.Invalid))
		}
		if m.Floor != nil && m.Floor.Protected.Is(false) {
			out = append(out, fmt.Sprintf("the floor of CapacityMix %s is not protected: %s: %s", name, m.Floor.Reason, m.Floor.Message))
		}
		reports.Add(name, m.Controller)
	}
	return append(out, reports.Notes("berth-controller does not seem to run, so no replica is moved (see kubectl berth doctor)")...)
}

// conflictNotes name mixes that select pods of an older one.
func conflictNotes(c *Cluster, only string) []string {
	var out []string
	for _, o := range overrulings(c, c.Mixes) {
		if strings.HasPrefix(o.Of.By, governing.SourceCapacityMix) && (only == "" || only == o.Of.Mix) {
			out = append(out, overruledNote(c, o))
		}
	}
	return out
}

// ReportOf returns how recent the status of a mix is.
func ReportOf(m *v1alpha1.CapacityMix) display.ReportState {
	return display.Reported(m.Status.ObservedGeneration, m.Generation)
}
