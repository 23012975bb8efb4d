// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// GroupFacts are the group of a pod, and its unit.
type GroupFacts struct {
	// By is what the pods of the group have in common: Controller, Selector, Top, Name, Set, OnePodKind or NoController.
	By groupBy `json:"by"`
	// Why is that in words, after "because".
	Why   string `json:"why"`
	Parts `json:",inline"`
	// Unit is that of the pod, nil where it holds its slot alone.
	Unit *UnitFacts `json:"unit,omitempty"`
	// name is that of the group in a sentence.
	name string
}

// UnitFacts are the unit of a pod.
type UnitFacts struct {
	Name string `json:"name"`
	// By is the label, or spec.schedulingGroup, by which the pods of a unit are found.
	By   string    `json:"by"`
	Pods []UnitPod `json:"pods"`
	// RunsOn is the type that the unit runs on, or will: "unknown" where a pod is on a node of that type, or the nodes were not read.
	RunsOn string `json:"runsOn"`
	// Pending is how many of the pods have no node.
	Pending int `json:"pending,omitempty"`
}

// groupBy is one word for what the pods of a group have in common.
type groupBy string

const (
	groupByController   groupBy = "Controller"
	groupBySelector     groupBy = "Selector"
	groupByTop          groupBy = "Top"
	groupByName         groupBy = "Name"
	groupBySet          groupBy = "Set"
	groupByOnePodKind   groupBy = "OnePodKind"
	groupByNoController groupBy = "NoController"
)

// groupFacts are those of a pod on its slot.
func (e *explainer) groupFacts(g *clusterstate.Group, a *clusterstate.Assignment) *GroupFacts {
	f := &GroupFacts{Parts: PartsOf(g), name: GroupText(g), Unit: e.unitFacts(g, a)}
	f.By, f.Why = groupReason(e.Pod, g)
	if f.Role != "" {
		f.Why += fmt.Sprintf(", and role %s of the mix selects it", f.Role)
	}
	return f
}

// groupReason is why a pod is in its group. It is the same choice as that of governing.Resolver.Named.
func groupReason(pod *corev1.Pod, g *clusterstate.Group) (by groupBy, why string) {
	ref, set := metav1.GetControllerOfNoCopy(pod), governing.SetOf(pod)
	switch grouping := g.Governing.Grouping.By; {
	case grouping == governing.BySelector:
		return groupBySelector, "spec.group of its mix is Selector"
	case grouping == governing.ByName:
		return groupByName, "the annotation " + v1alpha1.GroupAnnotation + " has this name"
	case ref == nil && set == nil, ref == nil && grouping == governing.ByController:
		return groupByNoController, "it has no controller"
	case set != nil && grouping != governing.ByController:
		return groupBySet, "its label " + set.Name + " has this name"
	case grouping == governing.ByTop:
		return groupByTop, "its mix groups by the highest owner"
	case grouping == governing.ByDefault && !ownedGroup(g):
		return groupByOnePodKind, "owners of kind " + ref.Kind + " have one pod each, and are grouped by their set"
	}
	return groupByController, fmt.Sprintf("%s %s controls it", ref.Kind, ref.Name)
}

// ownedGroup reports whether a group is that of an owner, apart from its role.
func ownedGroup(g *clusterstate.Group) bool {
	return governing.GroupKey{ID: strings.TrimSuffix(g.Key.ID, "/"+g.Governing.RoleName)}.Owner() != ""
}

// unitFacts are nil for a pod that holds its slot alone.
func (e *explainer) unitFacts(g *clusterstate.Group, a *clusterstate.Assignment) *UnitFacts {
	if a.Unit == "" {
		return nil
	}
	f := &UnitFacts{Name: a.Unit, By: unitLabel(e.Pod, g.Governing), RunsOn: a.On.String()}
	for _, p := range a.Members() {
		pod := UnitPod{Pod: p.Name, Node: p.Node}
		switch {
		case !p.Bound():
			f.Pending++
		case !e.Cluster.Missing("nodes"):
			pod.NodeType = e.Cluster.State.Node(p.Node).Type.String()
		}
		f.Pods = append(f.Pods, pod)
	}
	if e.Cluster.Missing("nodes") && f.Pending < len(f.Pods) {
		f.RunsOn = capacity.Unknown.String()
	}
	return f
}

// unitLabel is what the pods of a unit have in common.
func unitLabel(pod *corev1.Pod, m *governing.Mix) string {
	switch m.Unit.By {
	case governing.UnitByLabel:
		return "label " + m.Unit.Label
	case governing.UnitBySchedulingGroup:
		return "spec.schedulingGroup"
	}
	if set := governing.SetOf(pod); set != nil {
		return "label " + set.Unit
	}
	return ""
}

// sentence is why the pod is in its group and its unit, and the type of the unit; "" where the name of the group has it.
func (f *GroupFacts) sentence() string {
	plain := f != nil && (f.By == groupByController || f.By == groupByNoController)
	if f == nil || plain && f.Unit == nil && f.Role == "" {
		return ""
	}
	text := fmt.Sprintf("The pod is counted with %s because %s", f.name, f.Why)
	if u := f.Unit; u != nil {
		text += fmt.Sprintf("; its unit %s (%s) has %s, which hold one slot together, on %s", u.Name, u.By, display.Count(len(u.Pods), "pod"),
			u.RunsOn)
	}
	return text + "."
}

// replicas counts those of the group.
func (f *GroupFacts) replicas(n int) string {
	if f == nil {
		return display.Count(n, "replica")
	}
	return f.Words(n)
}

// waits is what a pod with a node reports of others of its unit that have none.
func (f *GroupFacts) waits() string {
	return fmt.Sprintf("Pods of its unit that have no node yet: %d of %d.", f.Unit.Pending, len(f.Unit.Pods))
}
