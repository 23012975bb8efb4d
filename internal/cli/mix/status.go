// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/printers"
)

const aboutStatus = `Shows the mixes of a namespace and the workloads that they govern, also those that are governed by annotations or by the default mix of
the scheduler.

Replicas are counted from the current pods and nodes. DESIRED and ACTUAL are spot/on-demand; PENDING-FOR (-o wide) is the same for replicas
without a node. "2?" after them are replicas on nodes of unknown type. Only the reason why a replica is not moved is from the last report of
berth-controller.`

// Status is what `status` shows.
type Status struct {
	Mixes     []MixStatus      `json:"mixes"`
	Workloads []WorkloadStatus `json:"workloads"`
	// Notes are for people.
	Notes []string `json:"notes,omitempty"`
}

// MixStatus is a CapacityMix with the sums of its workloads.
type MixStatus struct {
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	SpotPercent int32      `json:"spotPercent"`
	MinOnDemand int32      `json:"minOnDemand"`
	MaxSpot     *int32     `json:"maxSpot,omitempty"`
	Workloads   int        `json:"workloads"`
	Desired     live.Split `json:"desired"`
	Actual      live.Split `json:"actual"`
	Borrowed    int        `json:"borrowed"`
	Pending     int        `json:"pending"`
	// PendingByType are those by the type that they wait for.
	PendingByType live.Split       `json:"pendingByType"`
	Departing     int              `json:"departing"`
	Satisfied     bool             `json:"satisfied"`
	Blocked       string           `json:"blocked,omitempty"`
	Invalid       string           `json:"invalid,omitempty"`
	Controller    live.ReportState `json:"controller"`
	Created       metav1.Time      `json:"created"`
	// counted is false if the pods could not be read.
	counted bool
}

// WorkloadStatus is one revision of a workload.
type WorkloadStatus struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Revision  string `json:"revision,omitempty"`
	// Source says where the mix comes from: capacitymix/<name>, annotations/pod, annotations/controller or default.
	Source   string     `json:"source"`
	Rule     string     `json:"rule"`
	Replicas int        `json:"replicas"`
	Desired  live.Split `json:"desired"`
	Actual   live.Split `json:"actual"`
	Borrowed int        `json:"borrowed"`
	Pending  int        `json:"pending"`
	// PendingByType are those by the type that they wait for.
	PendingByType live.Split `json:"pendingByType"`
	Departing     int        `json:"departing"`
	Satisfied     bool       `json:"satisfied"`
	// State is one word, Message the same for people.
	State       string       `json:"state"`
	Message     string       `json:"message,omitempty"`
	FailedMoves int32        `json:"failedMoves,omitempty"`
	RetryTime   *metav1.Time `json:"retryTime,omitempty"`
	bare        bool
}

func NewStatus(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status [MIX]",
		Short:             "Show the status of mixes and workloads",
		Long:              aboutStatus,
		Example:           "  kubectl berth status\n  kubectl berth status web -n shop -o wide\n  kubectl berth status -A",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteMixes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := o.Namespace()
			if err != nil {
				return err
			}
			_, cluster, err := o.Load(cmd.Context(), namespace)
			if err != nil {
				return err
			}
			only := ""
			if len(args) > 0 {
				only = args[0]
				if namespace == "" {
					return fmt.Errorf("MIX requires one namespace: use -n, not -A")
				}
				if cluster.Mix(namespace, only) == nil {
					return fmt.Errorf("CapacityMix %q not found in namespace %s", only, namespace)
				}
			}
			return showStatus(o, statusOf(cluster, only), namespace)
		},
	}
	o.AllNamespacesFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

func showStatus(o *command.Options, s *Status, namespace string) error {
	if done, err := o.Print(s); done {
		return err
	}
	if len(s.Mixes)+len(s.Workloads) == 0 {
		fmt.Fprintf(o.ErrOut, "No mixes and no governed workloads found in %s.\n", printers.InNamespace(namespace))
	}
	if len(s.Mixes) > 0 {
		if err := mixTable(o, s.Mixes).Write(o.Out, namespace == ""); err != nil {
			return err
		}
	}
	if len(s.Mixes) > 0 && len(s.Workloads) > 0 {
		fmt.Fprintln(o.Out)
	}
	if len(s.Workloads) > 0 {
		if err := workloadTable(o, s.Workloads).Write(o.Out, namespace == ""); err != nil {
			return err
		}
	}
	for _, n := range s.Notes {
		o.Warn("%s", n)
	}
	return nil
}

func mixTable(o *command.Options, mixes []MixStatus) *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "NAME", "SPOT%", "MIN-OD", "WORKLOADS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "SATISFIED", "BLOCKED", "AGE"}}
	if o.Output == printers.Wide {
		t.Header = append(t.Header, "MAX-SPOT", "PENDING-FOR", "DEPARTING", "CONTROLLER")
	}
	for _, m := range mixes {
		row := []string{m.Namespace, m.Name, printers.Number(m.SpotPercent), printers.Number(m.MinOnDemand)}
		if m.counted {
			row = append(row, printers.Number(m.Workloads), m.Desired.String(), m.Actual.String(), printers.Number(m.Borrowed), printers.Number(m.Pending), satisfied(m))
		} else {
			row = append(row, "<unknown>", "<unknown>", "<unknown>", "<unknown>", "<unknown>", "<unknown>")
		}
		row = append(row, m.Blocked, o.Age(m.Created))
		maxSpot := ""
		if m.MaxSpot != nil {
			maxSpot = printers.Number(*m.MaxSpot)
		}
		t.Add(append(row, maxSpot, m.PendingByType.String(), printers.Number(m.Departing), string(m.Controller))...)
	}
	return t
}

func satisfied(m MixStatus) string {
	switch {
	case m.Invalid != "":
		return "Invalid"
	case m.Satisfied:
		return "True"
	}
	return "False"
}

func workloadTable(o *command.Options, workloads []WorkloadStatus) *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "WORKLOAD", "REVISION", "MIX", "REPLICAS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "DEPARTING", "STATE"}}
	if o.Output == printers.Wide {
		t.Header = append(t.Header, "RULE", "PENDING-FOR", "FAILED-MOVES", "RETRY", "MESSAGE")
	}
	for _, w := range workloads {
		retry := ""
		if w.RetryTime != nil {
			retry = w.RetryTime.UTC().Format("15:04:05Z")
		}
		t.Add(w.Namespace, tableName(w.Kind, w.Name, w.bare), w.Revision, w.Source, printers.Number(w.Replicas), w.Desired.String(), w.Actual.String(),
			printers.Number(w.Borrowed), printers.Number(w.Pending), printers.Number(w.Departing), w.State, w.Rule, w.PendingByType.String(), printers.Number(w.FailedMoves), retry, w.Message)
	}
	return t
}

// tableName is kind/name. Pods without a controller are one line for all those of a mix.
func tableName(kind, name string, bare bool) string {
	if bare {
		name = "*"
	}
	return kind + "/" + name
}
