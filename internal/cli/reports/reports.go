// SPDX-License-Identifier: Apache-2.0

// Package reports has the reports and the plans of the console: it reads them as the commands of kubectl berth do, and prints them alike.
package reports

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/decisions"
	"berth.dev/berth/internal/cli/environments"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/console"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// Reports implements console.Reports.
type Reports struct {
	// Connect returns the configuration of clients of the user of a request, and the installation.
	Connect func(ctx context.Context) (*rest.Config, live.Installation, error)
}

var _ console.Reports = Reports{}

// options are those of a command that reads a namespace as the user of a request, and writes all that it prints to out. They read no
// kubeconfig.
func (r Reports) options(ctx context.Context, out io.Writer, namespace string) (*command.Options, error) {
	config, i, err := r.Connect(ctx)
	if err != nil {
		return nil, err
	}
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	flags.KubeConfig, flags.APIServer, flags.Namespace = new(os.DevNull), &config.Host, &namespace
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return rest.CopyConfig(config) }
	return &command.Options{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}, Now: time.Now, Flags: flags,
		SystemNamespace: i.SystemNamespace, SchedulerConfig: i.SchedulerConfig,
	}, nil
}

// userOf reads with the options of a command.
func userOf(o *command.Options) (*live.User, error) {
	config, err := o.RestConfig()
	if err != nil {
		return nil, err
	}
	c, err := o.Client()
	i := live.Installation{SystemNamespace: o.SystemNamespace, SchedulerConfig: o.SchedulerConfig}
	return &live.User{Installation: i, Config: config, Client: c, Now: o.Now, Warn: o.Warn}, err
}

// write shows what read returns for the user of a request.
func write[T any](ctx context.Context, r Reports, out io.Writer, namespace string, read func(u *live.User) (T, error),
	shown func(o *command.Options, v T) error,
) error {
	o, err := r.options(ctx, out, namespace)
	if err != nil {
		return err
	}
	u, err := userOf(o)
	if err != nil {
		return err
	}
	v, err := read(u)
	if err != nil {
		return err
	}
	return shown(o, v)
}

// Explain implements console.Reports.
func (r Reports) Explain(ctx context.Context, out io.Writer, pod client.ObjectKey, scores bool) error {
	attempts := &decisions.Flags{}
	if scores {
		attempts = decisions.Last()
	}
	return write(ctx, r, out, pod.Namespace, func(u *live.User) (*overview.Explanation, error) {
		a := decisions.Access{Config: u.Config, Client: u.Client, SystemNamespace: u.SystemNamespace, Now: u.Now()}
		return u.Explain(ctx, pod, attempts.Reader(a))
	}, show.Explanation)
}

// History implements console.Reports.
func (r Reports) History(ctx context.Context, out io.Writer, kind string, workload client.ObjectKey) error {
	return write(ctx, r, out, workload.Namespace, func(u *live.User) (*overview.History, error) {
		return u.History(ctx, kind, workload)
	}, show.History)
}

// RecordHistory implements console.Reports.
func (r Reports) RecordHistory(ctx context.Context, out io.Writer, record client.ObjectKey) error {
	return write(ctx, r, out, record.Namespace, func(u *live.User) (*overview.History, error) {
		rec := &v1alpha1.DeploymentRecord{}
		if err := u.Client.Get(ctx, record, rec); err != nil {
			return nil, err
		}
		return u.RecordHistory(ctx, rec), nil
	}, show.History)
}

// Nodes implements console.Reports.
func (r Reports) Nodes(ctx context.Context, out io.Writer) error {
	return write(ctx, r, out, "", func(u *live.User) (*overview.Nodes, error) { return u.Nodes(ctx, false, nil) }, show.Nodes)
}

// about runs a report about an environment as the user of a request.
func (r Reports) about(ctx context.Context, out io.Writer, environment client.ObjectKey, report environments.Report) error {
	o, err := r.options(ctx, out, environment.Namespace)
	if err != nil {
		return err
	}
	return report.Run(ctx, o, environment)
}

// Logs implements console.Reports.
func (r Reports) Logs(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, lines int64, follow bool) error {
	return r.about(ctx, out, environment, environments.Logs(component, lines, follow))
}

// Revisions implements console.Reports.
func (r Reports) Revisions(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return r.about(ctx, out, environment, environments.Revisions)
}

// Rollback implements console.Reports.
func (r Reports) Rollback(ctx context.Context, out io.Writer, environment client.ObjectKey, revision int32, preview bool) error {
	return r.about(ctx, out, environment, environments.Rollback(revision, preview))
}

// Scale implements console.Reports.
func (r Reports) Scale(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, replicas int32) error {
	return r.about(ctx, out, environment, environments.Scale(component, replicas))
}

// Backups implements console.Reports.
func (r Reports) Backups(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return r.about(ctx, out, environment, environments.Backups)
}

// BackUp implements console.Reports.
func (r Reports) BackUp(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return r.about(ctx, out, environment, environments.BackUpDatabase)
}

// Plan is a console.Planner.
func (r Reports) Plan(ctx context.Context, q console.Question) (p *overview.Plan, warnings []string, err error) {
	o, err := r.options(ctx, io.Discard, q.Namespace)
	if err != nil {
		return nil, nil, err
	}
	u, err := userOf(o)
	if err != nil {
		return nil, nil, err
	}
	u.Warn = func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("Warning: "+format, args...))
	}
	given, err := u.MixWith(ctx, q.ObjectKey, func(spec *v1alpha1.CapacityMixSpec) {
		spec.SpotPercent, spec.MinOnDemand, spec.MaxSpot = q.SpotPercent, q.MinOnDemand, q.MaxSpot
	})
	if err != nil {
		return nil, nil, err
	}
	change, err := u.Validate(ctx, given)
	if err != nil {
		return nil, nil, err
	}
	p, err = u.Plan(ctx, []overview.MixChange{change}, false)
	return p, warnings, err
}
