// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// maxRequirements bounds a selector, which is part of a URL.
const maxRequirements = 8

// SelectorOf returns labels that all pods of a group have: a list by them has every pod of the group. Only the pods of one controller
// are alike; what others have in common by chance, the next one may lack.
func SelectorOf(g *clusterstate.Group) labels.Selector {
	if len(g.Assignments) == 0 {
		return labels.Everything()
	}
	if set := governing.SetOf(g.Assignments[0].Pod.Object()); set != nil && g.Governing.Grouping.By == governing.ByDefault {
		return labels.SelectorFromSet(labels.Set{set.Name: g.Assignments[0].Pod.Labels[set.Name]})
	}
	if !OfOneController(g) {
		return labels.Everything()
	}
	common := maps.Clone(g.Assignments[0].Pod.Labels)
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			maps.DeleteFunc(common, func(k, v string) bool { other, there := p.Labels[k]; return !there || other != v })
		}
	}
	chosen := labels.Set{}
	for _, k := range slices.Sorted(maps.Keys(common)) {
		if chosen[k] = common[k]; len(chosen) == maxRequirements {
			break
		}
	}
	return chosen.AsSelector()
}

// OfOneController reports whether the pods of a group are those of one controller by definition.
func OfOneController(g *clusterstate.Group) bool {
	return g.Key.Owner() != "" && (g.Governing == nil || g.Governing.Grouping.By != governing.ByTop)
}

// Unchanged reports whether a pod is still what was decided about.
func Unchanged(pod *corev1.Pod, known *clusterstate.Pod) bool {
	return pod.UID == known.UID && pod.DeletionTimestamp == nil && pod.Spec.NodeName == known.Node
}

// Differs returns how the pods of a group, which a watch has shown, differ from its live ones in what a decision depends on:
// every pod of a replica that counts must be there, on its node and as available as before, and every pod that is there must be known.
// Pods being moved do not count, and as many new ones may be their replacements. It returns "" for nothing.
func Differs(g *clusterstate.Group, moving map[types.UID]bool, live []corev1.Pod) string {
	there := make(map[types.UID]*corev1.Pod, len(live))
	for i := range live {
		if p := &live[i]; p.DeletionTimestamp == nil && !pods.Finished(p) && !moving[p.UID] {
			there[p.UID] = p
		}
	}
	for i := range g.Assignments {
		for _, known := range g.Assignments[i].Members() {
			if moving[known.UID] {
				continue
			}
			if what := changedSince(g, known, there[known.UID]); what != "" {
				return what
			}
			delete(there, known.UID)
		}
	}
	for i, uid := range slices.Sorted(maps.Keys(there)) {
		if i >= len(moving) {
			return fmt.Sprintf("pod %s is new", there[uid].Name)
		}
	}
	return ""
}

// changedSince returns how a replica differs from its record; now is nil where it is gone.
func changedSince(g *clusterstate.Group, known *clusterstate.Pod, now *corev1.Pod) string {
	since, ready := ReadySince(now)
	switch {
	case now == nil:
		return fmt.Sprintf("pod %s is gone", known.Name)
	case now.Spec.NodeName != known.Node:
		return fmt.Sprintf("pod %s has the node %q", known.Name, now.Spec.NodeName)
	case known.Ready && !ready:
		return fmt.Sprintf("pod %s is not Ready", known.Name)
	case known.Ready && g.MinReady > 0 && since > known.ReadySince:
		return fmt.Sprintf("pod %s was not Ready meanwhile", known.Name)
	}
	return ""
}

// ReadySince is since when a pod has been Ready, a Unix time in seconds; nil is none.
func ReadySince(p *corev1.Pod) (since int64, ready bool) {
	if p == nil {
		return 0, false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			since, ready = c.LastTransitionTime.Unix(), c.Status == corev1.ConditionTrue
		}
	}
	return since, ready
}
