// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// States of a workload that follow from its pods alone. Other states are the
// controller's reasons.
const (
	stateExact           = "Exact"
	stateMoving          = "Moving"
	stateMixNotSatisfied = "MixNotSatisfied"
	statePending         = "Pending"
	stateDeparting       = "Departing"
	stateRollingOut      = "RollingOut"
	stateScaling         = "Scaling"
)

// statusOf counts a cluster, or one mix of it.
func statusOf(c *live.Cluster, only string) *Status {
	s := &Status{Mixes: []MixStatus{}, Workloads: []WorkloadStatus{}}
	groups := map[string][]clusterstate.Group{} // by namespace/source
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			if only != "" && g.Policy.Source != policy.SourceCapacityMix+only {
				continue
			}
			key := namespace + "/" + g.Policy.Source
			groups[key] = append(groups[key], g)
			s.Workloads = append(s.Workloads, workloadStatus(c, &g))
		}
	}
	for _, m := range c.Mixes {
		if only != "" && m.Name != only {
			continue
		}
		s.Mixes = append(s.Mixes, mixStatus(c, m, groups[m.Namespace+"/"+policy.SourceCapacityMix+m.Name]))
	}
	s.Notes = append(conflictNotes(c, only), notes(s)...)
	return s
}

func mixStatus(c *live.Cluster, m *v1alpha1.CapacityMix, groups []clusterstate.Group) MixStatus {
	s := MixStatus{
		Namespace: m.Namespace, Name: m.Name, SpotPercent: m.Spec.SpotPercent, MinOnDemand: m.Spec.MinOnDemand, MaxSpot: m.Spec.MaxSpot,
		Workloads: len(groups), Satisfied: true, Controller: live.ReportOf(m), Created: m.CreationTimestamp,
		counted: !c.Missing("pods") && !c.Missing("nodes"),
	}
	if err := c.Invalid[client.ObjectKeyFromObject(m)]; err != nil {
		s.Invalid, s.Satisfied = err.Error(), false
	}
	for i := range groups {
		g := &groups[i]
		s.Desired, s.Actual = s.Desired.Plus(live.Desired(g)), s.Actual.Plus(live.Actual(g))
		s.Borrowed += g.Borrowed()
		pending, departing, _ := g.Counts()
		s.Pending, s.Departing = s.Pending+pending, s.Departing+departing
		s.PendingByType = s.PendingByType.Plus(live.PendingByType(g))
		s.Satisfied = s.Satisfied && g.Satisfied()
	}
	if !s.Satisfied {
		s.Blocked = blockedBy(m)
	}
	return s
}

// blockedBy is the controller's reason for not moving anything, "" if it gave none.
func blockedBy(m *v1alpha1.CapacityMix) string {
	if live.ReportOf(m) != live.ReportCurrent {
		return ""
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionRebalancing)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != string(rebalance.ReasonOnTarget) { // an older status
		return c.Reason
	}
	for _, w := range m.Status.Workloads {
		if w.Blocked != nil {
			return w.Blocked.Reason
		}
	}
	return ""
}

func workloadStatus(c *live.Cluster, g *clusterstate.Group) WorkloadStatus {
	w := WorkloadStatus{
		Namespace: g.Workload.Namespace, Kind: g.Workload.Kind, Name: g.Workload.Name, Revision: g.Workload.Revision,
		Source: g.Policy.Source, Rule: g.Policy.Mix.String(), Replicas: g.Replicas, Desired: live.Desired(g), Actual: live.Actual(g),
		Borrowed: g.Borrowed(), Satisfied: g.Satisfied(), bare: g.Workload.UID == "",
	}
	w.Pending, w.Departing, _ = g.Counts()
	w.PendingByType = live.PendingByType(g)
	w.State, w.Message = stateOf(g)
	if w.Satisfied {
		return w
	}
	m := c.MixOf(w.Namespace, g.Policy)
	report := reportFor(m, g)
	if report == nil {
		return w
	}
	w.FailedMoves, w.RetryTime = report.FailedMoves, report.RetryTime
	switch {
	case report.Blocked != nil:
		w.State, w.Message = report.Blocked.Reason, report.Blocked.Message
	case w.State == stateMixNotSatisfied && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionRebalancing):
		w.State = stateMoving
	}
	return w
}

// reportFor is the controller's line about a workload, nil if there is none that counts.
func reportFor(m *v1alpha1.CapacityMix, g *clusterstate.Group) *v1alpha1.WorkloadMix {
	if m == nil || live.ReportOf(m) != live.ReportCurrent {
		return nil
	}
	i := slices.IndexFunc(m.Status.Workloads, func(w v1alpha1.WorkloadMix) bool {
		return w.Kind == g.Workload.Kind && w.Name == g.Workload.Name && w.Revision == g.Workload.Revision
	})
	if i < 0 {
		return nil
	}
	return &m.Status.Workloads[i]
}

// stateOf says how a group stands by its pods alone.
func stateOf(g *clusterstate.Group) (state, message string) {
	pending, departing, settled := g.Counts()
	switch wrong := len(g.WrongSide()); {
	case g.Satisfied():
		return stateExact, ""
	case wrong > 0:
		return stateMixNotSatisfied, printers.Count(wrong, "replica") + " on the wrong type"
	case g.Rollout.Rolling:
		return stateRollingOut, fmt.Sprintf("%d of %d replicas of this revision", settled, g.Replicas)
	case pending > 0:
		return statePending, printers.Count(pending, "replica") + " without a node"
	case departing > 0:
		return stateDeparting, printers.Count(departing, "replica") + " on nodes that are going away"
	}
	return stateScaling, fmt.Sprintf("%d replicas, %d desired", settled, g.Replicas)
}

// notes tell of mixes whose controller is not there, and of mixes that do nothing.
func notes(s *Status) []string {
	var out []string
	var reports live.Reports
	for _, m := range s.Mixes {
		name := m.Namespace + "/" + m.Name
		if m.Invalid != "" {
			out = append(out, fmt.Sprintf("CapacityMix %s governs nothing: %s", name, m.Invalid))
		}
		reports.Add(name, m.Controller)
	}
	return append(out, reports.Notes("berth-controller does not seem to run, so no replica is moved (see kubectl berth doctor)")...)
}

// conflictNotes tell of mixes that select pods of an older one.
func conflictNotes(c *live.Cluster, only string) []string {
	var out []string
	for _, o := range plan.Overrulings(c, c.Mixes) {
		if strings.HasPrefix(o.By, policy.SourceCapacityMix) && (only == "" || only == o.Mix) {
			out = append(out, overruledNote(c, o))
		}
	}
	return out
}
