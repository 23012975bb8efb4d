// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/clusterstate"
)

// SourceText names the source of a mix in a sentence.
func SourceText(source string) string {
	switch source {
	case "annotations/pod":
		return "the annotations of the pod"
	case "annotations/controller":
		return "the annotations of its controller"
	case "default":
		return "the scheduler's default mix"
	}
	return source
}

// WorkloadText names a workload in a sentence.
func WorkloadText(w clusterstate.Workload) string {
	if w.UID == "" {
		return "the pods of " + SourceText(w.Name) + " that have no controller"
	}
	return w.String()
}

// UnknownTypeHint is what to do about a node of unknown type.
const UnknownTypeHint = "no rule matches the labels: add a rule to nodeRules of the plugin, or label the node " +
	"node.kubernetes.io/lifecycle=spot or =on-demand (docs/node-types.md)"

// WorkloadOf names the workload of a pod that has a controller, whether or not
// a mix governs it.
func (c *Cluster) WorkloadOf(p *clusterstate.Pod) clusterstate.Workload {
	w := clusterstate.Workload{Kind: p.Owner.Kind, Namespace: p.Namespace, Name: p.Owner.Name, UID: p.Owner.UID}
	if ref := c.above[p.Owner.UID]; ref != nil && p.Owner.Kind == "ReplicaSet" {
		w.Kind, w.Name, w.UID, w.Revision = ref.Kind, ref.Name, ref.UID, p.Owner.Name
	}
	return w
}

// Split is a number of replicas per type.
type Split struct {
	Spot     int `json:"spot"`
	OnDemand int `json:"onDemand"`
	Unknown  int `json:"unknown,omitempty"`
}

// String is "14/6": spot and on-demand, and where there are some, unknown.
func (s Split) String() string {
	if s.Unknown > 0 {
		return fmt.Sprintf("%d/%d/%d?", s.Spot, s.OnDemand, s.Unknown)
	}
	return fmt.Sprintf("%d/%d", s.Spot, s.OnDemand)
}

// Plus adds two splits.
func (s Split) Plus(t Split) Split {
	return Split{Spot: s.Spot + t.Spot, OnDemand: s.OnDemand + t.OnDemand, Unknown: s.Unknown + t.Unknown}
}

// Words is "14 spot, 6 on-demand".
func (s Split) Words() string {
	text := fmt.Sprintf("%d spot, %d on-demand", s.Spot, s.OnDemand)
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d on nodes of unknown type", s.Unknown)
	}
	return text
}

// Actual is where the replicas of a group run.
func Actual(g *clusterstate.Group) Split {
	return Split(g.Actual())
}

// PendingByType is which types the pending replicas of a group wait for.
func PendingByType(g *clusterstate.Group) Split {
	return Split(g.PendingByType())
}

// Desired is where the replicas of a group should run.
func Desired(g *clusterstate.Group) Split {
	return Split{Spot: g.Policy.Mix.Spot(g.Replicas), OnDemand: g.Policy.Mix.OnDemand(g.Replicas)}
}

// EventTime is when an event of either API was recorded.
func EventTime(e *corev1.Event) metav1.Time {
	switch {
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	}
	return e.CreationTimestamp
}
