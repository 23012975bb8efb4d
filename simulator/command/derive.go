// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/sim/derive"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/snapshot"
)

const (
	// defaultDuration is the simulated time of a scenario that is derived.
	defaultDuration = 24 * time.Hour
	// frugal is how much the heap grows before it is collected: a snapshot is large, and read once.
	frugal = 50
)

// newDerive returns the command that makes a scenario of a snapshot. use is how a user calls the program.
func newDerive(use string, streams genericiooptions.IOStreams) *cobra.Command {
	duration := defaultDuration
	cmd := &cobra.Command{
		Use:   "derive SNAPSHOT",
		Short: "Print a scenario for the cluster of a snapshot",
		Long: `Print a scenario for the cluster of a snapshot, which kubectl berth snapshot writes. "-" reads the snapshot from standard input.

Nodes of one kind are a node pool, with the prices and interruptions that kubectl berth savings and suggest have of public lists. What
controls pods is a workload, with its requests, its PodDisruptionBudget and its mix. Comments at the top list what is left out, what is
simulated in another way, what is not known, and what to add: review them before you run the scenario.`,
		Example: fmt.Sprintf(`  kubectl berth snapshot -A -o cluster.json.gz
  %[1]s derive cluster.json.gz > scenario.yaml
  %[1]s scenario.yaml`, use),
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			defer debug.SetGCPercent(debug.SetGCPercent(frugal))
			text, err := derived(args[0], streams, duration)
			if err != nil {
				return err
			}
			_, err = streams.Out.Write(text)
			return err
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", duration, "simulated time of the scenario, such as 72h")
	return cmd
}

// derived is the file of the scenario of a snapshot.
func derived(path string, streams genericiooptions.IOStreams, duration time.Duration) ([]byte, error) {
	if duration <= 0 || duration > scenario.MaxDuration {
		return nil, fmt.Errorf("--duration: Invalid value: %q: must be more than 0 and at most %s", duration, scenario.MaxDuration)
	}
	var s *snapshot.Snapshot
	var err error
	if path == "-" {
		s, err = snapshot.Read(streams.In)
	} else {
		s, err = snapshot.Load(path)
	}
	if err != nil {
		return nil, err
	}
	d, err := derive.Derive(s, derive.Options{Duration: duration, Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d.YAML()
}
