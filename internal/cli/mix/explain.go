// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/decisions"
	"berth.dev/berth/internal/cli/history"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/internal/policies/decision"
)

const aboutExplain = `Shows why a pod is on its node: the mix that governs it, its slot and the type of that slot, the type of its node and the label that
determines it, why it is borrowed, what would move it, and when a scale-down removes it; also its ResourceLimit, whether the pod is within it, and
how many nodes match it. The reason follows in a sentence.

With --scores it also shows how berth-scheduler decided in its last attempts to schedule the pod, as far as the SchedulingPolicy of the pod records
them (spec.decisions.record): the scores of the best nodes, or why all nodes were rejected. It forwards a port to the leading berth-scheduler, which
requires the verbs get on leases and create on pods/portforward in the namespace of Berth. The scheduler serves the records of pods that you may get.`

// Explanation is what `explain` shows.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Governed is set where a mix decides about the pod's place; Why is why not, or what limits it.
	Governed bool           `json:"governed"`
	Why      []string       `json:"why,omitempty"`
	Mix      *Facts         `json:"mix,omitempty"`
	Workload *WorkloadFacts `json:"workload,omitempty"`
	// Gate is what became of the pod's scheduling gate, nil for a pod that was made without it.
	Gate     *GateFacts    `json:"gate,omitempty"`
	Slot     *SlotFacts    `json:"slot,omitempty"`
	Node     *NodeFacts    `json:"node,omitempty"`
	Borrowed *BorrowFacts  `json:"borrowed,omitempty"`
	Pending  *PendingFacts `json:"pending,omitempty"`
	Move     *MoveFacts    `json:"move,omitempty"`
	// Limit is the pod's ResourceLimit, nil if it has none.
	Limit *LimitFacts `json:"limit,omitempty"`
	// Deletion describes when a scale-down removes the pod.
	Deletion string `json:"deletion,omitempty"`
	// Decisions are records of scheduling attempts, newest first, if they were requested.
	Decisions []*decision.Record `json:"decisions,omitempty"`
}

// Facts are where a pod's mix comes from.
type Facts struct {
	Source string `json:"source"`
	Rule   string `json:"rule"`
	// InvalidAnnotations could not be read and do not count.
	InvalidAnnotations []string `json:"invalidAnnotations,omitempty"`
}

// WorkloadFacts are the state of the pod's group.
type WorkloadFacts struct {
	Name     string         `json:"name"`
	Replicas int            `json:"replicas"`
	Desired  overview.Split `json:"desired"`
	// Actual and Satisfied are null where they are unknown.
	Actual    overview.Maybe[overview.Split] `json:"actual"`
	Satisfied overview.Maybe[bool]           `json:"satisfied"`
	// state is why it is not satisfied.
	state string
}

// SlotFacts are the pod's slot.
type SlotFacts struct {
	Number int    `json:"number"`
	Type   string `json:"type"`
	// From is the origin of the slot: annotation, identity, scheduler (the slot that it tried last) or count; gate, the origin to come.
	From string `json:"from"`
}

// NodeFacts are what the pod's node is.
type NodeFacts struct {
	Name string `json:"name"`
	// Type is null where the nodes could not be read; "unknown" is a type that a node can have.
	Type      overview.Maybe[string] `json:"type"`
	Rule      string                 `json:"rule,omitempty"`
	Label     string                 `json:"label,omitempty"`
	Domain    string                 `json:"domain,omitempty"`
	Departing string                 `json:"departing,omitempty"`
}

// BorrowFacts are why a pod runs on the other type.
type BorrowFacts struct {
	Since metav1.Time `json:"since"`
	// By is Event, or PodStart where there is no event any more.
	By  string `json:"by"`
	Why string `json:"why"`
}

// PendingFacts are what a pod waits for.
type PendingFacts struct {
	WaitsFor string `json:"waitsFor,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
}

// MoveFacts are the rebalancer's verdicts.
type MoveFacts struct {
	// WrongSide is set where this pod is one that has to move.
	WrongSide bool   `json:"wrongSide"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	// Workload is the verdict about the pod's workload as a whole.
	WorkloadReason  string `json:"workloadReason"`
	WorkloadMessage string `json:"workloadMessage,omitempty"`
	// Node has free capacity for the replacement.
	Node string `json:"node,omitempty"`
	// Controller is whether its last report is current, "" where it makes none.
	Controller command.ReportState `json:"controller,omitempty"`
}

