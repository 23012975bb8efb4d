// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const stateFile = "processes.json"

// DetachedProcess is a process of a cluster started with Options.Detach.
type DetachedProcess struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// ID distinguishes it from a later process with the same pid.
	ID string `json:"id"`
}

// Alive reports whether the process still runs.
func (p DetachedProcess) Alive() bool {
	id, err := processID(p.PID)
	return err == nil && id == p.ID
}

// record writes down the processes of a detached cluster, after every start, so that none is ever forgotten.
func (c *Cluster) record() error {
	if !c.opts.Detach {
		return nil
	}
	b, err := json.MarshalIndent(c.processes(), "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(c.dir, stateFile), b); err != nil {
		return fmt.Errorf("record processes: %w", err)
	}
	return nil
}

// processes returns the components and the programs that run or have run.
func (c *Cluster) processes() (all []DetachedProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range startOrder {
		if p := c.components[name]; p != nil {
			all = append(all, DetachedProcess{p.Name, p.PID(), p.id})
		}
	}
	for _, p := range c.others {
		all = append(all, DetachedProcess{p.Name, p.PID(), p.id})
	}
	return all
}

// Detached returns the processes of the detached cluster in a directory; none if there is no such cluster.
func Detached(dir string) ([]DetachedProcess, error) {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []DetachedProcess
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", stateFile, err)
	}
	return all, nil
}

// StopDetached ends the processes of the detached cluster in a directory, last started first, and waits until they are
// gone. Each is the leader of a process group, which ends with it. A process that took over a recorded pid is left alone.
// The directory stays.
func StopDetached(dir string) error {
	all, err := Detached(dir)
	if err != nil {
		return err
	}
	for _, a := range slices.Backward(all) {
		if p := a; p.Alive() {
			if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop %s: %w", p.Name, err)
			}
		}
	}
	for _, p := range all {
		ended := func(context.Context) (bool, error) { return !p.Alive(), nil }
		if wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 10*time.Second, true, ended) != nil {
			return fmt.Errorf("stop %s: process %d does not end", p.Name, p.PID)
		}
	}
	return nil
}
