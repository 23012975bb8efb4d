// SPDX-License-Identifier: Apache-2.0

// Package buildinfo returns the version of Berth that a program was built from.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is what the go command found out when it built the program: a tag, or
// a pseudo-version with the commit; devel where there was no repository.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// Platform is the operating system and the machine.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Line is what a program prints of itself.
func Line(program string) string {
	return fmt.Sprintf("%s %s %s %s", program, Version(), runtime.Version(), Platform())
}
