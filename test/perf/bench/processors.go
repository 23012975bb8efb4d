// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processors is what the kernel counted until a moment.
type processors struct {
	at time.Time
	// busy is the processor time of the whole machine, own that of this process and its descendants.
	busy, own time.Duration
	load      float64
}

// tick is the unit of /proc/*/stat: USER_HZ is 100 on every platform that Go runs Linux on.
const tick = 10 * time.Millisecond

func readProcessors() (processors, error) {
	p := processors{at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, err
	}
	if p.busy, err = busy(stat); err != nil {
		return p, err
	}
	p.own = own()
	avg, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return p, err
	}
	first, _, _ := strings.Cut(string(avg), " ")
	p.load, err = strconv.ParseFloat(first, 64)
	return p, err
}

// busy adds up what the first line of /proc/stat counts, without idle and iowait,
// and without guest time, which user time contains.
func busy(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var sum time.Duration
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 { // idle, iowait
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// foreign is the share of the machine's processors that went to other processes.
func foreign(before, after processors) float64 {
	all := after.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	if all <= 0 {
		return 0
	}
	others := (after.busy - before.busy) - (after.own - before.own)
	return max(0, float64(others)/float64(all))
}

// own is the processor time of this process and of all that descend from it,
// also of those that have ended and were waited for.
func own() time.Duration {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, used := map[int]int{}, map[int]time.Duration{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if pid, parent, time, ok := processOf(string(text)); ok {
			parents[pid], used[pid] = parent, time
		}
	}
	me := os.Getpid()
	var sum time.Duration
	for pid := range used {
		for at := pid; at > 1; at = parents[at] {
			if at == me {
				sum += used[pid]
				break
			}
		}
	}
	return sum
}

// processOf reads a line of /proc/PID/stat: the name, in brackets, may hold anything.
func processOf(stat string) (pid, parent int, used time.Duration, ok bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < 0 {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:open]))
	fields := strings.Fields(stat[end+1:])
	if err != nil || len(fields) < 15 {
		return 0, 0, 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // utime stime cutime cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		used += time.Duration(n) * tick
	}
	return pid, parent, used, true
}

// ProcessorTime is what this process has used of the processors until now.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for RUSAGE_SELF
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Process is what /proc has of a process: its processor time, and the most memory it ever had resident.
type Process struct {
	Processor time.Duration
	PeakBytes float64
}

// ReadProcess reads it for a process that is running.
func ReadProcess(pid int) (Process, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, err
	}
	_, _, used, ok := processOf(string(stat))
	if !ok {
		return Process{}, fmt.Errorf("%s/stat is %q", dir, stat)
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Process{}, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return Process{Processor: used, PeakBytes: kb * 1024}, err
		}
	}
	return Process{}, fmt.Errorf("%s/status has no VmHWM", dir)
}
