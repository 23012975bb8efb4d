// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

const aboutSavings = `Shows what the replicas of mixes cost, and what they save against on-demand nodes of the same instance types, in US dollars a month of 730
hours. All figures are of the pods that run now.

COST is what the pods cost where they run, and ON-DEMAND what they would cost on on-demand nodes only. SAVED is the difference. AVAILABLE is
what the replicas would save more that have a spot slot and run on on-demand nodes. FLOOR is what the replicas of minOnDemand would save on
spot nodes: the price of the floor. PRICED counts the pods that have a price. Pods without a price are in no amount.

A pod costs its part of its node, by its requests of CPU and memory. Prices are those of --prices, else those of Karpenter and OpenCost by
--prices-metrics or --prices-prometheus, else of public lists that are built in, else rates for CPU and memory. NodeOverlays of Karpenter set
and change prices. The output names the source and its age: prices older than 90 days are estimates.`

// maxNote is the length of a note about prices, which can name what others wrote.
const maxNote = 300

// savingsCSV is the format of spreadsheets.
const savingsCSV = "csv"

// NewSavings returns the command savings.
func NewSavings(o *command.Options) *cobra.Command {
	by, from := string(savings.ByWorkload), command.Prices{}
	cmd := &cobra.Command{
		Use:   "savings",
		Short: "Show what mixes save, what they could save, and what their floor costs",
		Long:  aboutSavings,
		Example: "  kubectl berth savings -n shop\n  kubectl berth savings -A --by namespace\n" +
			"  kubectl berth savings -A --prices prices.yaml --discount 20 -o csv > savings.csv\n" +
			"  kubectl berth savings -A --prices-prometheus http://localhost:9090",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := from.Options(cmd.Context(), o.In, o.Now())
			if err != nil {
				return err
			}
			return runSavings(cmd.Context(), o, options, savings.By(by))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&by, "by", by, "What a row is of, one of: "+strings.Join(byNames(), ", ")+".")
	from.Flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(byNames(), cobra.ShellCompDirectiveNoFileComp))
	command.Check(cmd, func() error {
		if !slices.Contains(byNames(), by) {
			return fmt.Errorf("--by is %q: it must be one of %s", by, strings.Join(byNames(), ", "))
		}
		return from.Check()
	})
	o.AllNamespacesFlag(cmd)
	o.SelectorFlag(cmd, "for the pods of workloads")
	o.OutputFlag(cmd, printers.JSON, printers.YAML, savingsCSV)
	return cmd
}

func byNames() (names []string) {
	for _, by := range savings.All {
		names = append(names, string(by))
	}
	return names
}

func runSavings(ctx context.Context, o *command.Options, options prices.Options, by savings.By) error {
	namespace, u, err := access.User(o)
	if err != nil {
		return err
	}
	cluster, err := u.Load(ctx, namespace)
	if err != nil {
		return err
	}
	for _, resource := range overview.SavingsRequire {
		if cluster.Missing(resource) {
			return errors.New("cannot list " + resource + ": what replicas cost depends on them")
		}
	}
	book, err := u.Prices(ctx, options)
	if err != nil {
		return err
	}
	warnOf(o, book)
	return showSavings(o, cluster.Overview(o.Selector()).Savings(cluster.Nodes, book, by, o.Now()), by, namespace)
}

// warnOf warns of what of the sources of prices is not used.
func warnOf(o *command.Options, book *prices.Book) {
	for _, note := range book.Notes() {
		o.Warn("%s", display.Inert(note, maxNote))
	}
}

func showSavings(o *command.Options, r *savings.Report, by savings.By, namespace string) error {
	if done, err := o.Print(r); done {
		return err
	}
	if o.Output == savingsCSV {
		return r.WriteCSV(o.Out)
	}
	if len(r.Rows) == 0 {
		o.Note("No governed workloads found in %s.", printers.InNamespace(namespace))
		return nil
	}
	if err := o.WriteTables(nil, savingsTable(r, by, namespace == "")); err != nil {
		return err
	}
	lines := r.Notes(o.Now())
	if summary := r.Summary(); summary != "" {
		lines = slices.Insert(lines, 0, summary)
	}
	o.Hint(strings.Join(lines, "\n"))
	return nil
}

func savingsTable(r *savings.Report, by savings.By, namespaces bool) *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE"}, Namespaces: namespaces || by == savings.ByNamespace}
	switch by {
	case savings.ByMix:
		t.Header = append(t.Header, "MIX")
	case savings.ByWorkload:
		t.Header = append(t.Header, "WORKLOAD", "MIX")
	case savings.ByUnit:
		t.Header = append(t.Header, "WORKLOAD", "UNIT")
	}
	t.Header = append(t.Header, "REPLICAS", "PRICED", "COST", "ON-DEMAND", "SAVED", "AVAILABLE", "FLOOR")
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []any{row.Namespace}
		switch by {
		case savings.ByMix:
			cells = append(cells, row.Mix)
		case savings.ByWorkload:
			cells = append(cells, nameOfRow(row), row.Mix)
		case savings.ByUnit:
			cells = append(cells, nameOfRow(row), row.Unit)
		}
		t.Add(append(cells, figures(&row.Figures)...)...)
	}
	return t
}

func nameOfRow(r *savings.Row) string {
	return overview.KindName(r.Kind, r.Name, r.Role, r.Bare)
}

func figures(f *savings.Figures) []any {
	cells := []any{f.Replicas, fmt.Sprintf("%d/%d", f.Priced, f.Pods)}
	for _, amount := range []float64{f.Cost, f.AllOnDemand, f.Saved, f.Available, f.Floor} {
		if f.Priced == 0 {
			cells = append(cells, display.Unknown)
			continue
		}
		cells = append(cells, savings.Monthly(amount))
	}
	return cells
}
