// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysProcAttr puts the child in its own group, so that Ctrl-C in a terminal reaches only us, and lets the kernel
// kill it when we end. A detached one gets its own session instead.
func sysProcAttr(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// processID returns what distinguishes a process from a later one with the same pid: its start time. A zombie has none.
func processID(pid int) (string, error) {
	fields, err := processStatus(pid)
	if err != nil {
		return "", err
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
}

// processTime returns the processor time of a process.
func processTime(pid int) time.Duration {
	fields, err := processStatus(pid)
	if err != nil {
		return 0
	}
	const tick = 10 * time.Millisecond
	var ticks time.Duration
	for _, field := range fields[11:13] { // in user mode, in the kernel
		n, _ := strconv.Atoi(field) // the kernel writes numbers
		ticks += time.Duration(n)
	}
	return ticks * tick
}

// processStatus returns the fields of /proc/<pid>/stat from the third one on.
func processStatus(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The second field, the command in parentheses, may hold spaces.
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return nil, fmt.Errorf("read the status of process %d: unexpected format", pid)
	}
	return fields, nil
}