// NewExplain returns the command explain.
func NewExplain(o *command.Options) *cobra.Command {
	scores := &decisions.Flags{}
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Explain why a pod is on its node",
		Long:  aboutExplain,
		Example: "  kubectl berth explain web-7dd8c6474c-x2x4z\n  kubectl berth explain web-0 -n shop -o json\n" +
			"  kubectl berth explain web-0 --scores --attempts 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.CompleteFirst(&corev1.PodList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := scores.Validate(cmd); err != nil {
				return err
			}
			namespace, err := o.Namespace()
			if err != nil {
				return err
			}
			e, err := Explain(cmd.Context(), o, client.ObjectKey{Namespace: namespace, Name: strings.TrimPrefix(args[0], "pod/")}, scores)
			if err != nil {
				return err
			}
			return e.Show(o)
		},
	}
	scores.Add(cmd)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// Explain returns why a pod is on its node, with the records of its attempts if they are requested.
func Explain(ctx context.Context, o *command.Options, key client.ObjectKey, scores *decisions.Flags) (*Explanation, error) {
	c, cluster, err := load(ctx, o, key.Namespace)
	if err != nil {
		return nil, err
	}
	pod := cluster.Pod(key.Namespace, key.Name)
	if pod == nil {
		if cluster.Missing("pods") {
			return nil, fmt.Errorf("cannot list pods in namespace %s", key.Namespace)
		}
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	already := len(cluster.Problems)
	if err := live.LoadLimits(ctx, c, cluster, key.Namespace); err != nil {
		return nil, err
	}
	for _, p := range cluster.Problems[already:] {
		o.Warn("%s", p)
	}
	e := &explainer{cluster: cluster, pod: pod, record: cluster.State.Pod(key.Namespace, key.Name), now: o.Now()}
	e.room = func() (plan.Room, func(), error) { return takeSnapshot(ctx, o, cluster) }
	if e.borrowed, err = borrowedEvent(ctx, c, pod); err != nil {
		o.Warn("cannot read the events of the pod: %v", err)
	}
	out, err := e.explain(ctx)
	if err == nil && scores.Scores {
		out.Decisions, err = scores.Read(ctx, o, c, client.ObjectKey(cluster.Profile.Lease), pod, cluster.Berths(pod.Spec.SchedulerName))
	}
	return out, err
}

// Show prints the explanation in the requested format.
func (e *Explanation) Show(o *command.Options) error {
	if done, err := o.Print(e); done {
		return err
	}
	if err := e.write(o.Out, o.Now()); err != nil {
		return err
	}
	return decisions.Write(o.Out, e.Decisions, o.Now())
}

// takeSnapshot takes a snapshot for the scheduler's own filters to judge.
func takeSnapshot(ctx context.Context, o *command.Options, cluster *overview.Cluster) (plan.Room, func(), error) {
	config, err := o.RestConfig()
	if err != nil {
		return nil, nil, err
	}
	snapshot, err := simulation.Take(ctx, config, cluster.Profile)
	if err != nil {
		return nil, nil, err
	}
	for _, skipped := range cluster.Profile.Skipped {
		o.Warn("free capacity is evaluated without %s, which only the scheduler can query", skipped)
	}
	return newReplayed(snapshot, cluster), snapshot.Close, nil
}

// borrowedEvent is the last event that reports that a pod borrowed, nil if there is none any more.
func borrowedEvent(ctx context.Context, c client.Client, pod *corev1.Pod) (*corev1.Event, error) {
	var list corev1.EventList
	err := c.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"involvedObject.uid": string(pod.UID), "reason": v1alpha1.EventReasonBorrowed,
	})})
	if err != nil {
		return nil, err
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || history.EventTime(e).After(history.EventTime(last).Time) {
			last = e
		}
	}
	return last, nil
}
