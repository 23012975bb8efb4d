// SPDX-License-Identifier: Apache-2.0

// Package drain is kubectl berth drain: it has the replicas of mixes leave nodes before kubectl drain evicts the other pods.
package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/mix/overview"
)

const about = `Cordons nodes and marks them, so that berth-controller releases the replicas of mixes with rebalance.strategy Surge or SurgeOrEvict:
their ReplicaSets create the replacements, and each replica is evicted once its replacement is available. A replica stays while
there is no capacity for its replacement (kubectl berth explain). The command waits until they are gone, and lists the pods that
are left, for kubectl drain. It fails if a replica of such a mix is left after the timeout. It evicts no pod itself. You can end it and
start it again at any time.`

const examples = `  kubectl berth drain spot-1
  kubectl berth drain spot-1 spot-2 --timeout=30m && kubectl drain spot-1 spot-2 --ignore-daemonsets
  kubectl berth drain spot-1 --undo`

const (
	// poll is the time from one reading to the next, and patience how long readings may fail.
	poll     = time.Second
	patience = 30 * time.Second

	// fieldOwner is the field manager of what the command writes.
	fieldOwner = "kubectl-berth-drain"
)

// drainer empties nodes.
type drainer struct {
	*command.Options
	client client.Client
	// settings are those of the installation: they decide what governs a pod, and whether it is released.
	settings *overview.Settings
	owners   owners
	// assumed is set once a strategy had to be assumed.
	assumed bool
	dryRun  string
	timeout time.Duration
	undo    bool
	poll    time.Duration
}

// New returns the command drain.
func New(o *command.Options) *cobra.Command {
	d := &drainer{Options: o, poll: poll, owners: owners{}}
	cmd := &cobra.Command{
		Use:               "drain NODE...",
		Short:             "Have the replicas of mixes leave nodes without a loss of available replicas",
		Long:              about,
		Example:           examples,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: o.CompleteFirst(&corev1.NodeList{}),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if _, d.client, err = o.Cluster(); err != nil {
				return err
			}
			if !d.marksOnly() {
				if err := d.readSettings(cmd.Context()); err != nil {
					return err
				}
			}
			return d.run(cmd.Context(), args)
		},
	}
	cmd.Flags().DurationVar(&d.timeout, "timeout", 10*time.Minute, "How long to wait for the replacements. 0 waits without end.")
	cmd.Flags().BoolVar(&d.undo, "undo", false, "Uncordon the nodes and remove the mark. Replicas that were released are replaced all the same.")
	command.DryRunFlag(cmd, &d.dryRun)
	return cmd
}

// readSettings reads what decides which replicas are released.
func (d *drainer) readSettings(ctx context.Context) (err error) {
	i := access.Installation(d.Options)
	if d.settings, err = i.Settings(ctx, d.client); err == nil {
		err = i.AddController(ctx, d.client, d.settings)
	}
	if err == nil {
		err = d.settings.ControllerErr
	}
	return err
}

// marksOnly reports whether nothing is waited for.
func (d *drainer) marksOnly() bool { return d.undo || d.dryRun != command.DryRunNone }

func (d *drainer) run(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		if err := d.mark(ctx, name); err != nil {
			return err
		}
	}
	if d.marksOnly() {
		return nil
	}
	if d.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.timeout)
		defer cancel()
	}
	return d.wait(ctx, nodes)
}

// mark cordons a node and sets the annotation, or takes both back. A node that is marked already keeps the time.
func (d *drainer) mark(ctx context.Context, name string) error {
	node := &corev1.Node{}
	if err := d.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	verb := "cordoned and marked"
	_, marked := node.Annotations[v1alpha1.DrainAnnotation]
	if d.undo && !marked {
		fmt.Fprintf(d.Out, "node/%s is not marked, and stays as it is\n", name)
		return nil
	}
	if !d.undo && !marked {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[v1alpha1.DrainAnnotation] = d.Now().UTC().Format(time.RFC3339)
	}
	if node.Spec.Unschedulable = !d.undo; d.undo {
		verb = "uncordoned, mark removed"
		delete(node.Annotations, v1alpha1.DrainAnnotation)
	}
	if err := command.Writer(d.client, d.dryRun, fieldOwner).Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("node/%s: %w", name, err)
	}
	fmt.Fprintf(d.Out, "node/%s %s%s\n", name, verb, command.DryRunText(d.dryRun))
	return nil
}

// wait waits until no replica of a mix that releases is left on the nodes, and prints what happens.
func (d *drainer) wait(ctx context.Context, nodes []string) error {
	ticker := time.NewTicker(d.poll)
	defer ticker.Stop()
	p := newProgress()
	read := d.Now()
	for {
		pods, err := d.podsOn(ctx, nodes)
		if err == nil {
			var releases func(*corev1.Pod) (string, bool)
			if releases, err = d.releasers(ctx, pods); err == nil {
				read = d.Now()
				for _, line := range p.observe(pods, releases) {
					fmt.Fprintln(d.Out, line)
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return d.interrupted(ctx, p)
		case err != nil && d.Now().Sub(read) >= patience:
			return err
		case err == nil && p.done():
			d.summary(p, nodes)
			return nil
		}
		select {
		case <-ctx.Done():
			return d.interrupted(ctx, p)
		case <-ticker.C:
		}
	}
}

// interrupted is the error of a wait that ended before its time, or at its timeout.
func (d *drainer) interrupted(ctx context.Context, p *progress) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return fmt.Errorf("%s after %s; the nodes stay cordoned and marked (the condition Rebalancing of the mix has the reason: "+
		"kubectl berth status)", p.unfinished(), d.timeout)
}

func (d *drainer) podsOn(ctx context.Context, nodes []string) (all []corev1.Pod, err error) {
	for _, name := range nodes {
		list := &corev1.PodList{}
		if err := d.client.List(ctx, list, client.MatchingFields{"spec.nodeName": name}); err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", name, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}
