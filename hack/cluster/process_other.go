// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysProcAttr puts the child in its own group. There is no parent-death signal here: call Stop.
func sysProcAttr(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// processID returns what distinguishes a process from a later one with the same pid: its start time. A zombie has none.
func processID(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(start), nil
}

// processTime is not known here.
func processTime(int) time.Duration { return 0 }
