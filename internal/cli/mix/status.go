// SPDX-License-Identifier: Apache-2.0

// Package mix has the commands about CapacityMixes: status, explain, plan and nodes.
package mix

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

const aboutStatus = `Shows the mixes of a namespace and the workloads that they govern, also those that are governed by annotations or by the default mix of
the scheduler.

Replicas are counted from the current pods and nodes. DESIRED and ACTUAL are spot/on-demand; PENDING-FOR (-o wide) is the same for replicas
without a node. "2?" after them are replicas on nodes of unknown type. The reason why a replica is not moved is from the last report of
berth-controller. If you may not list nodes, it is also where the replicas run; what it does not report about the current replicas is <unknown>.`

// Status is what `status` shows.
type Status struct {
	Mixes     []ObjectStatus   `json:"mixes"`
	Workloads []WorkloadStatus `json:"workloads"`
	// Notes are for people.
	Notes []string `json:"notes,omitempty"`
	// partial is set where mixes or workloads could not be read.
	partial bool
}

// Counts are the replicas of a workload, or of all workloads of a mix. What is unknown is null.
type Counts struct {
	overview.Counts `json:",inline"`
	Satisfied       overview.Maybe[bool] `json:"satisfied"`
}

// add adds the replicas of a workload.
func (c *Counts) add(o *Counts) {
	c.Add(o.Counts)
	switch {
	case o.Satisfied.Is(false):
		c.Satisfied = o.Satisfied
	case o.Satisfied.Unknown() && !c.Satisfied.Is(false):
		c.Satisfied = o.Satisfied
	}
}

// ObjectStatus is a CapacityMix with the sums of its workloads.
type ObjectStatus struct {
	Namespace   string              `json:"namespace"`
	Name        string              `json:"name"`
	SpotPercent int32               `json:"spotPercent"`
	MinOnDemand int32               `json:"minOnDemand"`
	MaxSpot     *int32              `json:"maxSpot,omitempty"`
	Workloads   overview.Maybe[int] `json:"workloads"`
	Counts      `json:",inline"`
	Blocked     string              `json:"blocked,omitempty"`
	Invalid     string              `json:"invalid,omitempty"`
	Controller  command.ReportState `json:"controller"`
	Created     metav1.Time         `json:"created"`
}

// WorkloadStatus is one revision of a workload.
type WorkloadStatus struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Revision  string `json:"revision,omitempty"`
	// Source is where the mix comes from: capacitymix/<name>, annotations/pod, annotations/controller or default.
	Source   string `json:"source"`
	Rule     string `json:"rule"`
	Replicas int    `json:"replicas"`
	Counts   `json:",inline"`
	// State is one word, Message the same for people.
	State       string       `json:"state"`
	Message     string       `json:"message,omitempty"`
	FailedMoves int32        `json:"failedMoves,omitempty"`
	RetryTime   *metav1.Time `json:"retryTime,omitempty"`
	bare        bool
}

// NewStatus returns the command status.
func NewStatus(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status [MIX]",
		Short:             "Show the status of mixes and workloads",
		Long:              aboutStatus,
		Example:           "  kubectl berth status\n  kubectl berth status web -n shop -o wide\n  kubectl berth status -A",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteFirst(&v1alpha1.CapacityMixList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := o.Namespace()
			if err != nil {
				return err
			}
			_, cluster, err := load(cmd.Context(), o, namespace)
			if err != nil {
				return err
			}
			only := ""
			if len(args) > 0 {
				only = args[0]
				if namespace == "" {
					return fmt.Errorf("MIX requires one namespace: use -n, not -A")
				}
				if cluster.Mix(namespace, only) == nil {
					return fmt.Errorf("CapacityMix %q not found in namespace %s", only, namespace)
				}
			}
			return showStatus(o, statusOf(cluster, only), namespace)
		},
	}
	o.AllNamespacesFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

