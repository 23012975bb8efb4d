// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/kube/display"
)

// UsageError is the error of a call that is wrong: it has the usage of the command.
type UsageError struct {
	cmd *cobra.Command
	err error
}

// Error implements error.
func (e *UsageError) Error() string {
	path := e.cmd.CommandPath()
	return fmt.Sprintf("%s: %v\nUsage: %s\nSee \"%s --help\" for more.", path, e.err, e.cmd.UseLine(), path)
}

// Unwrap returns the error without the usage.
func (e *UsageError) Unwrap() error { return e.err }

// Arguments checks the number of the arguments: from least to most, or with most < 0 any number from least. noun is what one is.
func Arguments(least, most int, noun string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch n := len(args); {
		case least == most && n != least:
			return fmt.Errorf("expected %s, got %d", display.Count(least, noun), n)
		case n < least:
			return fmt.Errorf("expected at least %s, got %d", display.Count(least, noun), n)
		case most >= 0 && n > most:
			return fmt.Errorf("expected at most %s, got %d", display.Count(most, noun), n)
		}
		return nil
	}
}

// Names checks the number of names.
func Names(least, most int) cobra.PositionalArgs { return Arguments(least, most, "name") }

// NoArguments refuses arguments. That of a command with commands below it should have been one of them.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s", text)
}

// ShowUsage has a command, and those below it, add the usage to the error of a wrong call.
func ShowUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &UsageError{cmd, err} })
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, check := range []func() error{
			func() error {
				if check == nil {
					return nil
				}
				return check(cmd, args)
			},
			cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups,
		} {
			if err := check(); err != nil {
				return &UsageError{cmd, err}
			}
		}
		return nil
	}
	if check := cmd.PreRunE; check != nil {
		cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &UsageError{cmd, err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		ShowUsage(sub)
	}
}
