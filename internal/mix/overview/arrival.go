// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Arrival is when the pods of a replica were created, bound and available: for a replica of several pods, the first of them was created,
// and the last of them was bound and will be available. Times that are not known, or have not come, are zero.
type Arrival struct {
	Created, Bound time.Time
	// Available is in the future for a replica that is Ready, and not for minReadySeconds yet.
	Available time.Time
	// Lacks is why a replica that has its node is not Ready, "" where it is not known.
	Lacks string
}

// arrival is that of a replica of a group.
func (b *builder) arrival(g *clusterstate.Group, a *clusterstate.Assignment) (arrived Arrival) {
	pods := a.Members()
	for _, p := range pods {
		if created := time.Unix(0, p.Created); arrived.Created.IsZero() || created.Before(arrived.Created) {
			arrived.Created = created
		}
	}
	waits := func(p *clusterstate.Pod) bool { return !p.Bound() || b.pods[p.UID] == nil }
	if a.Size() > len(a.Pods) || slices.ContainsFunc(pods, waits) {
		return arrived
	}
	for _, p := range pods {
		if at := boundAt(b.pods[p.UID]); at.After(arrived.Bound) {
			arrived.Bound = at
		}
		if !p.Ready && arrived.Lacks == "" {
			arrived.Lacks = display.Inert(unready(b.pods[p.UID]), maxMessage)
		}
	}
	arrived.Available = availableAt(g, a)
	return arrived
}

// availableAt is when a replica is available whose pods stay Ready, zero if one of them is not.
func availableAt(g *clusterstate.Group, a *clusterstate.Assignment) (at time.Time) {
	if _, ready := g.AllAvailableAt(a); !ready {
		return time.Time{}
	}
	for _, p := range a.Members() {
		if since := time.Unix(p.ReadySince, 0); since.After(at) {
			at = since
		}
	}
	return at.Add(max(0, g.MinReady))
}

// boundAt is when a pod was bound, zero if it does not have that.
func boundAt(p *corev1.Pod) time.Time {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// unready is why a pod is not Ready: what its first container that does not run waits for, or what its condition has.
func unready(p *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if w := statuses[i].State.Waiting; w != nil && w.Reason != "" {
				return strings.TrimSuffix("container "+statuses[i].Name+": "+w.Reason+": "+w.Message, ": ")
			}
		}
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Message
		}
	}
	return ""
}

// podsByUID are pods by their UID.
func podsByUID(pods []*corev1.Pod) map[types.UID]*corev1.Pod {
	all := make(map[types.UID]*corev1.Pod, len(pods))
	for _, p := range pods {
		all[p.UID] = p
	}
	return all
}
