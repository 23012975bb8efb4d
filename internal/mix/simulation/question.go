// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/policies/reservations"
)

// ErrUnknownScheduler means that no profile has the pod's scheduler name.
var ErrUnknownScheduler = errors.New("no profile for the pod's scheduler")

// Question is whether the replacement of a pod would be scheduled.
type Question struct {
	// Pod is the live pod whose replacement is simulated, without the fields that were set when it was scheduled and
	// run.
	Pod *corev1.Pod
	// Next is the pod that its owner will create, where that is known; nil means a pod like Pod.
	Next *corev1.Pod
	// Gone are the pods that are treated as deleted: Pod itself if it is evicted first, and other moves in progress.
	Gone []types.UID
	// Nodes selects the nodes that are candidates, such as those of a capacity type. Nil means all. It is called with
	// stripped nodes, without images, addresses and the like.
	Nodes func(*corev1.Node) bool
	// Wants and Tolerations apply to the replacement of a pod with the scheduling gate: it is limited to the type of
	// its slot and gets the mix's tolerations of that type. For other pods they are ignored.
	Wants       capacity.Type
	Tolerations []corev1.Toleration
	// Confined is the group of the replica, nil unless its mix limits how many replicas are in one domain.
	Confined *Confined
	// Quarantine is the interruption domains whose spot nodes a replacement with a spot slot avoids, nil unless the mix of the replica
	// requires that, and where it has the scheduling gate, allows it to fall back. It applies to spot slots.
	Quarantine *interruptions.Quarantine
}

// next is the pod that is simulated.
func (q *Question) next() *corev1.Pod {
	if q.Next != nil {
		return q.Next
	}
	return q.Pod
}

// Answer is the node on which the pod would be scheduled, or why there is none.
type Answer struct {
	// Fits is true if a node is feasible.
	Fits bool
	// Node is the first feasible node by name.
	Node string
	// Candidates is the number of candidate nodes.
	Candidates int
	// Reasons counts the candidates by the scheduler's reasons for rejecting them. A node can have several. If a node
	// is feasible, Reasons has those of the nodes before it.
	Reasons map[string]int
	// Skipped lists what the scheduler runs and a replay cannot.
	Skipped []string

	// rejected is the reason for which the pod as a whole was rejected, if it was.
	rejected string
}

