// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Bounds of what a reader has to keep in mind at once.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
	maxLineLength    = 140
	maxTestName      = 60
)

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	testName  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`)
	longText  = regexp.MustCompile("[\"`].{80}|<[a-z]+ ")
	// documentID is an id of the contracts. docs/conformance.md maps ids to tests; a comment must explain itself.
	documentID = regexp.MustCompile(`\b(?:ENV|RL|CR|DOL)-\d+\b|\bissue \d+\b`)
	updates    = regexp.MustCompile(`Client\.Update\(`)
	testOfID   = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)(?:ENV|RL|CR|DOL|P)\d`)
)

// source is a Go file that a person wrote.
type source struct {
	path  string
	text  string
	files *token.FileSet
	ast   *ast.File
}

// problem is one deviation, with the line that has it.
type problem func(s *source) []string

// Every rule with what it reports for a file. Production code is what is not in a test file.
var styleRules = map[string]problem{
	"production files have at most 500 lines": func(s *source) []string {
		lines := strings.Count(s.text, "\n")
		if s.isTest() || lines <= maxFileLines {
			return nil
		}
		return []string{fmt.Sprintf("%s: %d lines", s.path, lines)}
	},
	"production functions have at most 80 lines": func(s *source) (found []string) {
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.isTest() {
				continue
			}
			from, to := s.files.Position(f.Pos()).Line, s.files.Position(f.End()).Line
			if to-from+1 > maxFunctionLines {
				found = append(found, fmt.Sprintf("%s:%d: %s has %d lines", s.path, from, f.Name.Name, to-from+1))
			}
		}
		return found
	},
	"lines have at most 140 columns": func(s *source) (found []string) {
		n, raw := 0, s.rawStrings()
		for line := range strings.Lines(s.text) {
			n++
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
			// Markers of code generators, long messages and the tables of tests cannot be wrapped.
			if len([]rune(line)) > maxLineLength && !strings.Contains(line, "// +kubebuilder:") && !longText.MatchString(line) && !s.isTest() && !raw[n] {
				found = append(found, fmt.Sprintf("%s:%d: %d columns", s.path, n, len([]rune(line))))
			}
		}
		return found
	},
	"names of tests have at most 60 characters": func(s *source) (found []string) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil && testName.MatchString(f.Name.Name) && len(f.Name.Name) > maxTestName {
				found = append(found, fmt.Sprintf("%s:%d: %s has %d characters", s.path, s.files.Position(f.Pos()).Line, f.Name.Name, len(f.Name.Name)))
			}
		}
		return found
	},
	"names of tests have no ids of documents": func(s *source) (found []string) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() && testOfID.MatchString(f.Name.Name) {
				found = append(found, fmt.Sprintf("%s:%d: %s", s.path, s.files.Position(f.Pos()).Line, f.Name.Name))
			}
		}
		return found
	},
	"comments name no ids of documents": func(s *source) (found []string) {
		for _, group := range s.ast.Comments {
			if id := documentID.FindString(group.Text()); id != "" {
				found = append(found, fmt.Sprintf("%s:%d: %s", s.path, s.files.Position(group.Pos()).Line, id))
			}
		}
		return found
	},
	// A controller writes the status of what a test has just read: with an update, the test fails by chance.
	"suites change objects by patches": func(s *source) (found []string) {
		n := 0
		for line := range strings.Lines(s.text) {
			n++
			if s.isTest() && strings.HasPrefix(s.path, "test/integration/") && updates.MatchString(line) {
				found = append(found, fmt.Sprintf("%s:%d: use testenv.Patch", s.path, n))
			}
		}
		return found
	},
}

// rawStrings are the lines of strings that take several: texts that are printed as they are.
func (s *source) rawStrings() map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			from, to := s.files.Position(l.Pos()).Line, s.files.Position(l.End()).Line
			for line := from; from < to && line <= to; line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func parse(t *testing.T, path, text string) *source {
	t.Helper()
	s := &source{path: path, text: text, files: token.NewFileSet()}
	var err error
	s.ast, err = parser.ParseFile(s.files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	return s
}

// handWritten returns the Go files of the repository that a person wrote.
func handWritten(t *testing.T) (sources []*source) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2, d.IsDir() && d.Name() == "out":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || generated.Match(b) {
			return err
		}
		sources = append(sources, parse(t, strings.TrimPrefix(filepath.ToSlash(path), "../../"), string(b)))
		return nil
	}))
	require.Greater(t, len(sources), 500)
	return sources
}

func TestHandWrittenCodeIsEasyToRead(t *testing.T) {
	sources := handWritten(t)
	for name, rule := range styleRules {
		t.Run(name, func(t *testing.T) {
			for _, s := range sources {
				for _, p := range rule(s) {
					t.Error(p)
				}
			}
		})
	}
}

// Each rule refuses something: a rule that cannot fail is none.
func TestEveryStyleRuleCanFail(t *testing.T) {
	long := strings.Repeat("\tx()\n", maxFunctionLines)
	for name, s := range map[string]*source{
		"production files have at most 500 lines":    parse(t, "a.go", "package a\n"+strings.Repeat("\n", maxFileLines)),
		"production functions have at most 80 lines": parse(t, "a.go", "package a\n\nfunc f() {\n"+long+"}\n"),
		"lines have at most 140 columns":             parse(t, "a.go", "package a\n\n// "+strings.Repeat("x", maxLineLength)+"\n"),
		"names of tests have at most 60 characters":  parse(t, "a_test.go", "package a\n\nfunc Test"+strings.Repeat("X", maxTestName)+"() {}\n"),
		"names of tests have no ids of documents":    parse(t, "a_test.go", "package a\n\nfunc TestRL06EveryRule() {}\n"),
		"comments name no ids of documents":          parse(t, "a.go", "package a\n\n// ENV-7 demands this.\nfunc f() {}\n"),
		"suites change objects by patches":           parse(t, "test/integration/a_test.go", "package a\n\nvar _ = w.Client.Update(ctx, o)\n"),
	} {
		assert.NotEmpty(t, styleRules[name](s), name)
	}
	assert.Len(t, styleRules, 7)
}
