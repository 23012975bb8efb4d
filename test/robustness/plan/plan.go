// SPDX-License-Identifier: Apache-2.0

// Package plan draws the workloads and the steps of a run from its seed. It is pure: a seed has one plan, whatever the programs do.
package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/network"
)

const (
	// NodesOfType is how many nodes each capacity type has. All replicas of all workloads, with those that a rollout adds, fit on the
	// nodes of one type.
	NodesOfType = 18
	// MaxReplicas bounds the replicas of a workload.
	MaxReplicas = 5
	// pace is the longest pause after a step.
	pace = time.Second
)

// Kind is what a step does.
type Kind string

// Steps of traffic: what users, owners and providers do.
const (
	Scale   Kind = "scale"
	Remix   Kind = "change the mix of"
	RollOut Kind = "roll out a version of"
	// RollBack rolls out the version before.
	RollBack Kind = "roll back"
	// PauseRollout pauses the rollouts of a Deployment, or resumes them.
	PauseRollout Kind = "pause or resume the rollouts of"
	DeletePods   Kind = "delete pods of"
	RunJob       Kind = "run a job"
	// BarePods runs pods without a controller, in place of those of the step before.
	BarePods Kind = "run bare pods"
	Calm     Kind = "do nothing"
	// Budget has a PodDisruptionBudget allow no disruption, or one again.
	Budget Kind = "change the disruption budget of"
	// Quota limits the pods of the namespace, until NoQuota.
	Quota   Kind = "limit the pods of the namespace"
	NoQuota Kind = "lift the limit of pods"
	// Autoscale lets an autoscaler scale a Deployment, against the traffic.
	Autoscale Kind = "autoscale"
	// Preempt places a pod that needs a whole node, and precedes all others.
	Preempt Kind = "preempt the pods of"
	// Declare creates or changes a DeploymentRecord or an Environment, Withdraw deletes it.
	Declare  Kind = "declare"
	Withdraw Kind = "withdraw"
	// Each of the following undoes its last step on another node.
	Cordon   Kind = "cordon"
	Drain    Kind = "drain"
	Taint    Kind = "taint"
	Relabel  Kind = "relabel to the other type"
	LoseNode Kind = "lose"
)

// Faults.
const (
	// Kill kills a program or a component with SIGKILL, and starts it again.
	Kill Kind = "kill"
	// Stop pauses a program or a component with SIGSTOP for a while.
	Stop Kind = "stop"
	// Outage kills a component, and starts it again after a while.
	Outage Kind = "outage of"
	// Disturb has a fault in the network of a program for a while.
	Disturb Kind = "disturb the network of"
	// SlowDown lets a component run for a part of the time only, as on a disk that is too slow.
	SlowDown Kind = "slow down"
	// RemoveCRD removes a CustomResourceDefinition with all its objects, and restores them after a while.
	RemoveCRD Kind = "remove the CustomResourceDefinition of"
)

// Target is a program or a component that a fault concerns. Which of the controllers leads is known at run time only.
type Target string

// Targets.
const (
	Scheduler Target = "the scheduler"
	Leader    Target = "the leading controller"
	APIServer Target = "the API server"
	Etcd      Target = "etcd"
	Mixes     Target = "the mixes"
)

// Workload is one that a run begins with.
type Workload struct {
	Name  string `json:"name"`
	Owner Owner  `json:"owner"`
	// Gated pods have the scheduling gate. Annotated workloads have their mix in annotations, the others in a CapacityMix. NoMix
	// workloads have none: those that are Invalid have annotations that are no mix, Rival ones are placed by the default scheduler.
	Gated     bool `json:"gated,omitempty"`
	Annotated bool `json:"annotated,omitempty"`
	NoMix     bool `json:"noMix,omitempty"`
	Invalid   bool `json:"invalid,omitempty"`
	Rival     bool `json:"rival,omitempty"`
	// Budgeted workloads have a PodDisruptionBudget that allows one disruption.
	Budgeted bool      `json:"budgeted,omitempty"`
	Replicas int32     `json:"replicas"`
	Mix      split.Mix `json:"mix"`
}

// Owner is the kind of the owner of a workload's pods.
type Owner string

// Owners.
const (
	Deployment  Owner = "Deployment"
	StatefulSet Owner = "StatefulSet"
	// Ordered is a StatefulSet that begins its pods one after the other.
	Ordered    Owner = "StatefulSet, ordered"
	ReplicaSet Owner = "ReplicaSet"
)

// HasRollouts reports whether the owner rolls out another template by itself.
func (w *Workload) HasRollouts() bool { return w.Owner != ReplicaSet }

// Products are the DeploymentRecords and the Environment that steps declare.
var Products = []string{"record-0", "record-1", Environment}

const (
	// Environment is the name of the only one: its namespace has one.
	Environment = "environment"
	// maxParts bounds the functions of a record, and the components of an environment.
	maxParts = 2
)

