// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
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

// NewPlan returns the command plan.
func NewPlan(o *command.Options) *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:               "plan (-f FILE | MIX [--spot-percent=N] [--min-on-demand=N] [--max-spot=N])",
		Short:             "Show what a mix would do before it is applied",
		Long:              aboutPlan,
		Example:           planExamples,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteFirst(&v1alpha1.CapacityMixList{}),
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
			return fmt.Errorf("CapacityMix %s: %w", client.ObjectKeyFromObject(w.given), err)
		}
	}
	out, err := playPlan(ctx, o, wanted, f.noRoom)
	if err != nil {
		return err
	}
	return showPlan(o, out)
}

// playPlan plays the change on what the cluster has now.
func playPlan(ctx context.Context, o *command.Options, wanted []*wantedMix, noRoom bool) (*Plan, error) {
	namespace := wanted[0].mix.Namespace
	for _, w := range wanted {
		if w.mix.Namespace != namespace {
			namespace = "" // of several namespaces: look at all
		}
	}
	_, cluster, err := load(ctx, o, namespace)
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
		proven, done, err := takeSnapshot(ctx, o, cluster)
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
	result, err := change(ctx, cluster, mixes, room, o.Now())
	if err != nil {
		return nil, err
	}
	return planOf(now, cluster, wanted, result), nil
}

// before remembers the workloads of the mixes as they are now, by workload.
func before(c *live.Cluster, wanted []*wantedMix) map[string]overview.Split {
	out := map[string]overview.Split{}
	for _, w := range wanted {
		for _, g := range c.State.Groups(w.mix.Namespace) {
			out[groupName(&g)] = overview.Desired(&g)
		}
	}
	return out
}

// groupName is unique among the groups of all namespaces.
func groupName(g *clusterstate.Group) string {
	return g.Key.Namespace + "/" + g.Key.ID
}

// wantedMix is a CapacityMix as it would be.
type wantedMix struct {
	// given is what the user wrote, unknown fields and all.
	given *unstructured.Unstructured
	// mix is what the API server would make of it; old what is there, nil if nothing.
	mix, old *v1alpha1.CapacityMix
	// unvalidated is why the API server did not judge it.
	unvalidated string
}

// without leaves out a field of the spec.
func (w *wantedMix) without(field string) {
	unstructured.RemoveNestedField(w.given.Object, "spec", field)
}

// fromFiles reads CapacityMixes and ignores other objects.
func fromFiles(o *command.Options, files []string, recursive bool, namespace string) ([]*wantedMix, error) {
	objects, err := o.Objects(namespace, recursive, files...)
	if err != nil {
		return nil, err
	}
	var out []*wantedMix
	for _, u := range objects {
		if u.GroupVersionKind().Group != v1alpha1.GroupName || u.GetKind() != "CapacityMix" {
			continue
		}
		if v := u.GroupVersionKind().Version; v != v1alpha1.SchemeGroupVersion.Version {
			return nil, fmt.Errorf("CapacityMix %s: apiVersion must be %[4]s/%[2]s, not %[4]s/%[3]s", u.GetName(),
				v1alpha1.SchemeGroupVersion.Version, v, v1alpha1.GroupName)
		}
		out = append(out, &wantedMix{given: u})
	}
	if len(out) == 0 {
		return nil, errors.New("the files have no CapacityMix")
	}
	return out, nil
}

// whatIf is a mix of the cluster with other numbers.
func whatIf(ctx context.Context, c client.Client, key client.ObjectKey, f *planFlags, given func(flag string) bool) ([]*wantedMix, error) {
	var m v1alpha1.CapacityMix
	if err := c.Get(ctx, key, &m); err != nil {
		return nil, err
	}
	if given("spot-percent") {
		m.Spec.SpotPercent = f.spot
	}
	if given("min-on-demand") {
		m.Spec.MinOnDemand = f.minOnDemand
	}
	if given("max-spot") {
		m.Spec.MaxSpot = new(f.most)
	}
	m.Status = v1alpha1.CapacityMixStatus{}
	m.ManagedFields = nil
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	return []*wantedMix{{given: u}}, nil
}

// validate lets the API server judge the mix without keeping it: what is there
// already is replaced, as `kubectl apply` of the whole object would.
func (w *wantedMix) validate(ctx context.Context, c client.Client) error {
	var old v1alpha1.CapacityMix
	err := c.Get(ctx, client.ObjectKeyFromObject(w.given), &old)
	switch {
	case err == nil:
		w.old = &old
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return err
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	judged := w.given.DeepCopy()
	unstructured.RemoveNestedField(judged.Object, "status")
	if w.old != nil {
		judged.SetResourceVersion(w.old.ResourceVersion)
		err = strict.Update(ctx, judged, client.DryRunAll)
	} else {
		judged.SetResourceVersion("")
		judged.SetUID("")
		err = strict.Create(ctx, judged, client.DryRunAll)
	}
	switch {
	case apierrors.IsForbidden(err):
		w.unvalidated = err.Error()
		judged = w.given.DeepCopy()
	case err != nil:
		return err
	}
	return w.decode(judged)
}

// decode reads what the API server made of it, or, unvalidated, what was given.
func (w *wantedMix) decode(u *unstructured.Unstructured) error {
	w.mix = &v1alpha1.CapacityMix{}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation
	if err := convert(u.Object, w.mix, w.unvalidated != ""); err != nil {
		return err
	}
	if w.old != nil {
		w.mix.CreationTimestamp = w.old.CreationTimestamp
	} else if w.mix.CreationTimestamp.IsZero() {
		w.mix.CreationTimestamp = metav1.Now() // the youngest: older ones win
	}
	_, _, err := governing.FromCapacityMix(w.mix)
	return err
}

// ruleOf is the rule of a mix as people write it.
func ruleOf(m *v1alpha1.CapacityMix) string {
	p, _, err := governing.FromCapacityMix(m)
	if err != nil {
		return "invalid (" + err.Error() + ")"
	}
	return p.Mix.String()
}
