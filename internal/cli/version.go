// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"berth.dev/berth/apis/v1alpha1"
)

// version is what the go command found out when it built this: a tag, or a pseudo-version with the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// Version is what `version` prints.
type Version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Platform is the operating system and the machine.
	Platform string `json:"platform"`
	// API is the version of Berth's resources that this CLI knows.
	API string `json:"api"`
}

func newVersion(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := Version{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, API: v1alpha1.SchemeGroupVersion.String()}
			if done, err := o.printed(v); done {
				return err
			}
			_, err := fmt.Fprintf(o.Out, "kubectl-berth %s %s %s, API %s\n", v.Version, v.Go, v.Platform, v.API)
			return err
		},
	}
	o.outputFlag(cmd, asJSON, asYAML)
	return cmd
}
