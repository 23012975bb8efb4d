// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A suite on a control plane waits for much of its time, so more suites than processors make a fast machine work all the time. On
// a slow one, as many starve each other: leases run out and waits end before anything is wrong. So a suite begins when the
// processors have free capacity for it, and not by number alone.
const (
	// alwaysRun is how many begin however busy the machine is.
	alwaysRun = 2
	// freeShare is the share of the processors' time that must have been left for one more, of each admissionWindow. In that time a
	// suite that was let in starts its control plane and shows what it takes: in less, many are let in before any takes it.
	freeShare       = 0.25
	admissionWindow = 20 * time.Second
)

// processorTimes has what /proc/stat counts, in ticks since the machine started.
type processorTimes struct {
	// left is what a process of normal priority could have had: idle time, and that of processes with a lower priority.
	left, all uint64
}

// leftSince returns the share of the processors' time since an earlier reading that was left, 1 if none passed.
func (t processorTimes) leftSince(before processorTimes) float64 {
	if t.all <= before.all || t.left < before.left {
		return 1
	}
	return float64(t.left-before.left) / float64(t.all-before.all)
}

// parseProcessorTimes reads the first line of /proc/stat: cpu user nice system idle iowait irq softirq steal.
func parseProcessorTimes(stat []byte) (processorTimes, error) {
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return processorTimes{}, fmt.Errorf("the first line of /proc/stat is %q: want cpu and eight numbers", line)
	}
	var t processorTimes
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return processorTimes{}, fmt.Errorf("the first line of /proc/stat: %w", err)
		}
		t.all += ticks
		switch i {
		case 1, 3, 4: // nice, idle, iowait
			t.left += ticks
		}
	}
	return t, nil
}

// readProcessorTimes fails where there is no /proc/stat: not on Linux.
func readProcessorTimes() (processorTimes, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processorTimes{}, err
	}
	return parseProcessorTimes(stat)
}

// admission lets suites in, one after the other.
type admission struct {
	// turn is held by the one that is next.
	turn   chan struct{}
	window time.Duration
	read   func() (processorTimes, error)
	inside atomic.Int32
}

func newAdmission(window time.Duration, read func() (processorTimes, error)) *admission {
	return &admission{turn: make(chan struct{}, 1), window: window, read: read}
}

// enter returns when there is capacity for one more, which leave gives back, or with the error of the context.
func (a *admission) enter(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a.turn <- struct{}{}:
	}
	defer func() { <-a.turn }()
	before, err := a.read()
	for err == nil && a.inside.Load() >= alwaysRun {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(a.window):
		}
		var now processorTimes
		if now, err = a.read(); now.leftSince(before) >= freeShare {
			break
		}
		before = now
	}
	// Where the times cannot be read, the number of suites alone decides.
	a.inside.Add(1)
	return nil
}

func (a *admission) leave() { a.inside.Add(-1) }
