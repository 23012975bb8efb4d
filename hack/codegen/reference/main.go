// SPDX-License-Identifier: Apache-2.0

// Command reference writes the pages of docs/reference that are generated from the source: the events that Berth records, its metrics,
// the help of its commands, the picture of the slots, and tables in other pages: of imports in docs/architecture.md, of reasons
// in docs/rebalancing.md and docs/monitoring.md. crd-ref-docs writes docs/reference/api.md (../generate.sh).
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/hack/importtable"
	"berth.dev/berth/internal/cli"
)

func main() {
	if err := errors.Join(run("docs/reference"), writeReasons("docs"), importtable.Write(".")); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	for name, page := range map[string]func() (string, error){
		"events.md":   func() (string, error) { return eventsPage("apis/v1alpha1/events.go") },
		"metrics.md":  metricsPage,
		"commands.md": commandsPage,
		"slots.svg":   func() (string, error) { return slotsPicture(), nil },
	} {
		text, err := page()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// aboutEvent is how the comment of a reason begins: its name, type and object.
var aboutEvent = regexp.MustCompile(`^EventReason\w+ \((Normal|Warning), on (.+?)\): (?s:(.+))$`)

// eventsPage is a table of the constants EventReason… of a file.
func eventsPage(path string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Events\n\n<!-- make generate, from " + path + " -->\n\n" +
		"Reasons are stable: alerts and scripts may match on them. The text of messages may change.\n\n" +
		"| reason | type | on | when |\n|---|---|---|---|\n")
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "EventReason") || err != nil {
			return true
		}
		about := aboutEvent.FindStringSubmatch(strings.Join(strings.Fields(spec.Doc.Text()), " "))
		reason, unquoteErr := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if about == nil || unquoteErr != nil {
			err = fmt.Errorf("%s: the comment of %s must begin with %s (Normal or Warning, on …): …", path, spec.Names[0], spec.Names[0])
			return false
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", reason, about[1], about[2], strings.ReplaceAll(about[3], "|", `\|`))
		return true
	})
	return b.String(), err
}

// commandsPage has the help of the commands, and the global flags of kubectl berth once.
func commandsPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- make generate, from --help -->\n\n" +
		"`berth-scheduler` has the flags of [kube-scheduler](https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/), " +
		"and `--decisions-bind-address` ([records of decisions](../scheduling-policies.md#why-is-the-pod-on-this-node)).\n")
	for _, program := range []string{"berth-controller", "berth-console"} {
		help, err := exec.Command("go", "run", "./cmd/"+program, "--help").Output()
		if err != nil {
			return "", fmt.Errorf("%s --help: %w", program, err)
		}
		section(&b, program, help)
	}
	// A default is in the home directory of the user.
	if err := os.Setenv("HOME", "/home/you"); err != nil {
		return "", err
	}
	root := cli.New(genericiooptions.NewTestIOStreamsDiscard())
	section(&b, "Global flags of kubectl berth", []byte(root.PersistentFlags().FlagUsages()))
	err := addHelp(&b, root)
	return b.String(), err
}

// globalFlags is the part of a help text that is the same for all commands.
var globalFlags = regexp.MustCompile(`(?s)\nGlobal Flags:\n.*?(\n\n|$)`)

// addHelp adds a command and those below it, without the global flags.
func addHelp(b *strings.Builder, c *cobra.Command) error {
	var text bytes.Buffer
	c.SetOut(&text)
	if err := c.Help(); err != nil {
		return err
	}
	c.SetOut(nil)
	help := text.String()
	if !c.HasParent() { // its own flags are the global ones
		help = strings.Replace(help, "\nFlags:\n", "\nGlobal Flags:\n", 1)
	}
	section(b, c.CommandPath(), []byte(globalFlags.ReplaceAllString(help, "$1")))
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := addHelp(b, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func section(b *strings.Builder, name string, text []byte) {
	fmt.Fprintf(b, "\n## %s\n\n```text\n%s\n```\n", name, bytes.TrimRight(bytes.TrimLeft(text, "\n"), " \n"))
}
