// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/effect"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/rebalance"
)

// PodQuestion is what an explanation is made of.
type PodQuestion struct {
	Cluster *Cluster
	Pod     *corev1.Pod
	// Borrowed is the event that reports that the pod borrowed, nil if there is none any more.
	Borrowed *corev1.Event
	Now      time.Time
	// Room is called only where it matters. The second result ends it.
	Room func() (Room, func(), error)
	// Quarantine returns the interruption domains in quarantine. It is called only where it matters.
	Quarantine func() (*interruptions.Quarantine, error)
}

// explainer gathers the facts about one pod.
type explainer struct {
	PodQuestion
	record *clusterstate.Pod
}

// Explain returns why a pod is on its node.
func Explain(ctx context.Context, q PodQuestion) (*Explanation, error) {
	e := &explainer{PodQuestion: q, record: q.Cluster.State.Pod(q.Pod.Namespace, q.Pod.Name)}
	return e.explain(ctx)
}

func (e *explainer) explain(ctx context.Context) (*Explanation, error) {
	out := &Explanation{Namespace: e.Pod.Namespace, Pod: e.Pod.Name, Limit: limitFacts(e.Cluster, e.Pod), Gate: gateFacts(e.Pod)}
	p, invalid := e.Cluster.State.Resolve(e.record)
	out.Node = e.node()
	if p == nil {
		out.Why = e.ungoverned(invalid)
		return out, nil
	}
	out.Governed = true
	out.Mix = &MixFacts{Source: p.Source, Rule: p.Mix.String()}
	for _, i := range invalid {
		out.Mix.InvalidAnnotations = append(out.Mix.InvalidAnnotations, i.String())
	}
	out.Why = e.limits()
	if !e.record.Live() {
		out.Why = append(out.Why, "It is terminating or finished, so it holds no slot.")
		return out, nil
	}
	g, assignment, ok := e.assignment()
	if !ok {
		return out, nil
	}
	out.Mix.Source, out.Mix.Rule = g.Governing.Source, g.Governing.Mix.String()
	standing := StandingOf(&g, e.Cluster.MixOf(e.Pod.Namespace, g.Governing), e.Cluster.Unread())
	out.Workload = &WorkloadFacts{
		Name: GroupText(&g), Replicas: g.Replicas, Desired: Desired(&g),
		Actual: standing.Actual, Satisfied: standing.Satisfied,
	}
	out.Workload.state, _ = stateOf(&g, nil, &standing, e.Cluster.Unread(), nil)
	out.Group = e.groupFacts(&g, &assignment)
	out.Domains = e.domainFacts(&g, &assignment)
	slot := e.slotOf(&g, assignment)
	out.Slot = &slot
	out.Interrupted = e.interrupted(&g, slot)
	if err := e.place(ctx, out, &g, assignment); err != nil {
		return nil, err
	}
	out.Deletion = e.deletion(&g)
	return out, nil
}

// place adds what follows from where the pod is.
func (e *explainer) place(ctx context.Context, out *Explanation, g *clusterstate.Group, assignment clusterstate.Assignment) (err error) {
	noNodes := e.Cluster.Missing("nodes")
	switch {
	case assignment.Place == clusterstate.Pending && e.record.Bound(): // others of its unit have no node
		out.Why = append(out.Why, out.Group.waits())
	case assignment.Place == clusterstate.Pending:
		out.Pending = pendingFacts(e.Pod, out.Slot.waitsFor(assignment))
	case assignment.Place == clusterstate.Settled && !noNodes:
		if assignment.Borrowed() {
			out.Borrowed = e.borrowing(g, assignment)
		}
		out.Move, err = e.move(ctx, g, assignment)
	case assignment.Place == clusterstate.Departing && !noNodes:
		out.Move = e.departing(g)
	}
	return err
}

func (e *explainer) assignment() (clusterstate.Group, clusterstate.Assignment, bool) {
	for _, g := range e.Cluster.State.Groups(e.Pod.Namespace) {
		for _, s := range g.Assignments {
			if slices.ContainsFunc(s.Members(), e.is) {
				return g, s, true
			}
		}
	}
	return clusterstate.Group{}, clusterstate.Assignment{}, false
}

// is reports whether a record is that of the pod.
func (e *explainer) is(p *clusterstate.Pod) bool { return p.UID == e.Pod.UID }

