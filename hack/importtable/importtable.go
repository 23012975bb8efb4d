// SPDX-License-Identifier: Apache-2.0

// Package importtable reads from `go list` which parts of Berth import which, and keeps the table of docs/architecture.md of it. The
// table is
// the one place that allows an import: make generate writes it, and test/layout compares it with the code.
package importtable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "berth.dev/berth/"

// Page has the table, between Begin and End.
const (
	Page  = "docs/architecture.md"
	Begin = "<!-- imports: make generate -->\n"
	End   = "<!-- /imports -->\n"
)

// Part is a folder that represents all packages in it.
type Part struct {
	Name string
	// Packages is how many there are.
	Packages int
	// Imports are the other parts whose packages it imports, in order.
	Imports []string
}

// Package is what `go list -json` prints of a package.
type Package struct {
	ImportPath string
	Imports    []string
}

// Read returns the parts of the shipped code, in order. It runs go list in a folder of the module.
func Read(dir string) ([]Part, error) {
	packages, err := Packages(dir)
	return group(packages), err
}

// Packages returns the packages of the module. It runs go list in a folder of it.
func Packages(dir string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("go list: %s", exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	var packages []Package
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p Package
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// of returns the part of a package, "" if it is not shipped: the first folder for apis, the first two for the others.
func of(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, module), "/")
	switch {
	case !strings.HasPrefix(path, module), parts[0] == "hack", parts[0] == "test":
		return ""
	case parts[0] == "apis", len(parts) == 1:
		return parts[0]
	}
	return parts[0] + "/" + parts[1]
}

func group(packages []Package) []Part {
	count, imports := map[string]int{}, map[string]map[string]bool{}
	for _, p := range packages {
		from := of(p.ImportPath)
		if from == "" {
			continue
		}
		count[from]++
		if imports[from] == nil {
			imports[from] = map[string]bool{}
		}
		for _, i := range p.Imports {
			if to := of(i); to != "" && to != from {
				imports[from][to] = true
			}
		}
	}
	var all []Part
	for _, name := range slices.Sorted(maps.Keys(count)) {
		all = append(all, Part{Name: name, Packages: count[name], Imports: slices.Sorted(maps.Keys(imports[name]))})
	}
	return all
}

// Table returns the table of parts.
func Table(all []Part) string {
	var b strings.Builder
	b.WriteString("| part | packages | imports |\n|---|---|---|\n")
	for _, r := range all {
		var list []string
		for _, i := range r.Imports {
			list = append(list, "`"+i+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", r.Name, r.Packages, strings.Join(list, ", "))
	}
	return b.String()
}

// Allowed reads the table of a page: the imports that each part may have.
func Allowed(page string) (map[string][]string, error) {
	_, table, _, err := cut(page)
	if err != nil {
		return nil, err
	}
	allowed := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		var list []string
		for name := range strings.SplitSeq(cells[3], ",") {
			if name = strings.Trim(name, " `"); name != "" {
				list = append(list, name)
			}
		}
		allowed[strings.Trim(cells[1], " `")] = list
	}
	return allowed, nil
}

// cut returns the table of a page, and what is before Begin and after End.
func cut(page string) (before, table, after string, err error) {
	before, rest, begins := strings.Cut(page, Begin)
	table, after, ends := strings.Cut(rest, End)
	if !begins || !ends {
		err = fmt.Errorf("%s has no table between %q and %q", Page, Begin, End)
	}
	return before, table, after, err
}

// Write replaces the table of the page in a repository.
func Write(root string) error {
	all, err := Read(root)
	if err != nil {
		return err
	}
	file := root + "/" + Page
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(b))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+Begin+Table(all)+End+after), 0o600)
}
