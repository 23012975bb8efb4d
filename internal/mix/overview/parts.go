// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// Parts are what a group is made of, where that is not one pod for each replica, of one controller.
type Parts struct {
	// Role is the role of the mix whose pods these are, "" for none.
	Role string `json:"role,omitempty"`
	// Owners is how many controllers the pods have, 0 for one.
	Owners int `json:"owners,omitempty"`
	// Units is how many units there are, where replicas are units of pods, and Pods how many pods these have. All numbers of replicas are
	// of units then.
	Units int `json:"units,omitempty"`
	Pods  int `json:"pods,omitempty"`
}

// PartsOf returns what a group is made of.
func PartsOf(g *clusterstate.Group) (p Parts) {
	p.Role = display.Inert(g.Governing.RoleName, maxName)
	if g.Owners > 1 {
		p.Owners = g.Owners
	}
	if !g.Units {
		return p
	}
	p.Units = len(g.Assignments)
	for i := range g.Assignments {
		p.Pods += len(g.Assignments[i].Members())
	}
	return p
}

// Replica is what a replica is: a unit, or a replica that is a pod.
func (p Parts) Replica() string {
	if p.Units > 0 {
		return "unit"
	}
	return "replica"
}

// Count is a number of replicas in a table: "4", or "4 units".
func (p Parts) Count(n int) string {
	if p.Units > 0 {
		return display.Count(n, "unit")
	}
	return fmt.Sprint(n)
}

// Words describes the replicas of a group: "4 units of 16 pods", "7 replicas of 7 owners".
func (p Parts) Words(replicas int) string {
	text := display.Count(replicas, p.Replica())
	if p.Units > 0 {
		text += " of " + display.Count(p.Pods, "pod")
	}
	if p.Owners > 0 {
		text += " of " + display.Count(p.Owners, "owner")
	}
	return text
}

// ofRole adds a role to the name of a workload.
func ofRole(name, role string) string {
	if role == "" {
		return name
	}
	return name + " role " + role
}

// bare reports whether a group is the pods of a mix that have no controller.
func bare(g *clusterstate.Group) bool {
	return g.Workload.Kind == "Pod" && g.Governing.Grouping.By != governing.ByName
}

// GroupText names a group in a sentence.
func GroupText(g *clusterstate.Group) string {
	w, name := g.Workload, ""
	switch {
	case bare(g):
		name = "the pods of " + SourceText(w.Name) + " that have no controller"
	case w.Kind == "Pod":
		name = "the pods of group " + w.Name
	case w.Kind == "CapacityMix":
		name = "the pods of CapacityMix " + w.Name
	default:
		name = w.String()
	}
	return ofRole(name, g.Governing.RoleName)
}

// UnitPod is a pod of a unit.
type UnitPod struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	// NodeType is empty where the node is not read.
	NodeType string   `json:"nodeType,omitempty"`
	Requests Requests `json:"-"`
}

// Requests are what a pod requests: CPU in millicores, and memory in bytes.
type Requests struct{ MilliCPU, Memory int64 }
