// SPDX-License-Identifier: Apache-2.0

// Package suggest decides what the mix of a workload could be: how many replicas may run on spot nodes, why, what that saves and risks, and
// what would have to change first where none may.
//
// A spot provider can take all spot nodes at once. So a suggestion never has more replicas on spot nodes than the PodDisruptionBudget of
// the workload allows to be missing, and one replica at least stays on on-demand nodes, at any number of replicas.
package suggest

import (
	"time"

	"berth.dev/berth/internal/mix/split"
)

// Replaced is what is known of the owner of pods.
type Replaced int

const (
	// ByKubernetes means that a controller of Kubernetes replaces a pod that is lost.
	ByKubernetes Replaced = iota
	// ByUnknown means that the owner is of a kind that Kubernetes does not have.
	ByUnknown
	// ByNobody means that the pods have no controller.
	ByNobody
)

// Workload is what a suggestion depends on.
type Workload struct {
	Namespace, Kind, Name string
	// Replicas is how many replicas are requested, Unit how many pods each has, and Pods how many live pods there are.
	Replicas, Unit, Pods int
	// Governed is where the mix comes from that governs the pods now, "" for none, and Now this mix.
	Governed string
	Now      split.Mix
	Replaced Replaced
	// Stateful is set for StatefulSets, Deployment where Berth can create a replacement before a replica goes.
	Stateful, Releasable bool
	// RunsOnce is set where the end of a pod is a success or a failure, and IgnoresDisruptions where an interruption is neither.
	RunsOnce, IgnoresDisruptions bool
	// MixesUnread is set where it is unknown whether a mix governs the pods.
	MixesUnread bool
	// Budgets are the PodDisruptionBudgets that select the pods. BudgetsUnread is set where they are unknown.
	Budgets       []Budget
	BudgetsUnread bool
	// Keep is the annotation that forbids to disrupt a pod, "" for none, and LocalData a volume with data on the node.
	Keep, LocalData string
	// LocalClaim and AttachedClaim are claims of volumes on one node, and of such as are attached to one node at a time.
	LocalClaim, AttachedClaim string
	// VolumesUnread is set where the pods have claims, and it is unknown of which volumes.
	VolumesUnread   bool
	Pinned, Grouped bool
	PriorityClass   string
	Priority        int32
	NeverPreempts   bool
	// SchedulerName is that of the pods where it is not one that places by the mix, and BerthsName one that does.
	SchedulerName, BerthsName string
	// Grace is how long a pod may take to end, and Notice how long before an interruption its provider announces it.
	Grace, Notice time.Duration
	// Starts are the times that pods took to become Ready, in any order.
	Starts []time.Duration
	// Restarts is how often containers of the pods restarted, in the sum Age of the ages of the pods.
	Restarts int
	Age      time.Duration
	// NodesUnread is set where the nodes are unknown. UnknownNodes are those of unknown type, and Quarantined the domains in quarantine.
	NodesUnread               bool
	UnknownNodes, Quarantined []string
	Bands                     []Band
	Money                     Money
	// Selector selects the pods and no others. Nil: none does.
	Selector *Selector
}

// template is the path of the pod template.
func (w *Workload) template() string {
	switch w.Kind {
	case "CronJob":
		return "spec.jobTemplate.spec.template."
	case "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "Rollout":
		return "spec.template."
	}
	return "pod template "
}

// Finding is one reason of a suggestion.
type Finding struct {
	Reason  string `json:"reason"`
	Effect  Effect `json:"effect"`
	Message string `json:"message"`
	// Field is what would have to change first, and Change how.
	Field  string `json:"field,omitempty"`
	Change string `json:"change,omitempty"`
}

// Mix is what is suggested.
type Mix struct {
	SpotPercent int32  `json:"spotPercent"`
	MinOnDemand int32  `json:"minOnDemand"`
	MaxSpot     *int32 `json:"maxSpot,omitempty"`
	// Strategy is that of moves, "" for that of the controller.
	Strategy string `json:"strategy,omitempty"`
}

// Split returns the mix as a function of the number of replicas.
func (m *Mix) Split() split.Mix {
	s := split.New(m.SpotPercent, m.MinOnDemand)
	if m.MaxSpot != nil {
		s.MaxSpot = *m.MaxSpot
	}
	return s
}

// Suggestion is what the mix of a workload could be.
type Suggestion struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Replicas  int    `json:"replicas"`
	Pods      int    `json:"pods"`
	// GovernedBy is where the mix comes from that governs the pods now, and Rule what it is.
	GovernedBy string `json:"governedBy,omitempty"`
	Rule       string `json:"rule,omitempty"`
	// MixName is the name of the mix to adopt.
	MixName string `json:"mixName,omitempty"`
	// Step is the place in the order of adoption, from 1: 0 for what is blocked or governed already.
	Step int `json:"step,omitempty"`
	// Mix is nil where a finding blocks. Spot and OnDemand are the replicas of it.
	Mix      *Mix      `json:"mix"`
	Spot     int       `json:"spot"`
	OnDemand int       `json:"onDemand"`
	Risk     Risk      `json:"risk"`
	Findings []Finding `json:"findings"`
	// Interruptions are those of replicas to expect in a month, nil where they are unknown.
	Interruptions *Interruptions `json:"interruptions"`
	// SavingPerMonth is in dollars against where the pods run now, nil where no pod has a price. Priced is how many have one.
	SavingPerMonth *float64 `json:"savingPerMonth"`
	Priced         int      `json:"priced"`
	// Selector selects the pods, nil where no mix is suggested.
	Selector *Selector `json:"selector,omitempty"`

	later bool
}

// With returns the findings with an effect.
func (s *Suggestion) With(e Effect) (list []Finding) {
	for _, f := range s.Findings {
		if f.Effect == e {
			list = append(list, f)
		}
	}
	return list
}

// Of returns the suggestion for a workload.
func Of(w *Workload) Suggestion {
	s := Suggestion{
		Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Replicas: w.Replicas, Pods: w.Pods, GovernedBy: w.Governed,
		Findings: []Finding{},
		Priced:   w.Money.Priced, OnDemand: w.Replicas,
	}
	if w.Governed != "" {
		s.Rule = w.Now.String()
	}
	all := look(w)
	mix := mixOf(w, all)
	if mix != nil && mix.Split().Spot(w.Replicas) == 0 {
		all, mix = append(all, tooFew(w, mix)), nil
	}
	for _, f := range all {
		s.Findings = append(s.Findings, f.Finding)
		s.later = s.later || f.reason == ReasonQuarantine
	}
	s.Risk = riskOf(all)
	if s.Mix = mix; mix == nil {
		s.Risk = Blocked
		return s
	}
	s.Spot, s.OnDemand = mix.Split().Spot(w.Replicas), mix.Split().OnDemand(w.Replicas)
	s.Interruptions = interruptionsOf(w, s.Spot*w.Unit)
	s.SavingPerMonth = w.Money.saving(s.Spot*w.Unit, max(w.Pods, w.Replicas*w.Unit))
	s.Selector = w.Selector
	return s
}
