// SPDX-License-Identifier: Apache-2.0

// Package scenario reads the file that describes a simulation: node pools, the availability of spot nodes, and workloads.
package scenario

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/spottrace"
)

// Scenario describes a simulation. The same scenario gives the same figures.
type Scenario struct {
	// Seed determines all random numbers. Defaults to 0.
	Seed uint64 `json:"seed,omitempty"`
	// Duration is the simulated time, such as 72h: more than 0, at most 366 days, and not longer than a trace.
	Duration metav1.Duration `json:"duration"`
	// Sample is the time between two points of the series, from 1s to the duration. Defaults to a 500th of the duration, at least 10s.
	Sample metav1.Duration `json:"sample,omitzero"`
	// NodePools are where nodes come from, at least one.
	NodePools []NodePool `json:"nodePools"`
	// Workloads are what runs on the nodes.
	Workloads []Workload `json:"workloads,omitempty"`
}

// NodePool is a source of equal nodes.
type NodePool struct {
	// Name is a DNS label.
	Name string `json:"name"`
	// CapacityType is spot or on-demand.
	CapacityType string `json:"capacityType"`
	// InstanceType and Zone are the values of the labels of the nodes, without which they have none.
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// CPU and Memory are what a node has for pods.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	// Pods is the largest number of pods on a node, from 1 to 1000. Defaults to 110.
	Pods int32 `json:"pods,omitempty"`
	// Nodes is the number of nodes at the start. Defaults to 0.
	Nodes int32 `json:"nodes,omitempty"`
	// Max is the largest number of nodes. Without it, the number is not limited; with 0, the pool has none.
	Max *int32 `json:"max,omitempty"`
	// Fixed is whether the pool always has Nodes nodes, or those of them that are available, whatever runs on them. Defaults to false.
	Fixed bool `json:"fixed,omitempty"`
	// LaunchSeconds is the time from the request of a node until it is Ready, in seconds. Defaults to 60.
	LaunchSeconds int32 `json:"launchSeconds,omitempty"`
	// NoticeSeconds is the time from the notice of an interruption until the node is gone, in seconds, for spot only. Defaults to 120.
	NoticeSeconds int32 `json:"noticeSeconds,omitempty"`
	// DollarsPerHour is the price of a node. Without it, what a run costs is unknown.
	DollarsPerHour *float64 `json:"dollarsPerHour,omitempty"`
	// Availability is when the provider interrupts nodes, for spot only. Without it, it interrupts none.
	Availability *Availability `json:"availability,omitempty"`
}

// Availability is when spot nodes are available. It has either a trace or a rate.
type Availability struct {
	// Trace is the path of a trace of the number of available nodes, relative to the file of the scenario.
	Trace string `json:"trace,omitempty"`
	// Times multiplies the numbers of the trace, from 1. Defaults to 1.
	Times int32 `json:"times,omitempty"`
	// MonthlyInterruptionPercent is the percentage of nodes that are interrupted within their first 730 hours, from 0 to less than 100.
	MonthlyInterruptionPercent *float64 `json:"monthlyInterruptionPercent,omitempty"`

	// Loaded is the trace in the file, nil where there is only a rate.
	Loaded *spottrace.Trace `json:"-"`
}

// Workload is a Deployment, or several equal ones.
type Workload struct {
	// Namespace is a DNS label. Defaults to default.
	Namespace string `json:"namespace,omitempty"`
	// Name is a DNS label. Of several copies, it is the name without the number.
	Name string `json:"name"`
	// Copies is how many equal workloads there are, from 1. More than one are name-0, name-1, … Defaults to 1.
	Copies int32 `json:"copies,omitempty"`
	// Replicas is the wanted number at the start.
	Replicas int32 `json:"replicas"`
	// CPU and Memory are the requests of each pod. Default to 0.
	CPU    resource.Quantity `json:"cpu,omitzero"`
	Memory resource.Quantity `json:"memory,omitzero"`
	// StartupSeconds is the time from the binding of a pod until it is Ready, in seconds. Defaults to 10.
	StartupSeconds int32 `json:"startupSeconds,omitempty"`
	// MaxUnavailable is that of a PodDisruptionBudget, a number or a percentage. Without it, there is no budget.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Mix is the spec of a CapacityMix without a selector. Without it, no mix governs the workload.
	Mix *v1alpha1.CapacityMixSpec `json:"mix,omitempty"`
	// Events are changes of the workload, in the order of their time.
	Events []Event `json:"events,omitempty"`
}

// Event is a change of a workload. It has replicas, a rollout or both.
type Event struct {
	// At is the time since the start, such as 12h30m: less than the duration of the scenario.
	At metav1.Duration `json:"at"`
	// Replicas is the wanted number from then on.
	Replicas *int32 `json:"replicas,omitempty"`
	// Rollout is whether all pods are replaced, as by a change of the template. Defaults to false.
	Rollout bool `json:"rollout,omitempty"`
}

// Default sets the defaults, before the values of the file.
func (p *NodePool) Default() { p.Pods, p.LaunchSeconds = DefaultPods, defaultLaunchSeconds }

// Default sets the defaults, before the values of the file.
func (a *Availability) Default() { a.Times = 1 }

// Default sets the defaults, before the values of the file.
func (w *Workload) Default() {
	w.Namespace, w.Copies, w.StartupSeconds = metav1.NamespaceDefault, 1, defaultStartupSeconds
}

// DefaultPods is the largest number of pods on a node of a pool that has none.
const DefaultPods = 110

const defaultLaunchSeconds, defaultNoticeSeconds, defaultStartupSeconds = 60, 120, 10

// Spot reports whether the pool has spot nodes.
func (p *NodePool) Spot() bool { return p.CapacityType == v1alpha1.CapacityTypeSpot }

// Available returns the number of nodes that the trace has at a time within the duration of the scenario, which its traces cover. A rate
// does not limit the number.
func (a *Availability) Available(at time.Duration) int32 {
	if a.Loaded == nil {
		return MaxNodes
	}
	n, _ := a.Loaded.At(at)
	return int32(min(int64(n)*int64(a.Times), MaxNodes)) //nolint:gosec // bounded
}

// Most is the largest number of replicas that is wanted at any time.
func (w *Workload) Most() int32 {
	most := w.Replicas
	for i := range w.Events {
		if r := w.Events[i].Replicas; r != nil {
			most = max(most, *r)
		}
	}
	return most
}