// ungoverned returns why no mix governs the pod.
func (e *explainer) ungoverned(invalid []governing.InvalidAnnotation) []string {
	if !governing.Governable(e.Pod) {
		if _, mirror := e.Pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			return []string{"It is the mirror of a static pod, which belongs to its node."}
		}
		if _, holds := e.Pod.Labels[v1alpha1.PlaceholderLabel]; holds {
			return []string{"It is a placeholder: it reserves capacity for a replica that will be moved, or makes an autoscaler provide it."}
		}
		if _, released := pods.ReleasedFrom(e.Pod); released {
			return []string{"It was released from its ReplicaSet, and is evicted once its replacement is available."}
		}
		return []string{"It is a pod of a DaemonSet, which belongs to its node."}
	}
	var why []string
	for _, i := range invalid {
		why = append(why, fmt.Sprintf("Ignored: %s.", i))
	}
	if e.Cluster.Missing(MixesResource) {
		why = append(why, "The CapacityMixes of the namespace could not be read.")
	} else {
		why = append(why, fmt.Sprintf("No CapacityMix in namespace %s selects its labels (%s).", e.Pod.Namespace, labels.Set(e.Pod.Labels)))
	}
	why = append(why, "Neither the pod nor its controller has the annotation "+v1alpha1.SpotPercentAnnotation+".")
	if e.Cluster.Berths(e.Pod.Spec.SchedulerName) {
		why = append(why, fmt.Sprintf("Profile %s has no default mix (configuration: %s).", e.Pod.Spec.SchedulerName, e.Cluster.Source))
	}
	if e.record.Pinned {
		why = append(why, "It names a capacity type in its own nodeSelector or affinity.")
	}
	if s := e.Pod.Spec.SchedulerName; !e.Cluster.Berths(s) {
		why = append(why, fmt.Sprintf("It is scheduled by %s, not by berth-scheduler.", s))
	}
	return why
}

// limits are why a mix does not steer a pod that it governs.
func (e *explainer) limits() []string {
	var why []string
	if e.record.Pinned {
		by := ""
		if writer := effect.PinWriter(e.Pod); writer != "" {
			by = ", which " + writer + " wrote"
		}
		why = append(why, "It names a capacity type in its own nodeSelector or affinity"+by+
			": it counts towards the mix, but Berth does not choose the type of its node.")
	}
	if s := e.Pod.Spec.SchedulerName; !e.Cluster.Berths(s) && !e.record.UsesGate {
		why = append(why, fmt.Sprintf("Its schedulerName is %s, which does not apply the mix: it counts towards the mix, but Berth does not choose the type of its node.", s))
	}
	return why
}

func (e *explainer) node() *NodeFacts {
	if e.record.Node == "" {
		return nil
	}
	n := e.Cluster.State.Node(e.record.Node)
	if e.Cluster.Missing("nodes") {
		return &NodeFacts{Name: n.Name}
	}
	facts := &NodeFacts{Name: n.Name, Type: Known(n.Type.String()), Rule: n.Rule, Domain: n.Domain, Departing: n.Departing}
	rule, ok := e.Cluster.Rule(n.Rule)
	if !ok {
		return facts
	}
	facts.Label = "no label " + rule.Key
	for _, o := range e.Cluster.Nodes {
		if value, there := o.Labels[rule.Key]; o.Name == n.Name && there {
			facts.Label = "label " + rule.Key + "=" + value
		}
	}
	return facts
}

// slotFrom returns the origin of an assignment's slot.
func (e *explainer) slotFrom(g *clusterstate.Group, assignment clusterstate.Assignment) string {
	claimed, ok := governing.ClaimedSlot(e.Pod)
	switch {
	case g.Identity:
		return "identity"
	case e.record.Gated:
		return "gate"
	case ok && claimed == assignment.Slot:
		return "annotation"
	}
	return "count"
}

// unscheduled is the condition that has the reason why a pod has no node, nil if there is none.
func unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

func pendingFacts(pod *corev1.Pod, waitsFor string) *PendingFacts {
	p := &PendingFacts{WaitsFor: waitsFor}
	if c := unscheduled(pod); c != nil {
		p.Reason, p.Message = c.Reason, c.Message
	}
	return p
}

