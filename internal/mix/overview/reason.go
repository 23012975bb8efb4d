// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// The states of a workload that follow from its pods. Where the controller has reported why it moves no replica, the state is its reason.
const (
	// ReasonUnknown is the state of a workload of which it is unknown whether it satisfies its mix.
	ReasonUnknown   = "Unknown"
	stateExact      = "Exact"
	stateMoving     = "Moving"
	stateWrongType  = "WrongType"
	statePending    = "Pending"
	stateDeparting  = "Departing"
	stateRollingOut = "RollingOut"
	stateScaling    = "Scaling"
)

// Why is why a workload does not satisfy its mix, "" if it does: the reason of the controller with its message, or what its pods lack.
func (w *Workload) Why() string {
	switch w.Reason {
	case stateMoving, stateWrongType, statePending, stateDeparting, stateRollingOut, stateScaling:
		return w.Message
	}
	return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
}

// Hit is the number of replicas that are not where they should be, as far as it is known.
func (w *Workload) Hit() (n int) {
	for _, of := range []Maybe[int]{w.Pending, w.Departing, w.Borrowed} {
		hit, _ := of.Get()
		n += hit
	}
	return n
}

// scheduled is what the scheduler reported of the pods that have no node, by their UID.
type scheduled map[types.UID]string

func scheduledOf(pods []*corev1.Pod) scheduled {
	all := scheduled{}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			all[p.UID] = waitReason(p)
		}
	}
	return all
}

// of is what was reported of the first pod of a replica that has no node, and of which something was reported.
func (s scheduled) of(a *clusterstate.Assignment) string {
	for _, p := range a.Members() {
		if why := s[p.UID]; why != "" && !p.Bound() {
			return why
		}
	}
	return ""
}

// stateOf is the state of a group in a word and, where it does not satisfy its mix, in a sentence. The console, `status` and `top` show it.
// The mix is the CapacityMix of the group, nil for other sources.
func stateOf(g *clusterstate.Group, m *v1alpha1.CapacityMix, s *Standing, unread Unread, why scheduled) (state, sentence string) {
	switch {
	case s.Satisfied.Unknown():
		return ReasonUnknown, ""
	case s.Satisfied.Is(true):
		return stateExact, ""
	}
	report := Report(m, g)
	if report != nil && report.Blocked != nil {
		return display.Inert(report.Blocked.Reason, maxName), display.Inert(report.Blocked.Message, maxMessage)
	}
	state, sentence = lacking(g, s, unread, why)
	if state == stateWrongType && report != nil && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionRebalancing) {
		state = stateMoving
	}
	return state, display.Inert(sentence, maxMessage)
}

// lacking is what a group lacks, as far as it is known: the first of its states, and all of them in a sentence.
func lacking(g *clusterstate.Group, s *Standing, unread Unread, why scheduled) (state, sentence string) {
	var parts []string
	add := func(first string, n int, one, many string) {
		if n <= 0 {
			return
		}
		if state = cmp.Or(state, first); n > 1 {
			one = many
		}
		of := ""
		if len(parts) == 0 {
			of = " of " + display.Count(g.Replicas, PartsOf(g).Replica())
		}
		parts = append(parts, fmt.Sprintf("%d%s %s", n, of, one))
	}
	pending, _, settled := g.Counts()
	without := max(0, g.Replicas-len(g.Assignments))
	wrong, ofUnknownType := wrongType(g, s, unread)
	add(stateWrongType, wrong, "runs on the wrong type", "run on the wrong type")
	add(stateWrongType, ofUnknownType, "runs on a node of unknown type", "run on nodes of unknown type")
	if g.Rollout.Rolling {
		state = cmp.Or(state, stateRollingOut)
	}
	add(statePending, pending-without, "waits for a node", "wait for a node")
	if said, _, _ := strings.Cut(said(g, why), ". "); said != "" { // further sentences are about preemption
		parts[len(parts)-1] += " (" + strings.TrimSuffix(said, ".") + ")"
	}
	add(statePending, without, "has no pod yet", "have no pod yet")
	departing, _ := s.Departing.Get()
	add(stateDeparting, departing, "runs on a node that departs", "run on nodes that depart")
	add(stateScaling, settled-g.Replicas, "is too many", "are too many")
	sentence = strings.Join(parts, ", ") + "."
	if len(parts) == 0 {
		sentence = fmt.Sprintf("%s are there, %d are desired.", display.Count(settled, PartsOf(g).Replica()), g.Replicas)
	}
	if g.Rollout.Rolling {
		sentence += " A rollout is in progress."
	}
	return cmp.Or(state, stateScaling), sentence
}

// wrongType counts the replicas on the wrong type, and of them those on nodes of unknown type apart.
func wrongType(g *clusterstate.Group, s *Standing, unread Unread) (wrong, ofUnknownType int) {
	if unread.Nodes {
		wrong, _ = s.Borrowed.Get()
		return wrong, 0
	}
	for _, a := range g.WrongSide() {
		if a.On == capacity.Unknown {
			ofUnknownType++
		} else {
			wrong++
		}
	}
	return wrong, ofUnknownType
}

// said is what the scheduler reported of the first replica that waits and of which it reported something.
func said(g *clusterstate.Group, why scheduled) string {
	for i := range g.Assignments {
		if a := &g.Assignments[i]; a.Place == clusterstate.Pending {
			if text := why.of(a); text != "" {
				return text
			}
		}
	}
	return ""
}

// Report is what the controller reported about a group, nil if it reported nothing about the current spec of its mix.
func Report(m *v1alpha1.CapacityMix, g *clusterstate.Group) *v1alpha1.WorkloadMix {
	if m == nil || m.Status.ObservedGeneration == 0 || m.Status.ObservedGeneration < m.Generation {
		return nil
	}
	i := slices.IndexFunc(m.Status.Workloads, func(w v1alpha1.WorkloadMix) bool {
		return w.Kind == g.Workload.Kind && w.Name == g.Workload.Name && w.Revision == g.Workload.Revision &&
			w.Role == g.Governing.RoleName
	})
	if i < 0 {
		return nil
	}
	return &m.Status.Workloads[i]
}

// cutSource is the name of the CapacityMix that a source names.
func cutSource(source string) (name string, ok bool) {
	return strings.CutPrefix(source, governing.SourceCapacityMix)
}
