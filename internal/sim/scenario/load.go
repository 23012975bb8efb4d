// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/sim/spottrace"
)

// MaxBytes is the size of the largest file.
const MaxBytes = 4 << 20

// bounds are for 10,000 workloads that are written one by one.
var bounds = budget.YAML{Bytes: MaxBytes, Nodes: 400_000, Depth: 16}

// TooLarge returns an error for a text that is larger than a scenario may be, whatever is in it.
func TooLarge(text []byte) error {
	_, _, err := bounds.Document(string(text))
	return err
}

// LoadTrace reads the trace in a file.
type LoadTrace func(path string) (*spottrace.Trace, error)

// Load reads the scenario in a file, with defaults, with its traces, and valid. An error has all that is wrong, each with its line.
func Load(path string) (*Scenario, error) {
	file, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return Parse(path, text, func(trace string) (*spottrace.Trace, error) {
		if !filepath.IsAbs(trace) {
			trace = filepath.Join(filepath.Dir(path), trace)
		}
		return spottrace.Load(trace)
	})
}

// Parse reads a scenario. The name is that of its file.
func Parse(name string, text []byte, load LoadTrace) (*Scenario, error) {
	root, _, err := bounds.Document(string(text))
	if err != nil {
		return nil, syntaxError(name, err)
	}
	s, d := &Scenario{}, &decoder{lines: map[string]int{}}
	if root != nil {
		d.value(nil, root, reflect.ValueOf(s).Elem())
	}
	s.derive(d)
	v := &validator{s: s, d: d}
	v.scenario()
	v.traces(load)
	if err := problemsOf(name, d, v.errs); err != nil {
		return nil, err
	}
	return s, nil
}

// derive sets the defaults that depend on other fields.
func (s *Scenario) derive(d *decoder) {
	if !d.set(field.NewPath("sample")) {
		every := max((s.Duration.Duration / defaultPoints).Round(time.Second), leastDefaultSample)
		s.Sample.Duration = min(every, max(s.Duration.Duration, leastSample))
	}
	for i := range s.NodePools {
		if p := &s.NodePools[i]; p.Spot() && !d.set(poolPath(i).Child("noticeSeconds")) {
			p.NoticeSeconds = defaultNoticeSeconds
		}
	}
}

// set reports whether a field is in the document.
func (d *decoder) set(path *field.Path) bool {
	_, set := d.lines[path.String()]
	return set
}

// lineOfError is a line in a message of the parser.
var lineOfError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// syntaxError puts the line behind the name, as in all other errors.
func syntaxError(name string, err error) error {
	message := err.Error()
	m := lineOfError.FindStringSubmatch(message)
	line := m[1]
	if line == "" {
		line = "1"
	}
	return fmt.Errorf("%s:%s: %s", name, line, strings.TrimPrefix(message, m[0]))
}