func (e *explainer) borrowing(g *clusterstate.Group, assignment clusterstate.Assignment) *BorrowFacts {
	if e.Borrowed != nil {
		return &BorrowFacts{Since: EventTime(e.Borrowed), By: "Event", Why: e.Borrowed.Message}
	}
	b := &BorrowFacts{Since: ptr.Deref(e.Pod.Status.StartTime, e.Pod.CreationTimestamp), By: "PodStart"}
	written := e.Pod.Annotations[v1alpha1.CapacityTypeAnnotation]
	switch {
	case assignment.On == capacity.Unknown:
		b.Why = "the type of its node is unknown, which satisfies no slot"
	case e.fellBack():
		b.Why = fmt.Sprintf("no %s nodes became available, so it was limited to %s before it was scheduled", assignment.Wants,
			assignment.On)
	case e.Pod.Annotations[v1alpha1.UngateReasonAnnotation] == v1alpha1.UngateReasonNoLeader:
		b.Why = "no scheduler was leading when it was created, so its scheduling gate was released without a slot"
	case !e.Cluster.Berths(e.Pod.Spec.SchedulerName) && !e.record.UsesGate:
		b.Why = fmt.Sprintf("scheduler %s, which does not apply the mix, placed it", e.Pod.Spec.SchedulerName)
	case written == assignment.On.String():
		b.Why = fmt.Sprintf("the mix changed after it was placed, when its slot was %s", written)
	case written == "":
		b.Why = "it was placed without a slot, before the mix governed it"
	default:
		b.Why = fmt.Sprintf("no %s node had capacity when it was scheduled", assignment.Wants)
		if _, allowed := g.Governing.MayBorrow(assignment.Wants); !allowed {
			b.Why += ", and the mix allowed borrowing then"
		}
	}
	return b
}

// move calls the rebalancer, with what the controller reported of the workload.
func (e *explainer) move(ctx context.Context, g *clusterstate.Group, assignment clusterstate.Assignment) (*MoveFacts, error) {
	m := e.Cluster.MixOf(e.Pod.Namespace, g.Governing)
	settings, err := e.Cluster.RebalanceSettings(g.Governing, m)
	if err != nil {
		return nil, err
	}
	in := PlanInput(*g, settings, e.Cluster.Budgets[e.Pod.Namespace], e.Cluster.Profile.SchedulerNames, e.Cluster.scaleOf(ctx, g), e.Now)
	in.Cluster.Pauses = e.Cluster.pausesOver(ctx, g)
	remember(&in.History, Report(m, g))
	whole := rebalance.Choose(in)
	out := &MoveFacts{WorkloadReason: whole.Reason.String(), WorkloadMessage: whole.Message}
	if m != nil {
		out.Controller = ReportOf(m)
	}
	next := whole.Reason == rebalance.ReasonMove &&
		slices.ContainsFunc(assignment.Members(), func(p *clusterstate.Pod) bool { return p.UID == whole.Pod.UID })
	out.WrongSide = slices.ContainsFunc(g.WrongSide(), func(s clusterstate.Assignment) bool { return s.ID == assignment.ID })
	v := whole
	switch {
	case next: // also in place of one on the wrong side
	case out.WrongSide:
		v = VerdictAbout(in, assignment)
	default:
		out.Reason = rebalance.ReasonOnTarget.Name
		return out, nil
	}
	if v.Reason == rebalance.ReasonMove {
		if err := e.prove(ctx, in, assignment.Members(), &v, out); err != nil {
			return nil, err
		}
	}
	v = in.Effect(v)
	out.Reason, out.Message = v.Reason.String(), v.Message
	if next && (v.Reason == rebalance.ReasonInsufficientCapacity || v.Reason == rebalance.ReasonProvisioning) {
		out.WorkloadReason, out.WorkloadMessage = out.Reason, out.Message // Choose does not request capacity
	}
	return out, nil
}

// departing is what the controller reported about the workload of a pod on a node that departs, nil for nothing: only the controller
// proves that the replacement has a place.
func (e *explainer) departing(g *clusterstate.Group) *MoveFacts {
	m := e.Cluster.MixOf(e.Pod.Namespace, g.Governing)
	report := Report(m, g)
	if report == nil || report.Blocked == nil {
		return nil
	}
	reason, message := display.Inert(report.Blocked.Reason, maxName), display.Inert(report.Blocked.Message, maxMessage)
	return &MoveFacts{
		Departs: true, Reason: reason, Message: message, WorkloadReason: reason, WorkloadMessage: message, Controller: ReportOf(m),
	}
}

// remember takes over what the controller reported of a workload, if it did.
func remember(h *rebalance.History, report *v1alpha1.WorkloadMix) {
	if report == nil {
		return
	}
	h.Failures = report.FailedMoves
	if report.MixNotSatisfiedSince != nil {
		h.WrongSince = report.MixNotSatisfiedSince.Time
	}
	if report.RetryTime != nil {
		h.RetryAt = report.RetryTime.Time
	}
}