// Step is one step. Fields that its kind does not use are zero.
type Step struct {
	Kind     Kind          `json:"kind"`
	Workload string        `json:"workload,omitempty"`
	Replicas int32         `json:"replicas,omitempty"`
	Mix      split.Mix     `json:"mix,omitzero"`
	Version  string        `json:"version,omitempty"`
	Count    int           `json:"count,omitempty"`
	Node     string        `json:"node,omitempty"`
	Target   Target        `json:"target,omitempty"`
	Product  string        `json:"product,omitempty"`
	Parts    int           `json:"parts,omitempty"`
	Network  network.Fault `json:"network,omitzero"`
	For      time.Duration `json:"for,omitempty"`
	During   []Step        `json:"during,omitempty"`
	Pause    time.Duration `json:"pause,omitempty"`
}

// Fault reports whether a step is a fault, and not traffic.
func (s *Step) Fault() bool {
	return s.Target != ""
}

// String describes a step in a report.
func (s *Step) String() string {
	parts := []string{string(s.Kind)}
	for _, part := range []string{s.Workload, s.Product, s.Node, string(s.Target), s.Version} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	switch s.Kind {
	case Scale, Autoscale:
		parts = append(parts, fmt.Sprintf("to %d", s.Replicas))
	case Remix:
		parts = append(parts, fmt.Sprintf("to %s", s.Mix))
	case Declare:
		parts = append(parts, fmt.Sprintf("(%d of %d)", s.Parts, s.Replicas))
	case DeletePods, BarePods, Quota:
		parts = append(parts, fmt.Sprintf("(%d)", s.Count))
	case Disturb:
		parts = append(parts, fmt.Sprintf("(%s)", s.Network))
	}
	if s.For > 0 {
		parts = append(parts, fmt.Sprintf("for %s", s.For))
	}
	for i := range s.During {
		parts = append(parts, fmt.Sprintf("[%s]", &s.During[i]))
	}
	return strings.Join(parts, " ")
}

// Plan is what a run does.
type Plan struct {
	Workloads []Workload `json:"workloads"`
	Steps     []Step     `json:"steps"`
}

// New returns the plan of a seed with n steps. The steps of a shorter plan of the same seed are its first ones.
func New(seed uint64, n int) *Plan {
	d := &draft{random: rand.New(rand.NewPCG(seed, 0)), versions: map[string][]string{}}
	d.plan.Workloads = d.workloads()
	for range n {
		d.plan.Steps = append(d.plan.Steps, d.step(steps))
	}
	return &d.plan
}

// draft is a plan that is being drawn.
type draft struct {
	random *rand.Rand
	plan   Plan
	// versions are those that each workload has rolled out.
	versions map[string][]string
	// limited is set while the pods of the namespace are limited.
	limited bool
}

func (d *draft) workloads() []Workload {
	list := []Workload{
		{Owner: Deployment},
		{Owner: Deployment, Gated: true},
		{Owner: Deployment, Budgeted: true},
		{Owner: Deployment, Annotated: true},
		{Owner: Deployment, Gated: true, Budgeted: true},
		{Owner: Deployment, NoMix: true},
		{Owner: StatefulSet},
		{Owner: StatefulSet, Gated: true},
		{Owner: Ordered, Budgeted: true},
		{Owner: ReplicaSet},
		{Owner: Deployment, NoMix: true, Rival: true},
		{Owner: Deployment, Gated: true, NoMix: true, Invalid: true},
	}
	for i := range list {
		list[i].Name = fmt.Sprintf("w%d", i)
		list[i].Mix, list[i].Replicas = d.mix(), d.replicas()
	}
	return list
}

func (d *draft) mix() split.Mix {
	return split.New(int32(d.random.IntN(101)), int32(d.random.IntN(3)))
}

func (d *draft) replicas() int32 { return int32(1 + d.random.IntN(MaxReplicas)) }

// any draws one of the workloads for which something holds.
func (d *draft) any(is func(*Workload) bool) string {
	for {
		if w := &d.plan.Workloads[d.random.IntN(len(d.plan.Workloads))]; is(w) {
			return w.Name
		}
	}
}

func (d *draft) node(capacityType string) string {
	return fmt.Sprintf("%s-%d", capacityType, d.random.IntN(NodesOfType))
}

// between draws a time.
func (d *draft) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.random.Int64N(int64(most-least))).Truncate(time.Millisecond)
}

// step draws a step by weight.
func (d *draft) step(from []weighted) Step {
	total := 0
	for i := range from {
		total += from[i].weight
	}
	n := d.random.IntN(total)
	for i := range from {
		if n -= from[i].weight; n < 0 {
			s := from[i].draw(d)
			s.Pause = d.between(0, pace)
			return s
		}
	}
	panic("unreachable: the weights add up to the total")
}
