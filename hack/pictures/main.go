// SPDX-License-Identifier: Apache-2.0

// Command pictures draws the pictures of docs/simulation.md from the results of a simulation, which it reads from the standard input:
// berth-sim docs/simulation/storm.yaml -o json | pictures docs/images.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/wholefile"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures FOLDER < RESULTS")
		os.Exit(2)
	}
	if err := draw(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func draw(in io.Reader, folder string) error {
	r := &report.Result{}
	if err := json.NewDecoder(in).Decode(r); err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	for name, picture := range map[string]func(io.Writer) error{
		"simulation-comparison.svg": func(w io.Writer) error { return report.Comparison(w, r) },
		"simulation-berth.svg":      func(w io.Writer) error { return report.Timeline(w, r, "Berth") },
	} {
		path := filepath.Join(folder, name)
		if err := wholefile.Write(path, picture); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return nil
}
