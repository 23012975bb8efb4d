// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Values of --dry-run.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// DryRunFlag adds --dry-run to a command that writes.
func DryRunFlag(cmd *cobra.Command, value *string) {
	values := []string{DryRunNone, DryRunClient, DryRunServer}
	cmd.Flags().StringVar(value, "dry-run", DryRunNone,
		`One of: none, client (write nothing), server (the API server validates and stores nothing).`)
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	Check(cmd, func() error {
		if slices.Contains(values, *value) {
			return nil
		}
		return fmt.Errorf("--dry-run is %q: it must be none, client or server", *value)
	})
}

// DryRunText ends the line about an object that was not stored.
func DryRunText(value string) string {
	return map[string]string{DryRunClient: " (dry run)", DryRunServer: " (server dry run)"}[value]
}

// IsDryRun reports whether a value of --dry-run stores nothing.
func IsDryRun(value string) bool { return value == DryRunClient || value == DryRunServer }

// Writer returns a client that writes as --dry-run requires, as a field owner.
func Writer(c client.Client, dryRun, owner string) client.Client {
	switch c = client.WithFieldOwner(c, owner); dryRun {
	case DryRunClient:
		return readOnly{c}
	case DryRunServer:
		return client.NewDryRunClient(c)
	}
	return c
}

// readOnly is a client that only pretends to write.
type readOnly struct{ client.Client }

func (readOnly) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

func (readOnly) Update(context.Context, client.Object, ...client.UpdateOption) error { return nil }

func (readOnly) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

func (readOnly) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}
