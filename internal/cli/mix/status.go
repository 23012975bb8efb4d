// SPDX-License-Identifier: Apache-2.0

// Package mix has the commands about CapacityMixes: status, explain, plan and nodes.
package mix

import (
	"fmt"

	"github.com/spf13/cobra"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

const aboutStatus = `Shows the mixes of a namespace and the workloads that they govern, also those that are governed by annotations or by the default mix of
the scheduler.

Replicas are counted from the current pods and nodes. DESIRED and ACTUAL are spot/on-demand; PENDING-FOR (-o wide) is the same for replicas
without a node. "2?" after them are replicas on nodes of unknown type. The reason why a replica is not moved is from the last report of
berth-controller. If you may not list nodes, it is also where the replicas run; what it does not report about the current replicas is <unknown>.`

// NewStatus returns the command status.
func NewStatus(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status [MIX]",
		Short:             "Show the status of mixes and workloads",
		Long:              aboutStatus,
		Example:           "  kubectl berth status\n  kubectl berth status web -n shop -o wide\n  kubectl berth status -A",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteFirst(&v1alpha1.CapacityMixList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, u, err := access.User(o)
			if err != nil {
				return err
			}
			cluster, err := u.Load(cmd.Context(), namespace)
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
			return showStatus(o, overview.StatusOf(cluster, only), namespace)
		},
	}
	o.AllNamespacesFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

func showStatus(o *command.Options, s *overview.Status, namespace string) error {
	if done, err := o.Print(s); done {
		return err
	}
	if len(s.Mixes)+len(s.Workloads) == 0 && !s.Partial {
		fmt.Fprintf(o.ErrOut, "No mixes and no governed workloads found in %s.\n", printers.InNamespace(namespace))
	}
	return o.WriteTables(s.Notes, mixTable(o, s.Mixes, namespace == ""), workloadTable(s.Workloads, namespace == ""))
}

func mixTable(o *command.Options, mixes []overview.MixStatus, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "NAME", "SPOT%", "MIN-OD", "WORKLOADS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "SATISFIED", "BLOCKED", "AGE",
		},
		Wide: []string{"MAX-SPOT", "PENDING-FOR", "DEPARTING", "CONTROLLER"}, Namespaces: namespaces,
	}
	for _, m := range mixes {
		maxSpot := ""
		if m.MaxSpot != nil {
			maxSpot = fmt.Sprint(*m.MaxSpot)
		}
		t.Add(m.Namespace, m.Name, m.SpotPercent, m.MinOnDemand, m.Workloads.Text(), m.Desired.Text(), m.Actual.Text(), m.Borrowed.Text(),
			m.Pending.Text(), satisfied(m), m.Blocked, o.Age(m.Created), maxSpot, m.PendingByType.Text(), m.Departing.Text(), m.Controller)
	}
	return t
}

func satisfied(m overview.MixStatus) string {
	switch {
	case m.Invalid != "":
		return "Invalid"
	case m.Satisfied.Is(true):
		return "True"
	case m.Satisfied.Is(false):
		return "False"
	}
	return m.Satisfied.Text()
}

func workloadTable(workloads []overview.WorkloadStatus, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "WORKLOAD", "REVISION", "MIX", "REPLICAS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "DEPARTING", "STATE",
		},
		Wide: []string{"RULE", "PENDING-FOR", "FAILED-MOVES", "RETRY", "MESSAGE"}, Namespaces: namespaces,
	}
	for _, w := range workloads {
		retry := ""
		if w.RetryTime != nil {
			retry = w.RetryTime.UTC().Format("15:04:05Z")
		}
		name := overview.KindName(w.Kind, w.Name, w.Role, w.Bare)
		t.Add(w.Namespace, name, w.Revision, w.Source, w.Count(w.Replicas), w.Desired.Text(), w.Actual.Text(), w.Borrowed.Text(),
			w.Pending.Text(), w.Departing.Text(), w.State, w.Rule, w.PendingByType.Text(), w.FailedMoves, retry, w.Message)
	}
	return t
}
