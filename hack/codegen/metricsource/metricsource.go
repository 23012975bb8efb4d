// SPDX-License-Identifier: Apache-2.0

// Package metricsource reads from Go source which metrics it declares: those of component-base and those of
// client_golang, with their labels and help.
package metricsource

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one that the source makes.
type Metric struct {
	Name, Help string
	// Kind is counter, gauge, histogram or summary; empty for the descriptions of a collector, which have no kind.
	Kind   string
	Labels []string
}

// Source is what the Go files below a folder declare, without tests.
type Source struct {
	// Metrics are in the order of the files.
	Metrics []Metric
	// Constants are the values of constants and variables that are strings, by name.
	Constants map[string]string
	// Variables are the names of metrics, by the variable that holds them.
	Variables map[string]string
	// Registered are the variables that are handed to MustRegister.
	Registered map[string]bool
}

// Read reads all Go files below a folder. What it cannot read of a metric is an error: its name, labels and help must be
// literals or constants.
func Read(folder string) (*Source, error) {
	s := &Source{Constants: map[string]string{}, Variables: map[string]string{}, Registered: map[string]bool{}}
	files, set := []*ast.File{}, token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				s.constants(v)
			}
			return true
		})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if err == nil {
				if err = s.see(n); err != nil {
					err = fmt.Errorf("%s: %w", set.Position(n.Pos()), err)
				}
			}
			return err == nil
		})
	}
	return s, err
}

func (s *Source) constants(v *ast.ValueSpec) {
	for i, name := range v.Names {
		if i < len(v.Values) {
			if l, ok := v.Values[i].(*ast.BasicLit); ok && l.Kind == token.STRING {
				s.Constants[name.Name], _ = strconv.Unquote(l.Value)
			}
		}
	}
}

func (s *Source) see(n ast.Node) error {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, v := range n.Values {
			m, err := s.made(v)
			if err != nil {
				return err
			}
			if m != nil {
				s.Variables[n.Names[i].Name] = m.Name
			}
		}
	case *ast.CallExpr:
		m, err := s.made(n)
		if err != nil {
			return err
		}
		if m != nil {
			s.Metrics = append(s.Metrics, *m)
		}
		if called(n) == "MustRegister" {
			for _, a := range n.Args {
				if name, ok := a.(*ast.Ident); ok {
					s.Registered[name.Name] = true
				}
			}
		}
	}
	return nil
}

func called(c *ast.CallExpr) string {
	if f, ok := c.Fun.(*ast.SelectorExpr); ok {
		return f.Sel.Name
	}
	return ""
}

var constructor = regexp.MustCompile(`^New(Counter|Gauge|Histogram|Summary|TimingHistogram)(Vec|Func)?$`)

// made is the metric that an expression makes, nil if it makes none.
func (s *Source) made(e ast.Expr) (*Metric, error) {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) == 0 {
		return nil, nil
	}
	if called(c) == "NewDesc" && len(c.Args) == 4 {
		return s.description(c.Args)
	}
	kind := constructor.FindStringSubmatch(called(c))
	if kind == nil {
		return nil, nil
	}
	m, err := s.options(c.Args[0])
	if err != nil {
		return nil, err
	}
	m.Kind = strings.ToLower(strings.TrimPrefix(kind[1], "Timing"))
	if kind[2] == "Vec" {
		m.Labels, err = s.texts(c.Args[1])
	}
	return m, err
}

func (s *Source) description(args []ast.Expr) (m *Metric, err error) {
	m = &Metric{}
	if m.Name, err = s.text(args[0]); err != nil {
		return nil, err
	}
	if m.Help, err = s.text(args[1]); err != nil {
		return nil, err
	}
	m.Labels, err = s.texts(args[2])
	return m, err
}

// options reads prometheus.CounterOpts and the like.
func (s *Source) options(e ast.Expr) (*Metric, error) {
	if u, ok := e.(*ast.UnaryExpr); ok {
		e = u.X
	}
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, fmt.Errorf("the options of a metric must be literal, not %T", e)
	}
	part := map[string]string{}
	for _, el := range literal.Elts {
		kv, ok := el.(*ast.KeyValueExpr)
		if !ok {
			return nil, fmt.Errorf("the options of a metric must be named, not %T", el)
		}
		switch key := fmt.Sprint(kv.Key); key {
		case "Namespace", "Subsystem", "Name", "Help":
			text, err := s.text(kv.Value)
			if err != nil {
				return nil, err
			}
			part[key] = text
		}
	}
	return &Metric{Name: prometheus.BuildFQName(part["Namespace"], part["Subsystem"], part["Name"]), Help: part["Help"]}, nil
}

// text is the value of a string literal, of a constant, or of a sum of such.
func (s *Source) text(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.Ident:
		if value, ok := s.Constants[e.Name]; ok {
			return value, nil
		}
	case *ast.BinaryExpr:
		left, err := s.text(e.X)
		if err != nil {
			return "", err
		}
		right, err := s.text(e.Y)
		return left + right, err
	}
	return "", fmt.Errorf("a text of a metric must be a literal or a constant, not %T", e)
}

func (s *Source) texts(e ast.Expr) (list []string, err error) {
	l, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, nil
	}
	for _, el := range l.Elts {
		text, err := s.text(el)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}
