// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/config/buildinfo"
	"berth.dev/berth/internal/config/program"
	"berth.dev/berth/internal/mix/pricefeed"
)

const about = `berth-console serves web pages about the mixes, resource limits, deployment records and environments of a cluster. Users sign in with a bearer
token: they see what they may list, and change what they may change.

It reads a ControllerConfiguration: the sections console, clientConnection, health and metrics, and schedulerConfig. A flag has precedence over
the file.`

// mostVerbose is the highest verbosity. Above it, the client logs the bodies of requests, which have the tokens of users.
const mostVerbose = 7

// options is the command line.
type options struct {
	file     string
	validate bool
	version  bool
	logs     program.Logging
	prices   command.Prices
	// flags has the values of the flags; only those that were given count.
	flags *controller.Configuration
}

// fields returns a pointer to what each flag sets in a configuration.
func fields(c *controller.Configuration) map[string]any {
	return map[string]any{
		"bind-address":              &c.Console.BindAddress,
		"health-probe-bind-address": &c.Health.BindAddress,
		"kubeconfig":                &c.ClientConnection.Kubeconfig,
		"metrics-bind-address":      &c.Metrics.BindAddress,
		"scheduler-config":          &c.SchedulerConfig,
	}
}

func (o *options) addFlags(cmd *cobra.Command) {
	fs, c := cmd.Flags(), o.flags
	fs.StringVar(&o.file, "config", "", "The configuration file.")
	fs.BoolVar(&o.validate, "validate-config", false, "Print whether the configuration, with flags, is valid, and exit: with code 1 if it is not.")
	fs.BoolVar(&o.version, "version", false, "Print the version and exit.")
	fs.StringVar(&c.Console.BindAddress, "bind-address", c.Console.BindAddress, "Where the console is served.")
	fs.StringVar(&c.SchedulerConfig, "scheduler-config", c.SchedulerConfig,
		"The file that berth-scheduler runs with: scheduler names and rules for node types are taken from it. "+
			"Without one the scheduler's defaults apply.")
	fs.StringVar(&c.Metrics.BindAddress, "metrics-bind-address", c.Metrics.BindAddress, `Address that serves /metrics; "0" disables it.`)
	fs.StringVar(&c.Health.BindAddress, "health-probe-bind-address", c.Health.BindAddress,
		`Address that serves /healthz and /readyz; "0" disables it.`)
	fs.StringVar(&c.ClientConnection.Kubeconfig, "kubeconfig", c.ClientConnection.Kubeconfig,
		"The kubeconfig to use. Without it: the pod's service account; outside of a cluster, what kubectl takes.")
	o.prices.Flags(cmd)
	o.logs.AddFlags(fs)
}

// newCommand returns the command, which hands the configuration that results from file and flags to what run returns for a feed of the
// prices of nodes, and where it is from.
func newCommand(run func(*pricefeed.Feed) program.Run) *cobra.Command {
	o := &options{flags: controller.Default(), logs: program.Logging{Most: mostVerbose}}
	cmd := &cobra.Command{
		Use: "berth-console", Long: about, Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.Line("berth-console"))
				return err
			}
			feed, err := o.feed(cmd.Context())
			if err != nil {
				return err
			}
			load := func() (*controller.Configuration, error) { return o.configuration(cmd.Flags().Changed) }
			return program.Start(cmd, &o.logs, program.Source{File: o.file, Load: load}, o.validate, run(feed))
		},
	}
	o.addFlags(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w (see berth-console --help)", err)
	})
	return cmd
}

// feed returns the feed of the prices of nodes. It reads nothing yet.
func (o *options) feed(ctx context.Context) (*pricefeed.Feed, error) {
	if err := o.prices.CheckFeed(); err != nil {
		return nil, err
	}
	return o.prices.Feed(ctx, func(err error) {
		log := ctrl.Log.WithName("prices")
		if err != nil {
			log.Error(err, "Could not read the prices of nodes")
			return
		}
		log.Info("Read the prices of nodes again")
	})
}

// configuration returns the defaults, overridden by the file and by the flags that were given.
func (o *options) configuration(given func(flag string) bool) (*controller.Configuration, error) {
	c, err := program.Read(o.file)
	if err != nil {
		return nil, err
	}
	program.Override(c, o.flags, fields, given)
	if errs := c.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration is not valid: %w", errs.ToAggregate())
	}
	if !c.Console.Enabled() {
		return nil, errors.New(`the configuration is not valid: console.bindAddress is "0", so that nothing is served`)
	}
	return c, nil
}
