// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TimesEnv names a file to which WriteTimes appends the processor time of each program.
const TimesEnv = "BERTH_TEST_TIMES"

// used is the processor time, by program, of the processes that have ended or were given back.
var used struct {
	sync.Mutex
	by map[string]time.Duration
	// borrowed is the part of it that processes used which are not children of this one.
	borrowed time.Duration
}

func addTimes(program string, d time.Duration) {
	used.Lock()
	defer used.Unlock()
	if used.by == nil {
		used.by = map[string]time.Duration{}
	}
	used.by[program] += d
}

// addBorrowed counts the processor time that a process has used for this one.
func addBorrowed(program string, d time.Duration) {
	addTimes(program, d)
	used.Lock()
	defer used.Unlock()
	used.borrowed += d
}

// WriteTimes appends a line to the file that TimesEnv names: the processor seconds of this process, of each program that it
// started and that has ended, and of the tools that it ran.
func WriteTimes(who string, started time.Time) error {
	file := os.Getenv(TimesEnv)
	if file == "" {
		return nil
	}
	self, err := processorTime(syscall.RUSAGE_SELF)
	if err != nil {
		return err
	}
	tools, err := processorTime(syscall.RUSAGE_CHILDREN)
	if err != nil {
		return err
	}
	used.Lock()
	by, borrowed := maps.Clone(used.by), used.borrowed
	used.Unlock()
	total := self + tools + borrowed
	tools += borrowed
	var line strings.Builder
	fmt.Fprintf(&line, "%-32s wall %6.1f  processor %6.1f  itself %5.1f", who, time.Since(started).Seconds(), total.Seconds(),
		self.Seconds())
	for _, program := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return int(by[b] - by[a]) }) {
		tools -= by[program]
		fmt.Fprintf(&line, "  %s %.1f", strings.TrimPrefix(program, "kube-"), by[program].Seconds())
	}
	fmt.Fprintf(&line, "  tools %.1f\n", tools.Seconds())
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line.String())
	return err
}

func processorTime(of int) (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(of, &usage); err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
