// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/clusterstate"
)

const aboutPlan = `Shows what applying a CapacityMix would do: which replicas would be moved, in which order, why others would not be moved, and which pods
would become governed or no longer governed. The API server validates the mix in a dry run. Nothing is written.

Moves are simulated one after the other. For each, the filters of the scheduler profile must find a node for the replacement, and the capacity
of that node is then not available to later moves.`

const planExamples = `  # Show what applying this file would do
  kubectl berth plan -f mix.yaml

  # Show what 30 percent spot would do
  kubectl berth plan web --spot-percent=30`

// planFlags are the flags of plan.
type planFlags struct {
	files                   []string
	recursive, noRoom       bool
	spot, minOnDemand, most int32
}

func NewPlan(o *command.Options) *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:               "plan (-f FILE | MIX [--spot-percent=N] [--min-on-demand=N] [--max-spot=N])",
		Short:             "Show what a mix would do before it is applied",
		Long:              aboutPlan,
		Example:           planExamples,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteMixes(),
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
	flags.BoolVar(&f.noRoom, "assume-capacity", false, "Assume that every replacement finds a node, and do not run the filters of the scheduler.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

func runPlan(o *command.Options, cmd *cobra.Command, f *planFlags, args []string) error {
	if len(f.files) == 0 == (len(args) == 0) {
		return errors.New("either --filename or MIX is required, and not both")
	}
	namespace, c, err := o.Cluster()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var wanted []*wantedMix
	if len(args) > 0 {
		wanted, err = whatIf(ctx, c, client.ObjectKey{Namespace: namespace, Name: args[0]}, f, cmd.Flags().Changed)
	} else {
		wanted, err = fromFiles(o, f.files, f.recursive, namespace)
	}
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if err := w.validate(ctx, c); err != nil {
			return err
		}
	}
	out, err := playPlan(o, ctx, wanted, f.noRoom)
	if err != nil {
		return err
	}
	return showPlan(o, out)
}

// playPlan plays the change on what the cluster has now.
func playPlan(o *command.Options, ctx context.Context, wanted []*wantedMix, noRoom bool) (*Plan, error) {
	namespace := wanted[0].mix.Namespace
	for _, w := range wanted {
		if w.mix.Namespace != namespace {
			namespace = "" // of several namespaces: look at all
		}
	}
	_, cluster, err := o.Load(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, needed := range []string{"pods", "nodes"} {
		if cluster.Missing(needed) {
			return nil, fmt.Errorf("cannot list %s, which a plan requires", needed)
		}
	}
	if cluster.Missing("poddisruptionbudgets.policy") {
		o.Warn("cannot list PodDisruptionBudgets: the plan ignores them")
	}
	var room plan.Room = plan.Ample{}
	if !noRoom {
		proven, done, err := takeSnapshot(o, ctx, cluster)
		switch {
		case apierrors.IsForbidden(err):
			o.Warn("free capacity is not checked: %v", err)
		case err != nil:
			return nil, err
		default:
			defer done()
			room = proven
		}
	}
	mixes := make([]*v1alpha1.CapacityMix, 0, len(wanted))
	for _, w := range wanted {
		mixes = append(mixes, w.mix)
	}
	now := before(cluster, wanted)
	result, err := plan.Change(ctx, cluster, mixes, room, o.Now())
	if err != nil {
		return nil, err
	}
	return planOf(now, cluster, wanted, result), nil
}

// before remembers the workloads of the mixes as they are now, by workload.
func before(c *live.Cluster, wanted []*wantedMix) map[string]live.Split {
	out := map[string]live.Split{}
	for _, w := range wanted {
		for _, g := range c.State.Groups(w.mix.Namespace) {
			out[groupName(&g)] = live.Desired(&g)
		}
	}
	return out
}

// groupName is unique among the groups of all namespaces.
func groupName(g *clusterstate.Group) string {
	return g.Key.Namespace + "/" + g.Key.ID
}

// moveLine and blockedLine are the parts of an outcome for output.
func moveLine(i int, g *clusterstate.Group, m plan.Move) PlannedMove {
	return PlannedMove{
		Order: i + 1, Namespace: g.Workload.Namespace, Workload: tableName(g.Workload.Kind, g.Workload.Name, g.Workload.UID == ""),
		Pod: m.Pod.Name, From: m.From.String(), To: m.To.String(), Slot: m.Slot, Node: m.Node,
	}
}

func blockedLine(g *clusterstate.Group, b plan.Blocked) BlockedPod {
	return BlockedPod{
		Namespace: g.Workload.Namespace, Workload: tableName(g.Workload.Kind, g.Workload.Name, g.Workload.UID == ""),
		Pod: b.Pod.Name, On: b.On.String(), Reason: string(b.Reason), Message: b.Message,
	}
}
