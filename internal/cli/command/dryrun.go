// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Values of --dry-run.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// DryRunFlag adds --dry-run to a command that writes.
func DryRunFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "dry-run", DryRunNone, `One of none, client (write nothing), server (have the API server check everything and keep nothing).`)
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{DryRunNone, DryRunClient, DryRunServer}, cobra.ShellCompDirectiveNoFileComp))
}

func CheckDryRun(value string) error {
	switch value {
	case DryRunNone, DryRunClient, DryRunServer:
		return nil
	}
	return fmt.Errorf("--dry-run is %q: it must be none, client or server", value)
}

// DryRunText is what a line says of something that was not kept.
func DryRunText(value string) string {
	return map[string]string{DryRunClient: " (dry run)", DryRunServer: " (server dry run)"}[value]
}
