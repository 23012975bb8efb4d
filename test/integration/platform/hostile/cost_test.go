// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

const (
	// timeEach is how much processor time an object may cost each program, and as much for each further unit of its bytes: a program
	// reads an object about five times, by the events of its watch and the answers to what it writes, at some 20 MB a second.
	timeEach = 10 * time.Millisecond
	unit     = 16 << 10
	// memoryPerByte is how much of a program's memory an object may take that it keeps: the object, and garbage.
	memoryPerByte = 3
	// mostOfOne is how much memory one object may take.
	mostOfOne = 10 << 20
	// tick is the unit of the times in /proc/PID/stat.
	tick = 10 * time.Millisecond
	// calmFor is how long no program works once it has taken all objects: longer than what delays reconciles.
	calmFor = 2 * time.Second
	// calmBound is how long the programs, and the API server, may be busy with what a tenant wrote at once.
	calmBound = 5 * time.Minute
)

// usual is what the programs need without a tenant's objects.
type usual struct {
	// took is how long a workload took to be placed, and time what processor time it cost each program.
	took time.Duration
	time map[string]time.Duration
	// idle is the part of a processor that each program uses all the time.
	idle map[string]float64
}

// processorTime returns how long a process ran on a processor, which other load of the machine hardly changes.
func processorTime(t *testing.T, p program) time.Duration {
	t.Helper()
	text := testenv.ReadFile(t, fmt.Sprintf("/proc/%d/stat", p.PID()))
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // the name before may have spaces
	sum := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		sum += n
	}
	return time.Duration(sum) * tick
}

func (h *host) processorTimes(t *testing.T) map[string]time.Duration {
	t.Helper()
	times := map[string]time.Duration{}
	for name, p := range h.programs {
		h.alive(t, name)
		times[name] = processorTime(t, p)
	}
	return times
}

// calm waits until no program has used more than a tenth of a processor for a while, and none has anything left to do: it may wait for
// an API server that has more to do.
func (h *host) calm(w *testenv.World) {
	w.T.Helper()
	since, before := time.Now(), h.processorTimes(w.T)
	w.UpTo(calmBound).Eventually("the programs have taken all objects", func() (bool, string) {
		now, passed := h.processorTimes(w.T), time.Since(since)
		saw := fmt.Sprintf("calm for %s", passed)
		for name, p := range h.programs {
			if used := now[name] - before[name]; used > passed/10+3*tick {
				saw = fmt.Sprintf("%s worked for %s in %s", name, used, passed)
			} else if n := 0; passed > calmFor {
				for _, metric := range []string{"controller_runtime_active_workers", "workqueue_depth"} {
					n += w.Metric(p, metric, nil)
				}
				if n > 0 {
					saw = fmt.Sprintf("%s has %d objects to reconcile", name, n)
				}
			}
		}
		if !strings.HasPrefix(saw, "calm") {
			since, before = time.Now(), now
			return false, saw
		}
		return passed > calmFor, saw
	})
}

// resident returns the memory of a process.
func resident(t *testing.T, p program) int {
	t.Helper()
	resetPeak(t, p)
	return peak(t, p)
}

// lasting is a lease that a program keeps while the API server has no time for it. The tenant of the tests is an administrator, whose
// calls no priority level bounds, and on two processors with other suites the API server may be busy for longer than a usual lease lasts.
func lasting(c *controller.Configuration) {
	c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 120, 110
}

// newHost starts every program of Berth that watches objects of tenants beside the scheduler of the package, and measures what each
// needs without a tenant.
func newHost(t *testing.T) *host {
	t.Helper()
	// There is room for a neighbour of each batch beside the pods of the tenant's environments.
	large := func(n *cluster.NodeSpec) { n.CPU, n.Memory, n.Pods = "960", "16Ti", 2000 }
	w := testenv.New(t, append(cluster.Nodes("spot", 6, large), cluster.Nodes("on-demand", 4, large)...)...)
	w.ApplyFiles("manifests/rbac/environments", "manifests/rbac/records", "manifests/templates")
	h := &host{World: w, start: map[string]int{}, pids: map[string]int{}, programs: map[string]program{
		"scheduler":  w.Scheduler(),
		"controller": w.NamedController("berth-controller", lasting),
		"records": w.NamedController("berth-records", lasting, func(c *controller.Configuration) {
			c.Controllers = []string{controller.ControllerRecords}
		}),
		"environments": w.NamedController("berth-environments", lasting, func(c *controller.Configuration) {
			c.Controllers = []string{controller.ControllerEnvironments}
		}),
	}}
	for name, p := range h.programs {
		h.pids[name] = p.PID()
	}
	h.calm(w) // the scheduler may still have the pods of the test before
	place(w, "first")
	h.calm(w)
	before, began := h.processorTimes(t), time.Now()
	h.calm(w)
	h.usual.idle = map[string]float64{}
	for name, now := range h.processorTimes(t) {
		h.usual.idle[name] = float64(now-before[name]+tick) / float64(time.Since(began))
	}
	before = h.processorTimes(t)
	h.usual.took = place(w, "second")
	h.calm(w)
	h.usual.time = h.processorTimes(t)
	for name, p := range h.programs {
		h.usual.time[name] -= before[name]
		h.start[name] = resident(t, p)
	}
	h.neighbours = []string{"first", "second"}
	return h
}
