// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
)

// maxRequirements bounds a selector, which is part of a URL.
const maxRequirements = 8

// SelectorOf returns labels that all pods of a group have: a list by them has every pod of the group.
func SelectorOf(g *clusterstate.Group) labels.Selector {
	if len(g.Assignments) == 0 {
		return labels.Everything()
	}
	common := maps.Clone(g.Assignments[0].Pod.Labels)
	for i := range g.Assignments {
		of := g.Assignments[i].Pod.Labels
		maps.DeleteFunc(common, func(k, v string) bool { other, there := of[k]; return !there || other != v })
	}
	chosen := labels.Set{}
	for _, k := range slices.Sorted(maps.Keys(common)) {
		if chosen[k] = common[k]; len(chosen) == maxRequirements {
			break
		}
	}
	return chosen.AsSelector()
}

// Mine reports whether a pod belongs to a group of a controller.
func Mine(g *clusterstate.Group, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && string(ref.UID) == g.Key.ID
}

// Differs returns how the pods of a group, which a watch has shown, differ from its live ones in what a decision depends on:
// every replica that counts must be there, on its node and as available as before, and every pod that is there must be known.
// Pods being moved do not count, and as many new ones may be their replacements. It returns "" for nothing.
func Differs(g *clusterstate.Group, moving map[types.UID]bool, live []corev1.Pod) string {
	there := make(map[types.UID]*corev1.Pod, len(live))
	for i := range live {
		if p := &live[i]; p.DeletionTimestamp == nil && !pods.Finished(p) && !moving[p.UID] {
			there[p.UID] = p
		}
	}
	for i := range g.Assignments {
		known := g.Assignments[i].Pod
		if moving[known.UID] {
			continue
		}
		if what := changedSince(g, known, there[known.UID]); what != "" {
			return what
		}
		delete(there, known.UID)
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
	since, ready := readySince(now)
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

// readySince is since when a pod has been Ready, a Unix time in seconds; nil is none.
func readySince(p *corev1.Pod) (since int64, ready bool) {
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
