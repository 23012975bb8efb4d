// SPDX-License-Identifier: Apache-2.0

// Package reports has the reports and the plans of the console: it reads them as the commands of kubectl berth do, and prints those about
// environments alike.
package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/decisions"
	"berth.dev/berth/internal/cli/environments"
	"berth.dev/berth/internal/cli/logs"
	"berth.dev/berth/internal/console"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
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

// as reads for the user of a request, and returns warnings of what is missing.
func as[T any](ctx context.Context, r Reports, namespace string, read func(u *live.User) (T, error)) (v T, warnings []string, err error) {
	o, err := r.options(ctx, io.Discard, namespace)
	if err != nil {
		return v, nil, err
	}
	u, err := userOf(o)
	if err != nil {
		return v, nil, err
	}
	u.Warn = func(format string, args ...any) {
		warnings = append(warnings, "Warning: "+fmt.Sprintf(format, args...))
	}
	v, err = read(u)
	return v, warnings, err
}

// isUnread reports whether there may be records, because reading them has failed.
func isUnread(err error) bool { return err != nil && !errors.Is(err, decisions.ErrNoRecord) }

// decisionTimeout bounds how long the page of a pod waits for the record of its last attempt.
const decisionTimeout = 3 * time.Second

// Explain implements console.Reports. A page of one attempt is shown without it if the scheduler does not respond at once.
func (r Reports) Explain(ctx context.Context, pod client.ObjectKey, attempts int) (*overview.Explanation, []string, error) {
	return as(ctx, r, pod.Namespace, func(u *live.User) (*overview.Explanation, error) {
		a := decisions.Access{Config: u.Config, Client: u.Client, SystemNamespace: u.SystemNamespace, Now: u.Now()}
		last, unread := decisions.Last(attempts).Reader(a), false
		read := func(ctx context.Context, lease client.ObjectKey, pod *corev1.Pod, berths bool) ([]*decision.Record, error) {
			if attempts == 1 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, decisionTimeout)
				defer cancel()
			}
			records, err := last(ctx, lease, pod, berths)
			if err != nil {
				u.Warn("the decision of the scheduler cannot be shown: %v", err)
				unread = isUnread(err)
			}
			return records, nil
		}
		e, err := u.Explain(ctx, pod, read)
		if e != nil {
			e.DecisionsUnread = unread
		}
		return e, err
	})
}

// History implements console.Reports.
func (r Reports) History(ctx context.Context, kind string, workload client.ObjectKey) (*overview.History, []string, error) {
	return as(ctx, r, workload.Namespace, func(u *live.User) (*overview.History, error) { return u.History(ctx, kind, workload) })
}

// RecordHistory implements console.Reports.
func (r Reports) RecordHistory(ctx context.Context, record client.ObjectKey) (*overview.History, []string, error) {
	return as(ctx, r, record.Namespace, func(u *live.User) (*overview.History, error) {
		rec := &v1alpha1.DeploymentRecord{}
		if err := u.Client.Get(ctx, record, rec); err != nil {
			return nil, err
		}
		return u.RecordHistory(ctx, rec), nil
	})
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

// Containers implements console.Reports.
func (r Reports) Containers(ctx context.Context, pod client.ObjectKey) ([]string, error) {
	names, _, err := as(ctx, r, pod.Namespace, func(u *live.User) ([]string, error) {
		object := &corev1.Pod{}
		if err := u.Client.Get(ctx, pod, object); err != nil {
			return nil, err
		}
		return logs.Containers(object), nil
	})
	return names, err
}

// PodLogs implements console.Reports.
func (r Reports) PodLogs(ctx context.Context, out io.Writer, pod client.ObjectKey, container string, lines int64, follow bool) error {
	o, err := r.options(ctx, out, pod.Namespace)
	if err != nil {
		return err
	}
	c, err := o.Client()
	if err != nil {
		return err
	}
	return logs.OfPod(ctx, o, c, pod, container, lines, follow)
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
func (r Reports) Plan(ctx context.Context, q console.Question) (*overview.Plan, []string, error) {
	return as(ctx, r, q.Namespace, func(u *live.User) (*overview.Plan, error) {
		given, err := u.MixWith(ctx, q.ObjectKey, func(spec *v1alpha1.CapacityMixSpec) {
			spec.SpotPercent, spec.MinOnDemand, spec.MaxSpot = q.SpotPercent, q.MinOnDemand, q.MaxSpot
		})
		if err != nil {
			return nil, err
		}
		change, err := u.Validate(ctx, given)
		if err != nil {
			return nil, err
		}
		return u.Plan(ctx, []overview.MixChange{change}, false)
	})
}
