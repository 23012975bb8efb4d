// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/config/buildinfo"
)

// Version is what `version` prints.
type Version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Platform is the operating system and the machine.
	Platform string `json:"platform"`
	// API is the version of Berth's resources of this CLI.
	API string `json:"api"`
}

func newVersion(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this plugin",
		Example: "  kubectl berth version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := Version{
				Version: buildinfo.Version(), Go: runtime.Version(), Platform: buildinfo.Platform(),
				API: v1alpha1.SchemeGroupVersion.String(),
			}
			if done, err := o.Print(v); done {
				return err
			}
			_, err := fmt.Fprintf(o.Out, "%s, API %s\n", buildinfo.Line("kubectl-berth"), v.API)
			return err
		},
	}
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}
