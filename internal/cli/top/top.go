// SPDX-License-Identifier: Apache-2.0

// Package top is kubectl berth top: the overview of mixes in a terminal, which refreshes itself.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
)

const about = `Shows the workloads that mixes govern, with a letter for each slot, and the nodes by type and zone. Replicas are
counted as in kubectl berth status. Workloads that do not satisfy their mix are first.

  s  on a spot node           o  on an on-demand node     O  the same, of minOnDemand
  ·  without a node or pod    !  on the wrong type        ×  on a departing node
  ?  unknown, because you may not list nodes

Each refresh lists pods, nodes, mixes and controllers from the cache of the API server. A refresh that takes long is followed by a
pause of nine times its duration, at most one minute. If a refresh fails, the last data stays, with its age and the error.

Without a terminal, or with --once, it prints the overview once, from current lists. The key ? shows the other keys.`

const (
	minInterval     = time.Second
	maxInterval     = time.Hour
	defaultInterval = 2 * time.Second
)

// flags are those of the command.
type flags struct {
	interval      time.Duration
	once, noColor bool
	selector      string
	labels        labels.Selector
}

// New returns the command top.
func New(o *command.Options) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show mixes, workloads and nodes on a screen that refreshes itself",
		Long:  about,
		Example: "  kubectl berth top\n  kubectl berth top -A --interval 10s\n  kubectl berth top -n shop -l app=web --once\n" +
			"  kubectl berth top --once -o json",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(); err != nil {
				return err
			}
			width, terminal := terminalWidth(o.Out)
			if o.Output != printers.Text && terminal && !f.once {
				return fmt.Errorf("--output %s requires --once", o.Output)
			}
			namespace, err := o.Namespace()
			if err != nil {
				return err
			}
			r, err := newReader(o, f)
			if err != nil {
				return err
			}
			if f.once || !terminal {
				return printOnce(cmd.Context(), o, r, namespace, width)
			}
			return run(cmd.Context(), o, f, r, namespace)
		},
	}
	o.AllNamespacesFlag(cmd)
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "Label selector for the pods of workloads, such as team=shop,tier!=test.")
	cmd.Flags().DurationVar(&f.interval, "interval", defaultInterval, "Time from one refresh to the next, from 1s to 1h.")
	cmd.Flags().BoolVar(&f.once, "once", false, "Print the overview once and exit.")
	cmd.Flags().BoolVar(&f.noColor, "no-color", false, "Use no colors, as with the environment variable NO_COLOR.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// parse checks the flags.
func (f *flags) parse() (err error) {
	if f.interval < minInterval || f.interval > maxInterval {
		return fmt.Errorf("--interval is %s: it must be from 1s to 1h", f.interval)
	}
	if f.labels, err = labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector is %q: %w", f.selector, err)
	}
	return nil
}

// plainWidth is the width of the overview where there is no terminal.
const plainWidth = 120

// terminalWidth returns the width of a terminal, and whether out is one.
func terminalWidth(out io.Writer) (int, bool) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return plainWidth, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = plainWidth
	}
	return width, true
}

// printOnce prints the overview.
func printOnce(ctx context.Context, o *command.Options, r *reader, namespace string, width int) error {
	d, err := r.read(ctx, namespace)
	if err != nil {
		return err
	}
	for _, p := range d.problems {
		o.Warn("%s", p)
	}
	if done, err := o.Print(d.overview); done {
		return err
	}
	_, err = io.WriteString(o.Out, plain(d, namespace, width))
	return err
}

// run shows the overview until the user quits.
func run(ctx context.Context, o *command.Options, f *flags, r *reader, namespace string, options ...tea.ProgramOption) error {
	silence()
	r.client.Version = live.FromCache
	color := !f.noColor && os.Getenv("NO_COLOR") == ""
	m := newModel(namespace, f.interval, color, o.Now())
	m.read = func(scope string, seq int) tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		d, err := r.read(ctx, scope)
		return readMsg{data: d, err: err, scope: scope, seq: seq}
	}
	options = append(options, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out))
	_, err := tea.NewProgram(m, options...).Run()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return nil //nolint:nilerr // the usual way to end it
	}
	return err
}
