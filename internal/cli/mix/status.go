// SPDX-License-Identifier: Apache-2.0

// Package mix has the commands about CapacityMixes: status, explain, plan and nodes.
package mix

import (
	"context"
	"fmt"
	"strings"

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
berth-controller. If you may not list nodes, it is also where the replicas run; what it does not report about the current replicas is <unknown>.

-o wide has a letter for each slot, as in kubectl berth top. -l chooses workloads by the labels of their pods, and the mixes that govern them;
the numbers of a mix are those of all its workloads.`

// maxRibbon is how many slots a row shows.
const maxRibbon = 100

// NewStatus returns the command status.
func NewStatus(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [MIX|KIND/NAME]",
		Short: "Show the status of mixes and workloads",
		Long:  aboutStatus,
		Example: "  kubectl berth status\n  kubectl berth status web -n shop -o wide\n  kubectl berth status deployment/web -w\n" +
			"  kubectl berth status -A -l team=shop",
		Args:              command.Names(0, 1),
		ValidArgsFunction: o.CompleteTargets(&v1alpha1.CapacityMixList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStatus(cmd.Context(), o, args)
		},
	}
	o.WatchFlag(cmd)
	o.AllNamespacesFlag(cmd)
	o.SelectorFlag(cmd, "for the pods of workloads")
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func runStatus(ctx context.Context, o *command.Options, args []string) error {
	namespace, u, err := access.User(o)
	if err != nil {
		return err
	}
	c, err := chosenBy(u, args, namespace, o.Selector())
	if err != nil {
		return err
	}
	cluster, err := u.Load(ctx, namespace)
	if err != nil {
		return err
	}
	if c.mix != "" && cluster.Mix(namespace, c.mix) == nil {
		return fmt.Errorf("CapacityMix %q not found in namespace %s", c.mix, namespace)
	}
	s, slots := c.of(cluster)
	if c.kind != "" && len(s.Workloads) == 0 && !s.Partial {
		return fmt.Errorf("no mix governs a pod of %s %s in namespace %s", c.kind, c.name, namespace)
	}
	return showStatus(o, s, namespace, slots)
}

func showStatus(o *command.Options, s *overview.Status, namespace string, slots map[workload]string) error {
	if done, err := o.Print(s); done {
		return err
	}
	if len(s.Mixes)+len(s.Workloads) == 0 && !s.Partial {
		o.Note("No mixes and no governed workloads found in %s.", printers.InNamespace(namespace))
	}
	tables := []*printers.Table{mixTable(o, s.Mixes, namespace == ""), workloadTable(s.Workloads, namespace == "", slots)}
	if o.Output == printers.Name {
		o.PrintNames(tables...)
		return nil
	}
	return o.WriteTables(s.Notes, tables...)
}

func mixTable(o *command.Options, mixes []overview.MixStatus, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "NAME", "SPOT%", "MIN-OD", "WORKLOADS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "SATISFIED", "BLOCKED", "AGE",
		},
		Wide: []string{"MAX-SPOT", "PENDING-FOR", "DEPARTING", "FLOOR", "CONTROLLER"}, Namespaces: namespaces,
	}
	for _, m := range mixes {
		maxSpot := ""
		if m.MaxSpot != nil {
			maxSpot = fmt.Sprint(*m.MaxSpot)
		}
		t.Names = append(t.Names, printers.Resource(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"), m.Name))
		t.Add(m.Namespace, m.Name, m.SpotPercent, m.MinOnDemand, m.Workloads.Text(), m.Desired.Text(), m.Actual.Text(), m.Borrowed.Text(),
			m.Pending.Text(), satisfied(m), m.Blocked, o.Age(m.Created), maxSpot, m.PendingByType.Text(), m.Departing.Text(),
			m.Floor.Word(), m.Controller)
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

func workloadTable(workloads []overview.WorkloadStatus, namespaces bool, slots map[workload]string) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "WORKLOAD", "REVISION", "MIX", "REPLICAS", "DESIRED", "ACTUAL", "BORROWED", "PENDING", "DEPARTING", "STATE",
		},
		Wide: []string{"RULE", "SLOTS", "PENDING-FOR", "FAILED-MOVES", "RETRY", "MESSAGE"}, Namespaces: namespaces, Keys: 4,
	}
	for i := range workloads {
		w := &workloads[i]
		retry := ""
		if w.RetryTime != nil {
			retry = w.RetryTime.UTC().Format("15:04:05Z")
		}
		name := overview.KindName(w.Kind, w.Name, w.Role, w.Bare)
		t.Names = append(t.Names, strings.ToLower(w.Kind)+"/"+w.Name)
		t.Add(w.Namespace, name, w.Revision, w.Source, w.Count(w.Replicas), w.Desired.Text(), w.Actual.Text(), w.Borrowed.Text(),
			w.Pending.Text(), w.Departing.Text(), w.State, w.Rule, slots[keyOf(w)], w.PendingByType.Text(), w.FailedMoves, retry, w.Message)
	}
	return t
}