func showStatus(o *command.Options, s *Status, namespace string) error {
	if done, err := o.Print(s); done {
		return err
	}
	if len(s.Mixes)+len(s.Workloads) == 0 && !s.partial {
		fmt.Fprintf(o.ErrOut, "No mixes and no governed workloads found in %s.\n", printers.InNamespace(namespace))
	}
	return o.WriteTables(s.Notes, mixTable(o, s.Mixes, namespace == ""), workloadTable(s.Workloads, namespace == ""))
}

func mixTable(o *command.Options, mixes []ObjectStatus, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "NAME", "SPOT%", "MIN-OD", "WORKLOADS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "SATISFIED", "BLOCKED", "AGE",
		},
		Wide: []string{"MAX-SPOT", "PENDING-FOR", "DEPARTING", "CONTROLLER"}, Namespaces: namespaces,
	}
	for _, m := range mixes {
		maxSpot := ""
		if m.MaxSpot != nil {
			maxSpot = fmt.Sprint(*m.MaxSpot)
		}
		t.Add(m.Namespace, m.Name, m.SpotPercent, m.MinOnDemand, cell(m.Workloads), cell(m.Desired), cell(m.Actual), cell(m.Borrowed),
			cell(m.Pending), satisfied(m), m.Blocked, o.Age(m.Created), maxSpot, cell(m.PendingByType), cell(m.Departing), m.Controller)
	}
	return t
}

// unknown is the cell of a value that is unknown, as kubectl prints it.
const unknown = "<unknown>"

func cell[T comparable](m overview.Maybe[T]) string {
	if m.Unknown() {
		return unknown
	}
	return m.String()
}

func satisfied(m ObjectStatus) string {
	switch {
	case m.Invalid != "":
		return "Invalid"
	case m.Satisfied.Is(true):
		return "True"
	case m.Satisfied.Is(false):
		return "False"
	}
	return unknown
}

func workloadTable(workloads []WorkloadStatus, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "WORKLOAD", "REVISION", "MIX", "REPLICAS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "DEPARTING", "STATE",
		},
		Wide: []string{"RULE", "PENDING-FOR", "FAILED-MOVES", "RETRY", "MESSAGE"}, Namespaces: namespaces,
	}
	for _, w := range workloads {
		retry := ""
		if w.RetryTime != nil {
			retry = w.RetryTime.UTC().Format("15:04:05Z")
		}
		t.Add(w.Namespace, tableName(w.Kind, w.Name, w.bare), w.Revision, w.Source, w.Replicas, cell(w.Desired), cell(w.Actual),
			cell(w.Borrowed), cell(w.Pending), cell(w.Departing), w.State, w.Rule, cell(w.PendingByType), w.FailedMoves, retry, w.Message)
	}
	return t
}

// tableName is kind/name. Pods without a controller are one line for all those of a mix.
func tableName(kind, name string, bare bool) string {
	if bare {
		name = "*"
	}
	return kind + "/" + name
}

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
	stateUnknown         = overview.ReasonUnknown
)

// statusOf counts a cluster, or one mix of it.
func statusOf(c *live.Cluster, only string) *Status {
	s := &Status{Mixes: []ObjectStatus{}, Workloads: []WorkloadStatus{}, partial: c.Missing("pods") || c.Missing(live.MixesResource)}
	workloads := map[string][]*Counts{} // by namespace/source
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			if only != "" && g.Governing.Source != governing.SourceCapacityMix+only {
				continue
			}
			key := namespace + "/" + g.Governing.Source
			w := workloadStatus(c, &g)
			workloads[key] = append(workloads[key], &w.Counts)
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

func mixStatus(c *live.Cluster, m *v1alpha1.CapacityMix, workloads []*Counts) ObjectStatus {
	s := ObjectStatus{
		Namespace: m.Namespace, Name: m.Name, SpotPercent: m.Spec.SpotPercent, MinOnDemand: m.Spec.MinOnDemand, MaxSpot: m.Spec.MaxSpot,
		Controller: command.ReportOf(m), Created: m.CreationTimestamp,
	}
	if c.Missing("pods") {
		s.takeReport(m)
	} else {
		s.Workloads, s.Counts = overview.Known(len(workloads)), Counts{overview.NoCounts(), overview.Known(true)}
		for _, w := range workloads {
			s.add(w)
		}
	}
	if err := c.Invalid[client.ObjectKeyFromObject(m)]; err != nil {
		s.Invalid, s.Satisfied = err.Error(), overview.Known(false)
	}
	if s.Satisfied.Is(false) {
		s.Blocked = blockedBy(m)
	}
	return s
}

// takeReport takes over what the controller reports of the current spec of a mix, where its pods could not be read.
func (s *ObjectStatus) takeReport(m *v1alpha1.CapacityMix) {
	if s.Controller != command.ReportCurrent || m.Status.Desired == nil || m.Status.Actual == nil {
		return
	}
	s.Workloads = overview.Known(int(m.Status.WorkloadCount))
	s.Desired, s.Actual = overview.Known(overview.SplitOf(*m.Status.Desired)), overview.Known(overview.SplitOf(*m.Status.Actual))
	s.Satisfied = overview.Known(m.Status.SatisfiedCount == m.Status.WorkloadCount)
}

// blockedBy is the controller's reason for not moving anything, "" if it gave none.
func blockedBy(m *v1alpha1.CapacityMix) string {
	if command.ReportOf(m) != command.ReportCurrent {
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

func workloadStatus(c *live.Cluster, g *clusterstate.Group) WorkloadStatus {
	w := WorkloadStatus{
		Namespace: g.Workload.Namespace, Kind: g.Workload.Kind, Name: g.Workload.Name, Revision: g.Workload.Revision,
		Source: g.Governing.Source, Rule: g.Governing.Mix.String(), Replicas: g.Replicas, bare: g.Workload.UID == "",
	}
	m := c.MixOf(w.Namespace, g.Governing)
	standing := overview.StandingOf(g, m, c.Unread())
	w.Counts = Counts{standing.Counts, standing.Satisfied}
	w.State, w.Message = stateOf(g, &standing, c.Missing("nodes"))
	if !w.Satisfied.Is(false) {
		return w
	}
	report := overview.Report(m, g)
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

// stateOf returns the state of a group, by its pods and, where the nodes could not be read, by what is known of them.
func stateOf(g *clusterstate.Group, s *overview.Standing, noNodes bool) (state, message string) {
	pending, _, settled := g.Counts()
	departing, _ := s.Departing.Get()
	wrong := 0
	if noNodes {
		wrong, _ = s.Borrowed.Get()
	} else {
		wrong = len(g.WrongSide())
	}
	switch {
	case s.Satisfied.Unknown():
		return stateUnknown, ""
	case s.Satisfied.Is(true):
		return stateExact, ""
	case wrong > 0:
		return stateMixNotSatisfied, printers.Count(wrong, "replica") + " on the wrong type"
	case g.Rollout.Rolling:
		return stateRollingOut, fmt.Sprintf("%d of %d replicas of this revision", settled, g.Replicas)
	case pending > 0:
		return statePending, printers.Count(pending, "replica") + " without a node"
	case departing > 0:
		return stateDeparting, printers.Count(departing, "replica") + " on departing nodes"
	}
	return stateScaling, fmt.Sprintf("%d replicas, %d desired", settled, g.Replicas)
}

// notes name mixes whose controller is not there, and mixes that do nothing.
func notes(s *Status) []string {
	var out []string
	reports := command.Reports{}
	for _, m := range s.Mixes {
		name := m.Namespace + "/" + m.Name
		if m.Invalid != "" {
			out = append(out, fmt.Sprintf("CapacityMix %s governs nothing: %s", name, m.Invalid))
		}
		reports.Add(name, m.Controller)
	}
	return append(out, reports.Notes("berth-controller does not seem to run, so no replica is moved (see kubectl berth doctor)")...)
}

// conflictNotes name mixes that select pods of an older one.
func conflictNotes(c *live.Cluster, only string) []string {
	var out []string
	for _, o := range overrulings(c, c.Mixes) {
		if strings.HasPrefix(o.By, governing.SourceCapacityMix) && (only == "" || only == o.Mix) {
			out = append(out, overruledNote(c, o))
		}
	}
	return out
}
