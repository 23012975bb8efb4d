// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
)

const (
	aboutStart = `Starts an environment that is stopped or stopping: its components stage by stage, each when the previous stage is ready, with the replicas
that they had.`
	aboutStop = `Stops an environment: its components in the reverse of the order in which they start. Its volumes, ports and addresses stay. --force stops
all components at once, without their termination grace period; it can also be given while the environment is stopping.`
	aboutWait    = "Wait until the environment has the desired state; exit with code 1 if it fails."
	aboutTimeout = "With --wait: how long to wait at most."
	aboutRestart = `Replaces all pods of an environment, stage by stage, each when the previous stage is ready again. An environment that is stopped is started.`
	// pollInterval is how often the state of an environment is read.
	pollInterval = time.Second
	// environmentTimeout is the default of --timeout.
	environmentTimeout = 10 * time.Minute
)

// runFlags are the flags of start, stop and restart.
type runFlags struct {
	force  bool
	dryRun string
	waitFlags
}

func newStart(o *command.Options) *cobra.Command {
	return runCommand(o, "start", "started", "Start an environment that is stopped", aboutStart, "  kubectl berth env start shop --wait",
		func(e *v1alpha1.Environment, _ *runFlags) error { return render.Start(e) })
}

func newStop(o *command.Options) *cobra.Command {
	return runCommand(o, "stop", "stopping", "Stop an environment", aboutStop,
		"  kubectl berth env stop shop\n  kubectl berth env stop shop --force --wait",
		func(e *v1alpha1.Environment, f *runFlags) error { return render.Stop(e, f.force) })
}

func newRestart(o *command.Options) *cobra.Command {
	return runCommand(o, "restart", "restarting", "Replace all pods of an environment", aboutRestart,
		"  kubectl berth env restart shop --wait --timeout 5m",
		func(e *v1alpha1.Environment, _ *runFlags) error { return render.Restart(e, o.Now()) })
}

// runCommand is a command that changes whether an environment runs.
func runCommand(o *command.Options, verb, done, short, long, example string,
	once func(e *v1alpha1.Environment, f *runFlags) error,
) *cobra.Command {
	f := &runFlags{waitFlags: waitFlags{poll: pollInterval}}
	cmd := anEnvironment(o, verb, short, long, example, func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
		return runEnvironment(ctx, o, c, env, f, done, once)
	})
	if verb == "stop" {
		cmd.Flags().BoolVar(&f.force, "force", false, "Stop all containers at once, without a grace period.")
	}
	f.addTo(cmd, aboutWait, environmentTimeout, aboutTimeout)
	command.DryRunFlag(cmd, &f.dryRun)
	return cmd
}

func runEnvironment(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *runFlags, done string,
	once func(e *v1alpha1.Environment, f *runFlags) error,
) error {
	w := command.Writer(c, f.dryRun, fieldOwner)
	after, err := change.Environment(ctx, w, env, func(e *v1alpha1.Environment) error { return once(e, f) })
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s %s%s\n", environmentKind.Name(env.Name), done, command.DryRunText(f.dryRun))
	if command.IsDryRun(f.dryRun) {
		return nil
	}
	return f.awaitEnvironment(ctx, o, c, after)
}

// waitFlags are the flags of a command that waits for what it has started.
type waitFlags struct {
	wait          bool
	timeout, poll time.Duration
}

func (f *waitFlags) addTo(cmd *cobra.Command, about string, timeout time.Duration, aboutTimeout string) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, about)
	cmd.Flags().DurationVar(&f.timeout, "timeout", timeout, aboutTimeout)
}

// await polls until something is done, until --timeout. last returns what was read of it last.
func (f *waitFlags) await(ctx context.Context, what string, done wait.ConditionWithContextFunc, last func() (state, message string)) error {
	err := wait.PollUntilContextTimeout(ctx, f.poll, f.timeout, true, done)
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		state, message := last()
		return fmt.Errorf("%s is %s after %s: %s", what, state, f.timeout, message)
	case err != nil:
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// awaitEnvironment waits until an environment is in the state of its spec, if --wait is set.
func (f *waitFlags) awaitEnvironment(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
	if !f.wait {
		return nil
	}
	last := env
	err := f.await(ctx, environmentKind.Name(env.Name), func(ctx context.Context) (bool, error) {
		now := &v1alpha1.Environment{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(env), now); err != nil {
			return false, err
		}
		if now.UID != env.UID {
			return false, fmt.Errorf("it was deleted and recreated")
		}
		last = now
		return arrived(now, env.Generation)
	}, func() (state, message string) { return string(render.PhaseOf(last)), last.Status.Message })
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s is %s\n", environmentKind.Name(env.Name), render.PhaseOf(last))
	return nil
}

// arrived reports whether an environment is in the state of its spec, and an error if it will not get there by itself. Until the
// controller has seen a generation, its status is about another.
func arrived(e *v1alpha1.Environment, generation int64) (bool, error) {
	if e.DeletionTimestamp != nil {
		return false, fmt.Errorf("it is being deleted")
	}
	if e.Status.ObservedGeneration < generation {
		return false, nil
	}
	switch e.Status.Phase {
	case v1alpha1.EnvironmentFailed:
		return false, fmt.Errorf("it failed: %s", e.Status.Message)
	case v1alpha1.EnvironmentStopped:
		return e.Spec.RunPolicy == v1alpha1.RunPolicyStopped, nil
	case v1alpha1.EnvironmentRunning:
		return e.Spec.RunPolicy != v1alpha1.RunPolicyStopped &&
			meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionReady), nil
	}
	return false, nil
}

// fieldOwner is the manager of the fields that the env commands set.
const fieldOwner = render.CommandManager
