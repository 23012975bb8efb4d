// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of berth-sim.
package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/sim/optimum"
	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/sweep"
	"berth.dev/berth/internal/sim/wholefile"
	"berth.dev/berth/simulator"
)

// pluginName is the name under which kubectl runs the program for `kubectl berth simulate`.
const pluginName = "kubectl-berth-simulate"

var formats = map[string]func(io.Writer, *report.Result) error{"table": report.Text, "json": report.JSON, "html": report.HTML}

type flags struct {
	policies []string
	sweep    []string
	parallel int
	output   string
	html     string
	seed     uint64
	quiet    bool
}

// New returns the command. The name is that of the program.
func New(program string, streams genericiooptions.IOStreams) *cobra.Command {
	use := "berth-sim"
	if strings.HasPrefix(filepath.Base(program), pluginName) {
		use = "kubectl berth simulate"
	}
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "berth-sim SCENARIO",
		Short: "Simulate workloads, node pools and interruptions, with and without Berth",
		Long: `Simulate workloads, node pools and interruptions by a clock of their own, with the scheduler plugin and the rebalancer of Berth as they
are, and without an API server. The same scenario is run under each policy:

` + describe() + `
The same scenario and seed give the same figures. docs/simulation.md describes the file and what the figures are not.`,
		Example: fmt.Sprintf(`  %[1]s scenario.yaml
  %[1]s scenario.yaml --policies Berth,OnDemand -o json
  %[1]s scenario.yaml --html result.html
  %[1]s scenario.yaml --policies Berth --sweep spotPercent=50,70,90 --sweep minOnDemand=0,2
  %[1]s derive cluster.json.gz > scenario.yaml`, use),
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, args []string) error { return f.run(cmd, streams, args[0]) },
	}
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: use}
	cmd.Flags().StringSliceVar(&f.policies, "policies", names(), "policies to simulate, in the order of the results")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "format of the results: table, json or html")
	cmd.Flags().StringVar(&f.html, "html", "", "file for the results with pictures, in addition to the output")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "seed of all random numbers, instead of that of the scenario")
	cmd.Flags().StringArrayVar(&f.sweep, "sweep", nil, "`field=value,value` of the mixes: Berth is simulated with each combination of the values "+
		"of all fields, at most "+strconv.Itoa(sweep.MaxVariants)+". The fields are "+strings.Join(sweep.Names(), ", "))
	cmd.Flags().IntVar(&f.parallel, "parallel", 0, "simulations that run at a time, with the same results. 0 is the number of processors")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
	cmd.CompletionOptions.DisableDefaultCmd = true // a scenario may have any name
	cmd.AddCommand(newDerive(use, streams))
	return cmd
}

func names() (list []string) {
	for _, p := range simulator.Policies {
		list = append(list, p.Name)
	}
	return list
}

func describe() string {
	var b strings.Builder
	for _, p := range simulator.Policies {
		fmt.Fprintf(&b, "  %-15s %s\n", p.Name, p.Description)
	}
	return b.String()
}

func (f *flags) run(cmd *cobra.Command, streams genericiooptions.IOStreams, path string) error {
	write := formats[f.output]
	if write == nil {
		return fmt.Errorf("--output: Unsupported value: %q: want table, json or html", f.output)
	}
	policies, variants, err := f.parse()
	if err != nil {
		return err
	}
	s, err := scenario.Load(path)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("seed") {
		s.Seed = f.seed
	}
	if f.html != "" {
		if err := wholefile.Check(f.html); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	tasks, err := tasksOf(s, policies, variants)
	if err != nil {
		return err
	}
	least := optimum.Of(cmd.Context(), s)
	result := &report.Result{
		Scenario: path, Seed: s.Seed, Seconds: s.Duration.Seconds(), OptimumDollars: least.Dollars,
		Notes: append(notesOf(tasks), least.Note),
	}
	if len(variants) > 0 {
		result.Notes = append(result.Notes, noteOfSweep)
	}
	if result.Runs, err = f.simulate(cmd.Context(), streams.ErrOut, tasks, least); err != nil {
		return err
	}
	if err := write(streams.Out, result); err != nil || f.html == "" {
		return err
	}
	return wholefile.Write(f.html, func(w io.Writer) error { return report.HTML(w, result) })
}

// parse returns what the flags select. Only Berth has mixes to sweep.
func (f *flags) parse() ([]simulator.Policy, []sweep.Variant, error) {
	if f.parallel < 0 {
		return nil, nil, fmt.Errorf("--parallel: Invalid value: %d: must not be negative", f.parallel)
	}
	policies, err := f.chosen()
	if err != nil {
		return nil, nil, err
	}
	variants, err := sweep.Parse(f.sweep)
	if err == nil && len(variants) > 0 && !slices.ContainsFunc(policies, swept) {
		err = errors.New("--sweep: Forbidden: only the policy Berth has mixes, and --policies lacks it")
	}
	return policies, variants, err
}

func (f *flags) chosen() (list []simulator.Policy, err error) {
	for _, name := range f.policies {
		i := slices.IndexFunc(simulator.Policies, func(p simulator.Policy) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("--policies: Unsupported value: %q: want some of %s", name, strings.Join(names(), ", "))
		}
		if slices.ContainsFunc(list, func(p simulator.Policy) bool { return p.Name == name }) {
			return nil, fmt.Errorf("--policies: Duplicate value: %q", name)
		}
		list = append(list, simulator.Policies[i])
	}
	if len(list) == 0 {
		return nil, errors.New("--policies: Required value: want at least one policy")
	}
	return list, nil
}
