// SPDX-License-Identifier: Apache-2.0

// Package faultgate lets a program fail between two of its steps. No program of Berth imports it: the builds of test/robustness/gates
// insert the calls.
package faultgate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Env is the environment variable that has the Dir of a program. Without it every gate is open.
const Env = "BERTH_FAULT_GATES"

// Action is what a program does when it reaches a gate.
type Action string

// Actions.
const (
	// Kill sends SIGKILL to the program, Stop sends SIGSTOP: it continues after a SIGCONT.
	Kill Action = "kill"
	Stop Action = "stop"
	// Fail has At return an error.
	Fail Action = "fail"
	// Lose has Answer replace the answer of a request that was carried out by an error.
	Lose Action = "lose"
)

// ErrFailed is the error of At, ErrLost that of Answer: the connection ended before the answer had arrived.
var (
	ErrFailed = errors.New("a fault gate fails this step")
	ErrLost   = fmt.Errorf("a fault gate loses the answer: %w", io.ErrUnexpectedEOF)
)

// At is a gate before a step.
func At(gate string) error {
	if pass(gate) == Fail {
		return ErrFailed
	}
	return nil
}

// Answer is a gate after a request, which had the error. Only a request that was carried out reaches the gate.
func Answer(gate string, err error) error {
	if err == nil && pass(gate) == Lose {
		return ErrLost
	}
	return err
}

func pass(gate string) Action {
	d := Dir(os.Getenv(Env))
	if d == "" {
		return ""
	}
	v := Visit{Gate: gate, Action: d.take(gate), PID: os.Getpid()}
	d.note(v)
	switch v.Action {
	case Kill:
		end(syscall.SIGKILL)
	case Stop:
		end(syscall.SIGSTOP)
	}
	return v.Action
}

// end sends a signal to this process. The thread that sends it may run for a moment longer, so it waits until the signal has arrived.
func end(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s)
	<-time.After(100 * time.Millisecond)
}

// Dir is the directory through which a test arms the gates of its programs: a file for each armed gate, and one with all visits.
type Dir string

// Visit is a program at a gate. Its Action is empty if the gate was open.
type Visit struct {
	Gate   string
	Action Action
	PID    int
}

// Arm has the program that reaches the gate next act, once.
func (d Dir) Arm(gate string, a Action) error {
	next := d.path(".next")
	if err := os.WriteFile(next, []byte(a), 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.path(gate)) // no program reads half of it
}

// take disarms a gate, and returns its action; "" for none. Of several programs one gets it.
func (d Dir) take(gate string) Action {
	b, err := os.ReadFile(d.path(gate))
	if err != nil || os.Remove(d.path(gate)) != nil {
		return ""
	}
	return Action(b)
}

// note appends a visit. One that cannot be noted is missed by the test.
func (d Dir) note(v Visit) {
	f, err := os.OpenFile(d.path(".visits"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%s\t%s\t%d\n", v.Gate, v.Action, v.PID)
	_ = f.Close()
}

// Visits are those until now, the oldest first.
func (d Dir) Visits() (list []Visit, err error) {
	b, err := os.ReadFile(d.path(".visits"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(b)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 3 {
			return nil, fmt.Errorf("a visit is %q", line)
		}
		pid, err := strconv.Atoi(part[2])
		if err != nil {
			return nil, fmt.Errorf("a visit is %q: %w", line, err)
		}
		list = append(list, Visit{part[0], Action(part[1]), pid})
	}
	return list, err
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }
