// SPDX-License-Identifier: Apache-2.0

// Command report turns what the suites measured (out/bench/*.json) into a page
// with a table of goals, tables of all cases and plots. With -gate it ends with
// 1 for a regression: a goal, or the bound of a known miss, that the median
// misses by more than the rounds of the run differ.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth.dev/berth/test/perf/bench"
)

// results is the file for machines.
const results = "results.json"

func main() {
	in := flag.String("in", "out/bench", "folder with the results of the suites")
	out := flag.String("out", "", "folder for report.md, results.json and the plots; suites that were not measured again stay as they are there. By default nothing is written")
	gate := flag.Bool("gate", false, "end with 1 if there is a regression")
	flag.Parse()
	regressions, err := run(os.Stdout, *in, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	if *gate && regressions > 0 {
		os.Exit(1)
	}
}

func run(w io.Writer, in, out string) (regressions int, err error) {
	suites, err := bench.Load(in)
	if err != nil {
		return 0, err
	}
	if len(suites) == 0 {
		return 0, fmt.Errorf("%s has no results: make bench, or make bench-full, measures", in)
	}
	if out != "" {
		// A machine that measures one suite has nothing of what others measured before.
		before, err := lastWritten(filepath.Join(out, results))
		if err != nil {
			return 0, err
		}
		for name, suite := range before {
			if suites[name] == nil {
				suites[name] = suite
			}
		}
	}
	verdicts := judge(suites)
	if err := writeGoals(w, verdicts); err != nil {
		return 0, err
	}
	if regressions, err = writeGate(w, verdicts); err != nil || out == "" {
		return regressions, err
	}
	return regressions, writeAll(out, suites, verdicts)
}

// writeAll writes the page, its plots and the results for machines.
func writeAll(out string, suites map[string]*bench.Suite, verdicts []verdict) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	page, err := os.Create(filepath.Join(out, "report.md"))
	if err != nil {
		return err
	}
	defer page.Close()
	if err := writePage(page, suites, verdicts); err != nil {
		return err
	}
	for _, p := range plots(suites) {
		if err := os.WriteFile(filepath.Join(out, p.file), p.svg(), 0o644); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(out, results), suites, verdicts)
}
