// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

const aboutPlan = `Shows what applying a CapacityMix would do: which replicas would be moved, in which order, why others would not be moved, and which pods
would become governed or no longer governed. The API server validates the mix in a dry run. Nothing is written.

Moves are simulated one after the other. For each, the filters of the scheduler profile must find a node for the replacement, and the capacity
of that node is then not available to later moves.

Of a workload, such as deployment/web, the mix is the CapacityMix that governs it, with all other workloads that it governs.`

const planExamples = `  # Show what applying this file would do
  kubectl berth plan -f mix.yaml

  # Show what 30 percent spot would do
  kubectl berth plan web --spot-percent=30

  # The same for the mix that governs a workload
  kubectl berth plan deployment/web --spot-percent=30`

// planFlags are the flags of plan.
type planFlags struct {
	files                   []string
	recursive, noRoom       bool
	spot, minOnDemand, most int32
}

// NewPlan returns the command plan.
func NewPlan(o *command.Options) *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:               "plan (-f FILE | MIX|KIND/NAME [--spot-percent=N] [--min-on-demand=N] [--max-spot=N])",
		Short:             "Show what a mix would do before it is applied",
		Long:              aboutPlan,
		Example:           planExamples,
		Args:              command.Names(0, 1),
		ValidArgsFunction: o.CompleteTargets(&v1alpha1.CapacityMixList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlan(o, cmd, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.files, "filename", "f", nil, "Files, directories or URLs with CapacityMixes; - is standard input.")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "Read directories recursively.")
	flags.Int32Var(&f.spot, "spot-percent", 0, "With MIX: the new value of spec.spotPercent.")
	flags.Int32Var(&f.minOnDemand, "min-on-demand", 0, "With MIX: the new value of spec.minOnDemand.")
	flags.Int32Var(&f.most, "max-spot", 0, "With MIX: the new value of spec.maxSpot.")
	flags.BoolVar(&f.noRoom, "assume-capacity", false,
		"Assume that every replacement finds a node, and do not run the filters of the scheduler.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

func runPlan(o *command.Options, cmd *cobra.Command, f *planFlags, args []string) error {
	if len(f.files) == 0 == (len(args) == 0) {
		return errors.New("either --filename or MIX is required, and not both")
	}
	namespace, u, err := access.User(o)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var given []*unstructured.Unstructured
	if len(args) > 0 {
		var mix *unstructured.Unstructured
		key := client.ObjectKey{Namespace: namespace}
		if key.Name, err = mixNamed(ctx, u, namespace, args[0]); err != nil {
			return err
		}
		mix, err = u.MixWith(ctx, key, func(spec *v1alpha1.CapacityMixSpec) {
			f.edit(spec, cmd.Flags().Changed)
		})
		given = append(given, mix)
	} else {
		given, err = fromFiles(o, f.files, f.recursive, namespace)
	}
	if err != nil {
		return err
	}
	changes := make([]overview.MixChange, len(given))
	for i, mix := range given {
		if changes[i], err = u.Validate(ctx, mix); err != nil {
			return fmt.Errorf("CapacityMix %s: %w", client.ObjectKeyFromObject(mix), err)
		}
	}
	out, err := u.Plan(ctx, changes, f.noRoom)
	if err != nil {
		return err
	}
	return showPlan(o, out)
}

// mixNamed returns the name of the mix that MIX or KIND/NAME mean.
func mixNamed(ctx context.Context, u *live.User, namespace, arg string) (string, error) {
	target, err := command.TargetOf(arg)
	if err != nil || target.Kind == "" {
		return target.Name, err
	}
	return u.MixOf(ctx, target.Kind, client.ObjectKey{Namespace: namespace, Name: target.Name})
}

// edit sets the numbers that are given.
func (f *planFlags) edit(spec *v1alpha1.CapacityMixSpec, given func(flag string) bool) {
	if given("spot-percent") {
		spec.SpotPercent = f.spot
	}
	if given("min-on-demand") {
		spec.MinOnDemand = f.minOnDemand
	}
	if given("max-spot") {
		spec.MaxSpot = new(f.most)
	}
}

// fromFiles reads CapacityMixes and ignores other objects.
func fromFiles(o *command.Options, files []string, recursive bool, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := o.Objects(namespace, recursive, files...)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, u := range objects {
		if u.GroupVersionKind().Group != v1alpha1.GroupName || u.GetKind() != "CapacityMix" {
			continue
		}
		if v := u.GroupVersionKind().Version; v != v1alpha1.SchemeGroupVersion.Version {
			return nil, fmt.Errorf("CapacityMix %s: apiVersion must be %[4]s/%[2]s, not %[4]s/%[3]s", u.GetName(),
				v1alpha1.SchemeGroupVersion.Version, v, v1alpha1.GroupName)
		}
		out = append(out, u)
	}
	if len(out) == 0 {
		return nil, errors.New("the files have no CapacityMix")
	}
	return out, nil
}

func showPlan(o *command.Options, p *overview.Plan) error {
	if done, err := o.Print(p); done {
		return err
	}
	namespaces := false
	for i, sentence := range p.Sentences() {
		namespaces = namespaces || p.Mixes[i].Namespace != p.Mixes[0].Namespace
		fmt.Fprintln(o.Out, sentence)
	}
	for _, t := range []*printers.Table{plannedTable(p), moveTable(p), blockedTable(p)} {
		if t.Namespaces = namespaces; len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintln(o.Out)
		if err := t.Write(o.Out); err != nil {
			return err
		}
	}
	fmt.Fprintln(o.Out)
	_, err := fmt.Fprintln(o.Out, strings.Join(p.Remarks(), "\n"))
	return err
}

func plannedTable(p *overview.Plan) *printers.Table {
	t := &printers.Table{Header: []string{
		"NAMESPACE", "WORKLOAD", "REVISION", "REPLICAS", "ACTUAL", "DESIRED-NOW", "DESIRED-THEN",
		"TO-MOVE", "MOVES", "BLOCKED", "AFTER",
	}}
	for _, w := range p.Workloads {
		now := ""
		if w.DesiredBefore != nil {
			now = w.DesiredBefore.String()
		}
		t.Add(w.Namespace, overview.KindName(w.Kind, w.Name, w.Role, w.Bare), w.Revision, w.Count(w.Replicas), w.Actual, now, w.Desired,
			w.WrongSide, w.Moves, w.Blocked, w.After)
	}
	return t
}

func moveTable(p *overview.Plan) *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "MOVE", "WORKLOAD", "POD", "FROM", "TO", "SLOT", "NODE"}}
	for i := range p.Moves {
		m := &p.Moves[i]
		t.Add(m.Namespace, m.Order, m.Workload, m.PodText(), m.From, m.To, m.Slot, m.NodeText())
	}
	return t
}

func blockedTable(p *overview.Plan) *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "BLOCKED", "WORKLOAD", "ON", "REASON", "MESSAGE"}}
	for _, b := range p.Blocked {
		t.Add(b.Namespace, b.Pod, b.Workload, b.On, b.Reason, b.Message)
	}
	return t
}
