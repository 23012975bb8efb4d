// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"

	"berth.dev/berth/hack/demo/recording"
)

// recordedRows is the height of the recording.
const recordedRows = 26

// record keeps what the screen shows, with colors, and returns what writes it to a file as a picture. Without a file it does nothing.
func (s *screen) record(file string) (write func() error) {
	if file == "" {
		return func() error { return nil }
	}
	var kept bytes.Buffer
	s.out, s.colour = io.MultiWriter(s.out, &kept), true
	return func() error {
		var svg bytes.Buffer
		if err := recording.SVG(&svg, "make demo: a workload is placed by its mix, scaled, drained and repaired", kept.String(),
			recording.Size{Columns: width, Rows: recordedRows}); err != nil {
			return err
		}
		return os.WriteFile(file, svg.Bytes(), 0o644)
	}
}
