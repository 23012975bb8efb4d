// SPDX-License-Identifier: Apache-2.0

// Package reservations has the command about Reservations.
package reservations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/reservations"
)

const about = `Shows Reservations with the values that apply, defaults included. PODS is the selector of the pods that may use the capacity, or the
name of the only one. HELD, USED and STATUS are as the scheduler last reported them; STATUS is the reason of the condition Reserved.

With --placeholder, the command prints a Deployment with the replicas, requests and node rules of a Reservation, and its PriorityClass. The
pods hold the same capacity, so that every scheduler accounts for it, and each pod with a higher priority can preempt them. The command
creates nothing.`

var reservationKind = command.Kind[*v1alpha1.Reservation, ReservationStatus]{
	Kind: "Reservation", Resource: overview.ReservationsResource,
	NewList: func() client.ObjectList { return &v1alpha1.ReservationList{} },
	Key:     "reservations", Nouns: "reservations",
	Of:       func(r *v1alpha1.Reservation) ReservationStatus { return reservationOf(reservations.Compile(r)) },
	Observed: func(r *v1alpha1.Reservation) int64 { return r.Status.ObservedGeneration },
	Unseen:   "no berth-scheduler with the plugin Reservation seems to lead (see kubectl berth doctor)",
	Header:   []string{"PODS", "REPLICAS", "HELD", "USED", "STATUS", "EXPIRES"},
	Wide:     []string{"REQUESTS", "NODES", "MESSAGE"}, Row: row,
}

// ReservationStatus is one Reservation. Defaults are applied.
type ReservationStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods is the selector, * for all pods of the namespace, or pod/NAME.
	Pods          string              `json:"pods"`
	Replicas      int                 `json:"replicas"`
	Requests      corev1.ResourceList `json:"requests"`
	SchedulerName string              `json:"schedulerName"`
	AllocateOnce  bool                `json:"allocateOnce"`
	Expires       metav1.Time         `json:"expires"`
	// Held to Nodes are from the status. Status is the reason of the condition Reserved.
	Held    int32  `json:"held"`
	Used    int32  `json:"used"`
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Nodes are the nodes on which capacity is or was held, sorted by name.
	Nodes     []NodeHolds         `json:"nodes,omitempty"`
	Scheduler display.ReportState `json:"scheduler"`
	Created   metav1.Time         `json:"created"`
}

// NodeHolds is the number of pods for which capacity is or was held on a node.
type NodeHolds struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// New returns the command reservations.
func New(o *command.Options) *cobra.Command {
	var placeholderOf string
	cmd := reservationKind.List(o, &cobra.Command{
		Use:   "reservations",
		Short: "Show Reservations, and print pods that hold the same capacity",
		Long:  about,
		Example: "  kubectl berth reservations\n  kubectl berth reservations -A -o wide\n" +
			"  kubectl berth reservations -n shop --placeholder release | kubectl apply -f -",
	}, nil)
	command.Instead(cmd, &placeholderOf, o.WithCluster(func(ctx context.Context, c client.Client, namespace string, _ []string) error {
		return runPlaceholder(ctx, o, c, namespace, placeholderOf)
	}))
	cmd.Flags().StringVar(&placeholderOf, "placeholder", "",
		"The name of a Reservation: print, as YAML, a Deployment that holds the same capacity, and its PriorityClass.")
	_ = cmd.RegisterFlagCompletionFunc("placeholder", reservationKind.Complete(o)) // fails for a flag that does not exist
	for _, other := range []string{"all-namespaces", "selector", "watch", "output"} {
		cmd.MarkFlagsMutuallyExclusive("placeholder", other)
	}
	return cmd
}

func reservationOf(r *reservations.Reservation) ReservationStatus {
	object := r.Object
	s := ReservationStatus{
		Namespace: object.Namespace, Name: object.Name, Pods: podsOf(&object.Spec), Replicas: r.Replicas, Requests: r.Requests,
		SchedulerName: r.SchedulerName(), AllocateOnce: r.Once, Expires: metav1.NewTime(r.Expires),
		Held: object.Status.HeldCount, Used: object.Status.UsedCount, Nodes: nodesOf(object.Status.Holds),
		Scheduler: display.Reported(object.Status.ObservedGeneration, object.Generation), Created: object.CreationTimestamp,
	}
	if c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReserved); c != nil {
		s.Status, s.Message = c.Reason, c.Message
	}
	return s
}

// podsOf is the selector of the pods that may use the capacity, * for all of the namespace, or pod/NAME, which no selector looks like.
func podsOf(spec *v1alpha1.ReservationSpec) string {
	switch {
	case spec.PodSelector == nil:
		return "pod/" + spec.PodName
	case len(spec.PodSelector.MatchLabels)+len(spec.PodSelector.MatchExpressions) == 0:
		return "*"
	}
	return metav1.FormatLabelSelector(spec.PodSelector.AsLabelSelector())
}

func nodesOf(holds []v1alpha1.Hold) []NodeHolds {
	counts := map[string]int{}
	for i := range holds {
		counts[holds[i].NodeName]++
	}
	nodes := make([]NodeHolds, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		nodes = append(nodes, NodeHolds{name, counts[name]})
	}
	return nodes
}

// row are the cells of a Reservation.
func row(o *command.Options, s *ReservationStatus) []any {
	held, used, status := "<unknown>", "<unknown>", "<unknown>"
	if s.Scheduler != display.ReportAbsent {
		held, used, status = fmt.Sprint(s.Held), fmt.Sprint(s.Used), s.Status
	}
	return []any{
		s.Pods, s.Replicas, held, used, status, expires(o, s.Expires), requestsText(s.Requests), nodesText(s.Nodes), s.Message,
	}
}

// expires is in how long a Reservation expires.
func expires(o *command.Options, at metav1.Time) string {
	now := o.Now()
	if !now.Before(at.Time) {
		return "expired"
	}
	return "in " + printers.Age(at.Time, now)
}

// requestsText is what is held for each pod, such as cpu=500m,memory=1Gi.
func requestsText(requests corev1.ResourceList) string {
	list := make([]string, 0, len(requests))
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		list = append(list, string(name)+"="+q.String())
	}
	return strings.Join(list, ",")
}

// nodesText names the first few nodes with their counts. JSON has them all.
func nodesText(nodes []NodeHolds) string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = fmt.Sprintf("%s*%d", n.Name, n.Count)
	}
	return printers.Listed(list)
}
