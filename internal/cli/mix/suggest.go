// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
	"berth.dev/berth/internal/mix/suggest"
)

const aboutSuggest = `Suggests a mix for each workload, also for those that no mix governs, with what it saves and risks. Writes nothing.

The first table has the workloads that can run replicas on spot nodes, in an order for gradual adoption: the lowest risk first, and then what
saves most. SPLIT is spot/on-demand at the present number of replicas. SAVING is in dollars a month against where the pods run now, and
INTERRUPTIONS are the replicas that a provider is expected to interrupt in a month. LIMITED-BY names what keeps more replicas on on-demand nodes.
The second table has what would have to change first in the others.

-o yaml prints the CapacityMixes to review, with the reasons as comments, in the same order. It has none for workloads that a mix governs. Apply
one after the other: kubectl berth plan -f shows what each would move.

Berth does not measure how a workload behaves when a replica is lost: a suggestion is what its objects show. See docs/suggest.md.`

// NewSuggest returns the command suggest.
func NewSuggest(o *command.Options) *cobra.Command {
	from := command.Prices{}
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest mixes, with their saving, their risk and what would have to change first",
		Long:  aboutSuggest,
		Example: "  kubectl berth suggest -n shop\n  kubectl berth suggest -A -o wide\n" +
			"  kubectl berth suggest -n shop -l team=shop --prices prices.yaml\n" +
			"  kubectl berth suggest -n shop -o yaml > mixes.yaml",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := from.Options(cmd.Context(), o.In, o.Now())
			if err != nil {
				return err
			}
			return runSuggest(cmd.Context(), o, options)
		},
	}
	from.Flags(cmd)
	command.Check(cmd, from.Check)
	o.AllNamespacesFlag(cmd)
	o.SelectorFlag(cmd, "for the pods of workloads")
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

func runSuggest(ctx context.Context, o *command.Options, options prices.Options) error {
	namespace, u, err := access.User(o)
	if err != nil {
		return err
	}
	s, book, err := u.Suggest(ctx, namespace, o.Selector(), options)
	if err != nil {
		return err
	}
	warnOf(o, book)
	return showSuggestions(o, s, namespace)
}

func showSuggestions(o *command.Options, s *overview.Suggestions, namespace string) error {
	if len(s.Suggestions) == 0 {
		o.Note("No workloads found in %s.", printers.InNamespace(namespace))
	}
	if o.Output == printers.YAML {
		return writeMixes(o, s)
	}
	if done, err := o.Print(s); done || len(s.Suggestions) == 0 {
		return err
	}
	if err := o.WriteTables(nil, suggestTable(s, namespace == ""), changesTable(s, namespace == "")); err != nil {
		return err
	}
	if lines := s.Notes(o.Now()); len(lines) > 0 {
		o.Hint(strings.Join(lines, "\n"))
	}
	return nil
}

// suggestTable has the workloads with a mix.
func suggestTable(s *overview.Suggestions, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{
			"NAMESPACE", "STEP", "WORKLOAD", "REPLICAS", "MIX", "SPOT%", "MIN-OD", "MAX-SPOT", "SPLIT", "SAVING",
			"INTERRUPTIONS", "RISK", "LIMITED-BY",
		},
		Wide: []string{"RULE", "STRATEGY", "PRICED", "WHY"}, Namespaces: namespaces, Keys: 3,
	}
	for i := range s.Suggestions {
		one := &s.Suggestions[i]
		if one.Mix == nil {
			continue
		}
		step, maxSpot := "", ""
		if one.Step > 0 {
			step = fmt.Sprint(one.Step)
		}
		if one.Mix.MaxSpot != nil {
			maxSpot = fmt.Sprint(*one.Mix.MaxSpot)
		}
		t.Add(one.Namespace, step, one.Kind+"/"+one.Name, one.Replicas, one.GovernedBy, one.Mix.SpotPercent, one.Mix.MinOnDemand, maxSpot,
			fmt.Sprintf("%d/%d", one.Spot, one.OnDemand), savingOf(one), interruptionsOf(one), one.Risk, names(one.With(suggest.Limits)),
			one.Rule, one.Mix.Strategy, fmt.Sprintf("%d/%d", one.Priced, one.Pods), sentences(one))
	}
	return t
}

// changesTable has a row for each change that has to come first.
func changesTable(s *overview.Suggestions, namespaces bool) *printers.Table {
	t := &printers.Table{
		Header: []string{"NAMESPACE", "WORKLOAD", "REPLICAS", "MIX", "BLOCKED-BY", "FIELD", "CHANGE"}, Wide: []string{"WHY"},
		Namespaces: namespaces, Keys: 5,
	}
	for i := range s.Suggestions {
		one := &s.Suggestions[i]
		for _, f := range one.With(suggest.Blocks) {
			t.Add(one.Namespace, one.Kind+"/"+one.Name, one.Replicas, one.GovernedBy, f.Reason, f.Field, f.Change, f.Message)
		}
	}
	return t
}

func names(findings []suggest.Finding) string {
	var list []string
	for _, f := range findings {
		list = append(list, f.Reason)
	}
	return strings.Join(list, ",")
}

// sentences are the reasons of a suggestion, with what would have to change for more.
func sentences(s *suggest.Suggestion) string {
	var list []string
	for _, f := range s.Findings {
		list = append(list, f.Message)
	}
	return strings.Join(list, "; ")
}

func savingOf(s *suggest.Suggestion) string {
	if s.SavingPerMonth == nil {
		return display.Unknown
	}
	return savings.Monthly(*s.SavingPerMonth / savings.HoursPerMonth)
}

func interruptionsOf(s *suggest.Suggestion) string {
	if s.Interruptions == nil {
		return display.Unknown
	}
	return s.Interruptions.String()
}
