// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/mix/capacity"
)

// maxNamed is how many domains the reasons for a pod name. The condition of a pod has all reasons.
const maxNamed = 8

// ReasonOthers is the reason for spot nodes of further domains in quarantine.
const ReasonOthers = "node(s) are in other interruption domains in quarantine"

// Quarantine is the interruption domains that are in quarantine at one moment. Immutable; nil has none.
type Quarantine struct {
	// Keys are the node labels whose values identify a domain.
	Keys []string
	// Until has the ends of the quarantines, by domain.
	Until map[string]time.Time
}

// Refusal is why a spot node takes no pod with a spot slot whose mix avoids interrupted domains.
type Refusal struct {
	Domain string
	Until  time.Time
}

// Reasons are the reasons for which a scheduler refuses nodes, by domain. Equal ones are counted together.
type Reasons map[string]string

// Reasons returns the reasons for the first domains by name. Which domains have one does not depend on the order of nodes, so that the
// condition of a pod changes with the quarantine only.
func (q *Quarantine) Reasons() Reasons {
	if q == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(q.Until))
	reasons := Reasons{}
	for _, name := range names[:min(len(names), maxNamed)] {
		reasons[name] = fmt.Sprintf("node(s) are in interruption domain %s, which is in quarantine until %s",
			name, q.Until[name].UTC().Format(time.RFC3339))
	}
	return reasons
}

// Of returns the reason for a node.
func (r Reasons) Of(refusal Refusal) string {
	if reason, named := r[refusal.Domain]; named {
		return reason
	}
	return ReasonOthers
}

// Refuse returns why a spot node with these labels takes no such pod, if it is in a domain in quarantine.
func (q *Quarantine) Refuse(labels map[string]string) (r Refusal, refused bool) {
	if q == nil || len(q.Until) == 0 {
		return Refusal{}, false
	}
	var buffer [64]byte
	name := capacity.AppendDomain(buffer[:0], labels, q.Keys)
	until, in := q.Until[string(name)]
	if !in {
		return Refusal{}, false
	}
	return Refusal{Domain: string(name), Until: until}, true
}

// Outside reports whether a spot node with these labels is in no domain in quarantine.
func (q *Quarantine) Outside(labels map[string]string) bool {
	_, refused := q.Refuse(labels)
	return !refused
}

// Sparing returns the quarantine as it applies to a pod: not at all if no node is left to the pod otherwise. Nodes are the labels of the
// spot nodes that the pod could use. Those in quarantine may be missing.
func (q *Quarantine) Sparing(nodes iter.Seq[map[string]string]) *Quarantine {
	if q == nil || len(q.Until) == 0 {
		return nil
	}
	for labels := range nodes {
		if q.Outside(labels) {
			return q
		}
	}
	return nil
}

// Usable returns a function that reports whether a node takes pods, would have room for a pod without any other pods, is one that the pod
// selects, and has no taint that the pod does not tolerate. It does not regard free capacity, volumes or other pods. comparison is set
// where tolerations with the operators Gt and Lt count.
func Usable(pod *corev1.Pod, comparison bool) func(*corev1.Node) bool {
	selects := nodeaffinity.GetRequiredNodeAffinity(pod)
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return func(node *corev1.Node) bool {
		if !capacity.Accepting(node) || !holds(node.Status.Allocatable, requests) {
			return false
		}
		if match, err := selects.Match(node); err != nil || !match {
			return false
		}
		_, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
			func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, comparison)
		return !repelled
	}
}

// holds reports whether a node without pods has room for one with these requests, as the filter NodeResourcesFit counts.
func holds(allocatable, requests corev1.ResourceList) bool {
	if allocatable.Pods().Value() < 1 {
		return false
	}
	for name, requested := range requests {
		if has := allocatable[name]; !requested.IsZero() && has.Cmp(requested) < 0 {
			return false
		}
	}
	return true
}
