// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/oaas"
	"berth.dev/berth/internal/config/program"
)

// options is the command line.
type options struct {
	file string
	// validate has the command end once the configuration is known to be valid.
	validate bool
	logs     program.Logging
	// flags holds the values of the flags; only those that were given count.
	flags *controller.Configuration
}

// newOptions shows the defaults of the file as those of the flags: there is one set of defaults.
func newOptions() *options {
	return &options{flags: controller.Default()}
}

// fields returns a pointer to what each flag sets in a configuration.
func fields(c *controller.Configuration) map[string]any {
	return map[string]any{
		"controllers":               &c.Controllers,
		"dry-run":                   &c.DryRun,
		"health-probe-bind-address": &c.Health.BindAddress,
		"kubeconfig":                &c.ClientConnection.Kubeconfig,
		"leader-elect":              &c.LeaderElection.Enabled,
		"leader-elect-namespace":    &c.LeaderElection.Namespace,
		"metrics-bind-address":      &c.Metrics.BindAddress,
		"metrics-secure":            &c.Metrics.Secure,
		"namespaces":                &c.Namespaces,
		"resync-interval":           &c.ResyncSeconds,
		"scheduler-config":          &c.SchedulerConfig,
		"webhook":                   &c.Webhook.Enabled,
		"webhook-bind-address":      &c.Webhook.BindAddress,
	}
}

func (o *options) addFlags(sections *cliflag.NamedFlagSets) {
	c := o.flags
	fs := sections.FlagSet("configuration")
	fs.StringVar(&o.file, "config", "", "The configuration file. Without one the defaults apply.")
	fs.BoolVar(&o.validate, "validate-config", false,
		"Print whether the configuration, with variables and flags, is valid, and exit: with code 1 if it is not. Nothing else is read. (default false)")
	fs.StringVar(&c.SchedulerConfig, "scheduler-config", c.SchedulerConfig,
		"The file that berth-scheduler runs with: scheduler names and rules for node types are taken from it. "+
			"Without one the scheduler's defaults apply.")

	fs = sections.FlagSet("controllers")
	all, off := controller.KnownControllers()
	fs.StringSliceVar(&c.Controllers, "controllers", c.Controllers, fmt.Sprintf(
		"The controllers to run: '*' runs those that are on by default, 'foo' runs foo, '-foo' does not. All controllers: %s. Off by default: %s.",
		strings.Join(all, ", "), strings.Join(off, ", ")))
	fs.StringSliceVar(&c.Namespaces, "namespaces", c.Namespaces,
		"Reconcile the workloads of these namespaces only, separated by commas. Without it: all.")
	fs.Var((*seconds)(&c.ResyncSeconds), "resync-interval",
		"How often every workload is reconciled although nothing changed; at least 5s.")
	fs.BoolVar(&c.DryRun, "dry-run", c.DryRun, "Decide and report, but evict no pod and repair no annotation. (default false)")

	fs = sections.FlagSet("leader election")
	fs.BoolVar(&c.LeaderElection.Enabled, "leader-elect", c.LeaderElection.Enabled,
		"Only the replica that holds the lease acts. Disable it only if there is one replica.")
	fs.StringVar(&c.LeaderElection.Namespace, "leader-elect-namespace", c.LeaderElection.Namespace,
		"The namespace of the lease. Without it: the one that the controller runs in, else berth-system.")

	fs = sections.FlagSet("serving")
	fs.StringVar(&c.Metrics.BindAddress, "metrics-bind-address", c.Metrics.BindAddress, `Address that serves /metrics; "0" disables it.`)
	fs.BoolVar(&c.Metrics.Secure, "metrics-secure", c.Metrics.Secure,
		"Serve /metrics over TLS, and only to those who may get it by the cluster's RBAC.")
	fs.StringVar(&c.Health.BindAddress, "health-probe-bind-address", c.Health.BindAddress,
		`Address that serves /healthz and /readyz; "0" disables it.`)
	fs.BoolVar(&c.Webhook.Enabled, "webhook", c.Webhook.Enabled,
		"Serve the admission webhook that completes new pods of namespaces labelled berth.dev/inject=enabled. (default false)")
	fs.StringVar(&c.Webhook.BindAddress, "webhook-bind-address", c.Webhook.BindAddress, "Where the webhook is served.")

	fs = sections.FlagSet("API server")
	fs.StringVar(&c.ClientConnection.Kubeconfig, "kubeconfig", c.ClientConnection.Kubeconfig,
		"The kubeconfig to use. Without it: the pod's service account; outside of a cluster, what kubectl takes.")

	o.logs.AddFlags(sections.FlagSet("logging"))
}

// configuration returns the defaults, overridden by the file, by the variables of the class runtime manager of OaaS, and by the flags
// that were given.
func (o *options) configuration(given func(flag string) bool) (*controller.Configuration, error) {
	c, err := program.Read(o.file)
	if err != nil {
		return nil, err
	}
	warnings, err := oaas.Apply(c, os.Environ())
	for _, warning := range warnings {
		ctrl.Log.WithName("berth-controller").Info("An environment variable of the class runtime manager has no effect", "variable", warning)
	}
	if err != nil {
		return nil, fmt.Errorf("environment variables of the class runtime manager: %w", err)
	}
	program.Override(c, o.flags, fields, given)
	if c.Console.Enabled() {
		return nil, errors.New("the configuration is not valid: console.bindAddress is set, but only berth-console serves the console")
	}
	if errs := c.Validate(); len(errs) > 0 {
		var lines []string
		for _, err := range errs {
			lines = append(lines, err.Error())
		}
		return nil, fmt.Errorf("the configuration is not valid: %s", strings.Join(lines, "; "))
	}
	return c, nil
}

// seconds is a flag that takes a duration and keeps it as the file does.
type seconds int32

func (s *seconds) String() string { return (time.Duration(*s) * time.Second).String() }

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d%time.Second != 0 || d/time.Second > math.MaxInt32 || d/time.Second < math.MinInt32 {
		return fmt.Errorf("%s is not a whole number of seconds", d)
	}
	*s = seconds(d / time.Second)
	return nil
}
