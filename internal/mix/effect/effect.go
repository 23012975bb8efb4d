// SPDX-License-Identifier: Apache-2.0

// Package effect determines on which of the pods that it governs a mix has no effect: those of groups of one replica, and those that
// name their capacity type themselves.
package effect

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// OfOne are groups of one replica each, whose controllers are of one kind.
type OfOne struct {
	// Kind is that of the controllers.
	Kind   schema.GroupKind
	Groups int
	// ByController is set where the mix itself has each controller on its own, so that no list of kinds counts.
	ByController bool
}

// Remedy is what changes it, in words.
func (o OfOne) Remedy() string {
	const remedy = "set spec.group: Selector"
	if o.ByController || o.Kind.Group == "apps" {
		return remedy
	}
	return remedy + ", or add the kind to onePodKinds"
}

// String is one sentence without its end.
func (o OfOne) String() string {
	return fmt.Sprintf("%d groups of kind %s have one replica each, which the mix gives no spot slot", o.Groups, o.Kind.Kind)
}

// GroupsOfOne returns the kind of which one mix governs the most groups with one controller and one replica each, which never run on
// spot. ok is false where it governs fewer than two groups of each kind.
func GroupsOfOne(groups iter.Seq[*clusterstate.Group]) (most OfOne, ok bool) {
	type named struct {
		controller, workload schema.GroupKind
		name                 string
	}
	counted := map[named]bool{}
	counts := map[schema.GroupKind]int{}
	for g := range groups {
		kind, one := ofOne(g)
		// The revisions of a Deployment are one workload.
		w := named{kind, schema.FromAPIVersionAndKind(g.Workload.APIVersion, g.Workload.Kind).GroupKind(), g.Workload.Name}
		if !one || counted[w] {
			continue
		}
		counted[w] = true
		counts[kind]++
		most.ByController = g.Governing.Grouping.By == governing.ByController
	}
	for kind, n := range counts {
		if n > most.Groups || n == most.Groups && kind.String() < most.Kind.String() {
			most.Kind, most.Groups = kind, n
		}
	}
	return most, most.Groups > 1
}

// ofOne returns the kind of the controller of a group that has one replica, which is always on-demand although the mix has spot slots.
// The groups of a rollout have one replica for a moment only.
func ofOne(g *clusterstate.Group) (kind schema.GroupKind, ok bool) {
	m := g.Governing
	switch {
	case m.Grouping.By != governing.ByDefault && m.Grouping.By != governing.ByController, m.RoleName != "":
	case m.Mix.SpotPercent == 0, m.Mix.MaxSpot == 0, m.Mix.Spot(1) > 0:
	case g.Owners != 1, g.Replicas != 1, g.Rollout.Rolling, g.Key.Owner() == "", len(g.Assignments) == 0:
	case g.Assignments[0].Pod.Owner != nil:
		ref := g.Assignments[0].Pod.Owner
		return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), true
	}
	return kind, false
}

// Pins are the pods of a mix that name a capacity type themselves.
type Pins struct {
	// Pods are all, Pinned those that name a type, and Kueue those of them that Kueue manages.
	Pods, Pinned, Kueue int
}

// String is one sentence without its end: how many pods there are, who pinned them, and what the mix decides.
func (p Pins) String() string {
	text := fmt.Sprintf("pods that name a capacity type themselves: %d of %d", p.Pinned, p.Pods)
	if p.Kueue > 0 {
		text += fmt.Sprintf(", of which Kueue manages %d: the flavor of their quota decides their type", p.Kueue)
	}
	if rest := p.Pods - p.Pinned; rest > 0 {
		return text + fmt.Sprintf("; the mix counts them and decides the type of the other %d", rest)
	}
	return text + "; the mix counts them and decides nothing"
}

// PinsOf counts the pods of some groups.
func PinsOf(groups iter.Seq[*clusterstate.Group]) (p Pins) {
	for g := range groups {
		for i := range g.Assignments {
			for _, pod := range g.Assignments[i].Members() {
				p.Pods++
				if !pod.Pinned {
					continue
				}
				if p.Pinned++; ByKueue(pod.Labels) {
					p.Kueue++
				}
			}
		}
	}
	return p
}

// Labels of the pods that Kueue manages: one that users set on pods, and one that Kueue sets in the pod templates of a job that it
// starts. Source: the constants of sigs.k8s.io/kueue, read on 2026-11-29.
const (
	kueueQueue  = "kueue.x-k8s.io/queue-name"
	kueuePodSet = "kueue.x-k8s.io/podset"
)

// ByKueue reports whether Kueue manages a pod with these labels, and so adds the labels of a flavor to its nodeSelector.
func ByKueue(labels map[string]string) bool {
	return labels[kueueQueue] != "" || labels[kueuePodSet] != ""
}

// Fields of a pod that name its type, and one of the manager that created it, in managedFields.
var (
	pinFields    = [][]byte{[]byte(`"f:nodeSelector"`), []byte(`"f:nodeAffinity"`)}
	createdField = []byte(`"f:containers"`)
)

// PinWriter names who wrote the nodeSelector or the node affinity of a pod: Kueue, the field manager that changed the pod after it was
// created, or "" for its template or what no field shows.
func PinWriter(pod *corev1.Pod) string {
	if ByKueue(pod.Labels) {
		return "Kueue"
	}
	var managers []string
	for i := range pod.ManagedFields {
		e := &pod.ManagedFields[i]
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		fields := e.FieldsV1.GetRawBytes()
		names := slices.ContainsFunc(pinFields, func(f []byte) bool { return bytes.Contains(fields, f) })
		if names && !bytes.Contains(fields, createdField) {
			managers = append(managers, e.Manager)
		}
	}
	slices.SortFunc(managers, cmp.Compare)
	if len(managers) == 0 {
		return ""
	}
	return managers[0]
}
