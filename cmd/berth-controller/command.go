// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/buildinfo"
	"berth.dev/berth/internal/config/oaas"
	"berth.dev/berth/internal/config/program"
)

const about = `berth-controller reconciles CapacityMixes, ResourceLimits, DeploymentRecords and Environments.

It reports the status of each workload in the status of its CapacityMix, and moves replicas that run on the wrong
type of node: by evictions only, one after the other, where capacity for the replacement is proven.

It reads a configuration file, environment variables and flags. A flag has precedence over its variable, and the
variable over the file. The variable of --resync-interval is BERTH_CONTROLLER_RESYNC_INTERVAL. Every field of the
file is in manifests/controller/config.yaml; some take effect when the file changes: docs/configuration.md. The
command "run" is the default. Start with --dry-run to see what it would do.`

// newCommand returns the command, which hands the configuration that results from file and flags to run, and where it is from.
func newCommand(run program.Run) *cobra.Command {
	o := newOptions()
	// Not cobra's Version: its template is text/template, which keeps the linker from leaving out methods that no one
	// calls, and they are a third of the program (hack/cluster.BuildTags).
	var printVersion bool
	cmd := &cobra.Command{
		Use:       "berth-controller [run]",
		Long:      about,
		ValidArgs: []string{"run"},
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		// main prints the error once; the usage would hide it.
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printVersion {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.Line("berth-controller"))
				return err
			}
			if err := setFromEnviron(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			if v, requested := oaas.Verbosity(os.LookupEnv); requested && !cmd.Flags().Changed("v") {
				o.logs.Verbosity = v
			}
			load := func() (*controller.Configuration, error) { return o.configuration(cmd.Flags().Changed) }
			return program.Start(cmd, &o.logs, program.Source{File: o.file, Load: load}, o.validate, run)
		},
	}
	var sections cliflag.NamedFlagSets
	o.addFlags(&sections)
	other := sections.FlagSet("other")
	other.BoolP("help", "h", false, "Print this and exit.")
	other.BoolVar(&printVersion, "version", false, "Print the version and exit.")
	for _, name := range sections.Order {
		cmd.Flags().AddFlagSet(sections.FlagSets[name])
	}
	width, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		width = 0 // not a terminal: nothing is wrapped
	}
	cliflag.SetUsageAndHelpFunc(cmd, sections, width)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w (see berth-controller --help)", err)
	})
	return cmd
}
