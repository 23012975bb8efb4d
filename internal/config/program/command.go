// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"

	"berth.dev/berth/apis/config/controller"
)

// Run is what a program does with its configuration.
type Run func(ctx context.Context, c *controller.Configuration, src Source) error

// Start begins to log, and hands the configuration of a source to run. If it is only to be validated, Start prints that it is valid
// instead.
func Start(cmd *cobra.Command, logs *Logging, src Source, validate bool, run Run) error {
	if err := logs.Apply(cmd.ErrOrStderr()); err != nil {
		return err
	}
	c, err := src.Load()
	if err != nil {
		return err
	}
	if validate {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "The configuration is valid.")
		return err
	}
	return run(cmd.Context(), c, src)
}

// Read returns the configuration of a file, or the defaults if there is no file.
func Read(file string) (*controller.Configuration, error) {
	if file == "" {
		return controller.Default(), nil
	}
	return controller.Load(file)
}

// Override sets the fields of the flags that were given to the values of the flags. fields returns a pointer to the field of each flag.
func Override(c, values *controller.Configuration, fields func(*controller.Configuration) map[string]any, given func(flag string) bool) {
	set := fields(values)
	for flag, field := range fields(c) {
		if given(flag) {
			reflect.ValueOf(field).Elem().Set(reflect.ValueOf(set[flag]).Elem())
		}
	}
}
