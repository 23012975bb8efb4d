// SPDX-License-Identifier: Apache-2.0

// Package doctor has the command that checks the installation and the workloads.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

const aboutDoctor = `Checks that Berth is installed, runs, and has the rights that it needs. Finds what prevents workloads from satisfying their mix: nodes of
unknown type, pods that another scheduler schedules or that wait for their slot, workloads that an autoscaler cannot evaluate, deletion
costs that were overwritten, mixes that conflict or govern single replicas that never run on spot, disruption budgets that overlap, pods that wait because of their ResourceLimit,
SchedulingPolicies that are not accepted, Reservations that hold too little, moves that have been paused for more than a day,
interruptions that scheduler and controller do not share, pods that a request evicts although their mix releases them.

The command exits with code 1 if a check fails. It creates access reviews, which are not stored.`

// Level of a finding.
type Level string

// Levels.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"`
	Message string `json:"message"`
	// Next is what to do about it.
	Next string `json:"next,omitempty"`
}

// Report is what `doctor` shows.
type Report struct {
	Findings []Finding `json:"findings"`
}

func (r *Report) add(level Level, check, next, format string, args ...any) {
	f := Finding{Level: level, Check: check, Message: fmt.Sprintf(format, args...)}
	if level != OK {
		f.Next = next
	}
	r.Findings = append(r.Findings, f)
}

func (r *Report) failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Fail })
}

// patient is what the checks look at.
type patient struct {
	client    client.Client
	kube      kubernetes.Interface
	discovery discovery.DiscoveryInterface
	settings  *overview.Settings
	// settingsErr is why the scheduler's configuration cannot be used.
	settingsErr error
	namespace   string
	// systemNamespace is where Berth is installed.
	systemNamespace string
	now             time.Time
	// leaderless is set where no scheduler was found to lead.
	leaderless  bool
	autoscalers autoscalers
	// cluster is nil where the CRD is missing or the configuration is broken.
	cluster *overview.Cluster
}

// New returns the command doctor.
func New(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Check the installation of Berth and the state of its workloads",
		Long:    aboutDoctor + "\n\nWithout -n, or with -A, the command checks the workloads of all namespaces.",
		Example: "  kubectl berth doctor\n  kubectl berth doctor -n shop -o json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := newPatient(o, cmd)
			if err != nil {
				return err
			}
			r, err := p.examine(cmd.Context())
			if err != nil {
				return err
			}
			if err := showReport(o, r); err != nil {
				return err
			}
			if r.failed() {
				return command.ErrFailed
			}
			return nil
		},
	}
	o.AllNamespacesFlag(cmd)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

func newPatient(o *command.Options, cmd *cobra.Command) (*patient, error) {
	p := &patient{now: o.Now(), systemNamespace: o.SystemNamespace}
	config, err := o.RestConfig()
	if err != nil {
		return nil, err
	}
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	p.discovery = p.kube.Discovery() // not the cached one: it would not have what is there now
	if p.client, err = o.Client(); err != nil {
		return nil, err
	}
	if given := cmd.Flags().Lookup("namespace"); given != nil && given.Changed {
		if p.namespace, err = o.Namespace(); err != nil {
			return nil, err
		}
	}
	i := access.Installation(o)
	if p.settings, p.settingsErr = i.Settings(cmd.Context(), p.client); p.settingsErr == nil {
		if err := i.AddController(cmd.Context(), p.client, p.settings); err != nil {
			p.settings, p.settingsErr = nil, err
		}
	}
	return p, nil
}

// examine runs all checks, those that others depend on first.
func (p *patient) examine(ctx context.Context) (*Report, error) {
	r := &Report{}
	if err := p.version(r); err != nil {
		return nil, err // nothing answers: all else would fail for the same reason
	}
	served := p.crds(ctx, r)
	p.profile(r)
	p.controller(r)
	p.ownRights(ctx, r)
	p.accountRights(ctx, r)
	p.leases(ctx, r)
	if !served || p.settings == nil {
		return r, nil
	}
	cluster, err := live.Load(ctx, p.client, p.settings, p.namespace)
	if err != nil {
		return nil, err
	}
	if err := live.LoadLimits(ctx, p.client, cluster, p.namespace); err != nil {
		return nil, err
	}
	if err := live.LoadPolicies(ctx, p.client, cluster, p.namespace); err != nil {
		return nil, err
	}
	p.cluster, p.autoscalers = cluster, p.findAutoscalers(ctx)
	p.signalRights(ctx, r)
	for _, problem := range cluster.Problems {
		r.add(Warn, "read "+problem.Resource, "get the right to list them, or choose a namespace with -n", "%s", problem)
	}
	for _, check := range []func(*Report){
		p.nodes, p.mixes, p.conflicts, p.groupsOfOne, p.bypasses, p.gates, p.ungated, p.unprovided, p.deletionCosts, p.budgets,
		p.floors, p.reports, p.limits, p.policies, p.reservations,
	} {
		check(r)
	}
	p.pauses(ctx, r)
	p.interruptions(ctx, r)
	p.evictionRequests(ctx, r)
	return r, nil
}

func showReport(o *command.Options, r *Report) error {
	t := &printers.Table{Header: []string{"RESULT", "CHECK", "MESSAGE"}}
	for _, f := range r.Findings {
		message := f.Message
		if f.Next != "" {
			message += "; fix: " + f.Next
		}
		t.Add(f.Level, f.Check, message)
	}
	return o.PrintList(r, t, "")
}

// podName is a pod with its namespace.
func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
