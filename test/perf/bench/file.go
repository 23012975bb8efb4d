// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Suite is what one command measured.
type Suite struct {
	// Name of the suite and of its file, such as cycle.
	Name string `json:"name"`
	// Command prints it again.
	Command string    `json:"command"`
	Machine Machine   `json:"machine"`
	Began   time.Time `json:"began"`
	Results []Result  `json:"results"`
}

// Machine is where it was measured.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryGiB int    `json:"memoryGiB"`
	Go        string `json:"go"`
	System    string `json:"system"`
}

// NewSuite begins a suite on this machine.
func NewSuite(name, command string) *Suite {
	return &Suite{Name: name, Command: command, Machine: thisMachine(), Began: time.Now().UTC().Truncate(time.Second)}
}

// Result returns the result of a case, nil if it was not measured.
func (s *Suite) Result(name string) *Result {
	i := slices.IndexFunc(s.Results, func(r Result) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Results[i]
}

// Add takes over a result; one of the same case is replaced.
func (s *Suite) Add(r Result) {
	if old := s.Result(r.Name); old != nil {
		*old = r
		return
	}
	s.Results = append(s.Results, r)
}

// Save writes the suite to a folder, as NAME.json.
func (s *Suite) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.Name+".json"), append(text, '\n'), 0o644)
}

// Load reads all suites of a folder, by name. A folder that is not there has none.
func Load(dir string) (map[string]*Suite, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]*Suite{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		s := &Suite{}
		if err := d.Decode(s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[s.Name] = s
	}
	return all, nil
}

func thisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Processor: "unknown"}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kb); err == nil {
			m.MemoryGiB = (kb + 1<<19) >> 20
		}
	}
	return m
}
