// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed lost.txt
var list string

// lostNames are the parts that a name must not have which users read: of an event or condition reason, a metric, a label, a flag, a
// column. Names are compared part by part: AsAsked is As and Asked, berth_mix_room is berth, mix and room.
var lostNames = map[string]string{
	"agenda": "queue", "anew": "again", "asked": "configured, requested", "because": "reason", "board": "state",
	"fleet": "cluster", "heir": "successor", "heard": "observed", "look": "reconcile", "looks": "reconcile", "mend": "repair",
	"mended": "repaired", "mending": "repairing", "opened": "ungated", "opener": "ungater", "room": "capacity", "seat": "slot",
	"timetable": "queue", "told": "reported", "vain": "failed", "wants": "desired",
}

var (
	// name matches a string that is a name, not a message and not the path of an import.
	name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)*$`)
	part = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)
)

// lost is a word that a text must not have, and what replaces it.
type lost struct {
	pattern *regexp.Regexp
	instead string
}

func words() (all []lost, err error) {
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, instead, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("lost.txt: %q has no replacement", line)
		}
		re, err := regexp.Compile(`(?i)\b(?:` + pattern + `)\b`)
		if err != nil {
			return nil, fmt.Errorf("lost.txt: %w", err)
		}
		all = append(all, lost{re, instead})
	}
	return all, nil
}

// Folders with programs and folders with pages. What docs/decisions and docs/measurements hold is a record of its time.
var (
	programs = []string{"apis", "cmd", "controllers", "internal", "plugins", "scheduler", "services"}
	pages    = []string{"README.md", "CONTRIBUTING.md", "Makefile", "apis/README.md", "docs", "manifests"}
	skipped  = []string{"docs/measurements", "manifests/chart/files", "docs/glossary.md"}
)

// check returns a line for each text of the repository at root that has a lost word.
func check(root string) (found []string, err error) {
	all, err := words()
	if err != nil {
		return nil, err
	}
	report := func(path string, line int, word, instead string) {
		found = append(found, fmt.Sprintf("%s:%d: %q: write %s", path, line, word, instead))
	}
	judge := func(path string, line int, text string) {
		for _, w := range all {
			if m := w.pattern.FindString(text); m != "" {
				report(path, line, m, w.instead)
			}
		}
	}
	judgeString := func(path string, line int, text string) {
		if strings.Contains(text, " ") {
			judge(path, line, text)
		} else if word, instead := judgeName(text); word != "" {
			report(path, line, word, instead)
		}
	}
	err = walk(root, pages, func(path string) error { return eachLine(root, path, judge) })
	if err != nil {
		return nil, err
	}
	err = walk(root, programs, func(path string) error {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		return eachString(root, path, judgeString)
	})
	return found, err
}

func walk(root string, folders []string, do func(path string) error) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			switch {
			case slices.Contains(skipped, filepath.ToSlash(relative)):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case d.IsDir():
				return nil
			}
			return do(relative)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLine passes the lines of a page or of a manifest.
func eachLine(root, path string, judge func(path string, line int, text string)) error {
	if !slices.Contains([]string{".md", ".yaml", ".tpl", ".txt", ""}, filepath.Ext(path)) {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		judge(path, n, line)
	}
	return nil
}

// judgeName returns the first lost part of a name and what replaces it, "" if it has none.
func judgeName(text string) (lostPart, instead string) {
	if !name.MatchString(text) {
		return "", ""
	}
	for _, p := range part.FindAllString(text, -1) {
		if instead, is := lostNames[strings.ToLower(p)]; is {
			return p, instead
		}
	}
	return "", ""
}

// eachString passes the strings of a program: a string with a blank is a message, another one a name.
func eachString(root, path string, judge func(path string, line int, text string)) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, is := n.(*ast.ImportSpec); is {
			return false
		}
		literal, is := n.(*ast.BasicLit)
		if !is || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			judge(path, files.Position(literal.Pos()).Line, text)
		}
		return true
	})
	return nil
}