// Message returns the answer in one line, like the scheduler in the pod's events.
func (a Answer) Message() string {
	switch {
	case a.Fits:
		return "node " + a.Node + " fits."
	case a.Candidates == 0:
		return "no node is a candidate."
	case a.rejected != "":
		return fmt.Sprintf("0/%d nodes are available: %s.", a.Candidates, a.rejected)
	}
	reasons := make([]string, 0, len(a.Reasons))
	for reason, nodes := range a.Reasons {
		reasons = append(reasons, fmt.Sprintf("%d %s", nodes, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s.", a.Candidates, strings.Join(reasons, ", "))
}

// fits answers a question by the pods that are known. s.mu is held.
func (s *Snapshot) fits(ctx context.Context, q Question) (Answer, error) {
	if s.frameworks == nil {
		return Answer{}, errors.New("the snapshot is closed")
	}
	next := q.next()
	name := next.Spec.SchedulerName
	f, known := s.frameworks[name]
	if !known || s.profile.stock && name == corev1.DefaultSchedulerName && !gate.Made(next) {
		return Answer{}, fmt.Errorf("pod %s/%s, scheduler %q: %w", q.Pod.Namespace, q.Pod.Name, name, ErrUnknownScheduler)
	}
	gone := make(map[types.UID]bool, len(q.Gone))
	for _, uid := range q.Gone {
		gone[uid] = true
	}
	pod := s.profile.replacement(q)
	if err := s.distinguish(pod); err != nil {
		return Answer{}, err
	}
	undo := s.replaceClaims(q.Pod, pod, gone)
	defer undo()
	s.view.state = s.base.without(gone)
	defer func() { s.view.state = s.base }()
	a := Answer{Reasons: map[string]int{}, Skipped: s.profile.replays[name].skipped}
	own := rules{size: s.size(pod), held: s.heldForOthers(pod), domains: s.filled(q.Confined, q.Pod.UID, gone, nil)}
	candidates := s.view.candidates(q.Nodes)
	own.quarantine = s.profile.avoided(&q, pod, own.domains, candidates)
	own.reasons = own.quarantine.Reasons()
	if err := a.find(quiet(ctx), f, pod, own, candidates); err != nil {
		return Answer{}, fmt.Errorf("replay pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, err)
	}
	return a, nil
}

// rules are those of Berth's own plugins for a pod.
type rules struct {
	size       sized
	held       *reservations.Attempt
	domains    []filled
	quarantine *interruptions.Quarantine
	reasons    interruptions.Reasons
}

// find filters nodes until one is feasible.
func (a *Answer) find(ctx context.Context, f framework.Framework, pod *corev1.Pod, own rules, nodes []fwk.NodeInfo) error {
	a.Candidates = len(nodes)
	switch {
	case len(nodes) == 0:
		return nil
	case own.size.rejected != "":
		a.reject(own.size.rejected)
		return nil
	}
	cycle := framework.NewCycleState()
	narrowed, status, by := f.RunPreFilterPlugins(ctx, cycle, pod)
	switch {
	case status.IsRejected():
		a.reject(status.Message())
		return nil
	case !status.IsSuccess():
		return status.AsError()
	}
	elsewhere := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by))
	for _, node := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(node.Node().Name) {
			a.Reasons[elsewhere]++
			continue
		}
		if fits, err := a.try(ctx, f, cycle, pod, own, node); fits || err != nil {
			return err
		}
	}
	return nil
}

// try runs the filters for one node.
func (a *Answer) try(
	ctx context.Context, f framework.Framework, cycle fwk.CycleState, pod *corev1.Pod, own rules, node fwk.NodeInfo,
) (fits bool, err error) {
	name := node.Node().Name
	if limit := own.size.limit; limit != nil && !limit.Matches(node.Node()) {
		a.Reasons[limit.NodeReason()]++
		return false, nil
	}
	if reason := heldForOthersOn(node, own.held); reason != "" {
		a.Reasons[reason]++
		return false, nil
	}
	if r, refused := own.quarantine.Refuse(node.Node().Labels); refused {
		a.Reasons[own.reasons.Of(r)]++
		return false, nil
	}
	if reason := refuses(own.domains, node.Node()); reason != "" {
		a.Reasons[reason]++
		return false, nil
	}
	status := f.RunFilterPluginsWithNominatedPods(ctx, cycle, pod, node)
	switch {
	case status.IsSuccess():
		a.Fits, a.Node = true, name
		return true, nil
	case !status.IsRejected():
		return false, fmt.Errorf("node %s: %w", name, status.AsError())
	}
	for _, reason := range status.Reasons() {
		a.Reasons[reason]++
	}
	return false, nil
}

// candidates returns the candidate nodes, ordered by name.
func (v *view) candidates(counts func(*corev1.Node) bool) []fwk.NodeInfo {
	if counts == nil {
		return v.nodes
	}
	var out []fwk.NodeInfo
	for _, n := range v.nodes {
		if counts(n.Node()) {
			out = append(out, n)
		}
	}
	return out
}

// replacement returns the pod of a question. The replacement of a pod with the scheduling gate has the gate again, so
// it does not have the fields that the scheduler set when it removed the old gate. The tolerations of the old type
// cannot be distinguished from the pod's own, and stay: they make no node infeasible.
func (p *Profile) replacement(q Question) *corev1.Pod {
	next := q.next()
	out := replacement(next)
	if !gate.Made(next) || p.Label.Key == "" || q.Wants == capacity.Unknown {
		return out
	}
	if _, ungated := gate.LimitedTo(next); ungated {
		gate.Unrequire(&out.Spec, next)
		p.Label.Unlimit(&out.Spec)
	}
	p.Label.Limit(&out.Spec, q.Wants)
	gate.Tolerate(&out.Spec, q.Tolerations)
	return out
}

// replacement returns the pod as its controller will create it. Claims in its spec, as those of a StatefulSet, are
// kept. No filter reads its name.
func replacement(p *corev1.Pod) *corev1.Pod {
	out := p.DeepCopy()
	out.UID = uuid.NewUUID()
	out.ResourceVersion, out.DeletionTimestamp, out.DeletionGracePeriodSeconds = "", nil, nil
	out.ManagedFields = nil
	out.Spec.NodeName = ""
	out.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return out
}
