// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// environPrefix begins the names of environment variables that set flags.
const environPrefix = "BERTH_CONTROLLER_"

// environName is the environment variable that sets a flag: BERTH_CONTROLLER_RESYNC_INTERVAL for --resync-interval.
func environName(flag string) string {
	return environPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnviron sets each flag that was not given to its environment variable; an empty variable sets nothing. Other
// variables with the prefix are none of ours: Kubernetes sets some for a Service of that name.
func setFromEnviron(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "version" {
			return
		}
		name := environName(f.Name)
		value, there := lookup(name)
		if !there || value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: %w", name, value, err))
		}
	})
	return errors.Join(errs...)
}