// prove checks with the scheduler's filters whether the replacement would find a node, and those of the others of its unit.
func (e *explainer) prove(ctx context.Context, in *rebalance.Input, members []*clusterstate.Pod, v *rebalance.Verdict,
	out *MoveFacts,
) error {
	room, done, err := e.Room()
	if apierrors.IsForbidden(err) {
		v.Message += " (cannot check whether a node has capacity: " + err.Error() + ")"
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	proof, err := room.Prove(ctx, members, v.Target)
	if err != nil {
		return err
	}
	if !proof.Fits {
		*v = InsufficientCapacity(in, *v, proof.Why)
	}
	if i := slices.IndexFunc(members, e.is); i >= 0 && i < len(proof.Nodes) {
		out.Node = proof.Nodes[i]
	}
	return nil
}

// deletion returns when a scale-down removes the pod.
func (e *explainer) deletion(g *clusterstate.Group) string {
	ref, set := metav1.GetControllerOf(e.Pod), governing.SetOf(e.Pod)
	switch {
	case set != nil && set.Index != "":
		return fmt.Sprintf("the %s removes the highest number in the label %s first", set.Kind, set.Index)
	case set != nil:
		return ""
	case ref == nil:
		return "never: the pod has no controller"
	case ref.Kind == "StatefulSet":
		return "the StatefulSet removes the highest ordinal first"
	case ref.Kind != "ReplicaSet":
		return ""
	}
	return e.byCost(g)
}

// byCost is when a ReplicaSet removes the pod.
func (e *explainer) byCost(g *clusterstate.Group) string {
	if !e.record.Bound() || !e.record.Ready {
		return "before the Ready pods of its revision"
	}
	mine := cost(e.Pod.Annotations)
	before := 0
	for _, s := range g.Assignments {
		for _, p := range s.Members() {
			if p.Ready && cost(p.AllAnnotations()) < mine {
				before++
			}
		}
	}
	when := fmt.Sprintf("after %s of its revision", display.Count(before, "pod"))
	if before == 0 {
		when = "first of its revision"
	}
	return fmt.Sprintf("%s (deletion cost %d%s); pods that are pending or not Ready are removed before all others", when, mine,
		e.costOrigin(g, mine))
}

// costOrigin is why the deletion cost of the pod is not that of its slot, "" if it is.
func (e *explainer) costOrigin(g *clusterstate.Group, mine int) string {
	if g.Governing.RespectCosts {
		return ", which Berth leaves to others: deletionCost is Respect"
	}
	slot, ok := governing.ClaimedSlot(e.Pod)
	switch {
	case !ok || mine == -slot:
		return ""
	case e.record.CostOrigin == clusterstate.CostOfUser:
		return ", which the user set and Berth does not change"
	case e.record.CostOverwritten():
		return ", which another client wrote and the controller restores"
	}
	return ", which the controller changes to that of the slot"
}

// cost is the deletion cost of a pod; one that cannot be read is 0, as for the ReplicaSet controller.
func cost(annotations map[string]string) int {
	n, err := strconv.Atoi(annotations[v1alpha1.PodDeletionCostAnnotation])
	if err != nil {
		return 0
	}
	return n
}

// triedSlot is what the scheduler writes about nodes of the wrong type (plugins/capacitymix/filter.go).
var triedSlot = regexp.MustCompile(`\bslot (\d{1,7}) needs (spot|on-demand)\b`)

// slotOf is the slot of an assignment and its origin. A pending pod without a slot of its own has the one that the scheduler tried last:
// the ledger of the scheduler has the pods that wait, and by age alone another one may come out.
func (e *explainer) slotOf(g *clusterstate.Group, assignment clusterstate.Assignment) SlotFacts {
	s := SlotFacts{Number: assignment.Slot, Type: assignment.Wants.String(), From: e.slotFrom(g, assignment)}
	c := unscheduled(e.Pod)
	if c == nil || s.From != "count" || assignment.Place != clusterstate.Pending {
		return s
	}
	tried := triedSlot.FindStringSubmatch(c.Message)
	if tried == nil {
		return s
	}
	n, err := strconv.Atoi(tried[1])
	if err != nil || g.Governing.Mix.TypeOf(n).String() != tried[2] { // the mix has changed since
		return s
	}
	return SlotFacts{Number: n, Type: tried[2], From: "scheduler"}
}

// waitsFor is the type of node that a pending pod needs.
func (s SlotFacts) waitsFor(assignment clusterstate.Assignment) string {
	if s.From == "scheduler" {
		return s.Type
	}
	return assignment.On.String()
}
