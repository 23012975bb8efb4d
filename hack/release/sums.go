// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const sumsFile = "SHA256SUMS"

// writeSums writes the checksums of all files of the release, which sha256sum --check reads.
func writeSums(_ context.Context, o options) error {
	var text strings.Builder
	err := filepath.WalkDir(o.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(o.out, sumsFile) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(o.out, path)
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return write(filepath.Join(o.out, sumsFile), []byte(text.String()))
}
