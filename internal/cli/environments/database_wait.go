// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

// databaseTimeout is how long is waited if no one says: a dump takes its time.
const databaseTimeout = time.Hour

// databaseWait are the flags of what is waited for.
type databaseWait struct {
	wait          bool
	timeout, poll time.Duration
}

func (f *databaseWait) flags(cmd *cobra.Command, about string) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, about)
	cmd.Flags().DurationVar(&f.timeout, "timeout", databaseTimeout, "How long at most is waited. What was begun goes on.")
}

// waitForDatabase waits until a backup, or the Job that restores one, is done, if that was requested. A snapshot that has failed is
// tried again by who makes it, so that it is waited for all the same.
func waitForDatabase(o *command.Options, ctx context.Context, f *databaseWait, what string, look func(ctx context.Context) (render.Backup, error)) error {
	if !f.wait {
		return nil
	}
	var last render.Backup
	err := wait.PollUntilContextTimeout(ctx, f.poll, f.timeout, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx)
		if err != nil {
			return false, err
		}
		last = now
		if last.State == render.BackupFailed && last.Method == render.BackupDump {
			return false, fmt.Errorf("it is Failed: %s", last.Message)
		}
		return last.State == render.BackupReady, nil
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("%s is %s after %s: %s", what, last.State, f.timeout, last.Message)
	case err != nil:
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	if o.Output != printers.JSON && o.Output != printers.YAML && o.Output != printers.Name {
		fmt.Fprintf(o.Out, "%s is done\n", what)
	}
	return nil
}
