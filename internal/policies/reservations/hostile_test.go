// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

const many = 10_000

// mostHeap bounds what they take in addition to the objects, which the cache of the scheduler holds. They take 12 MiB.
const mostHeap = 25 << 20

// hostile are 10,000 Reservations of a namespace for 100 pods each.
func hostile() (all []*v1alpha1.Reservation) {
	for i := range many {
		r := reservation(fmt.Sprintf("r%05d", i), replicas(100))
		r.CreationTimestamp = metav1.NewTime(began.Add(-time.Duration(i) * time.Millisecond)) // the worst order
		all = append(all, r)
	}
	return all
}

// raced reports whether the race detector is on, which makes all several times slower.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// fastest returns the least processor time that something takes in some runs.
func fastest(runs int, do func()) time.Duration {
	least := time.Hour
	for range runs {
		start := bench.ProcessorTime()
		do()
		least = min(least, bench.ProcessorTime()-start)
	}
	return least
}

// The bounds are several times what was measured on a busy machine with two CPUs: they catch work that is not linear.
func TestTenThousandReservationsOfANamespaceAreBounded(t *testing.T) {
	all := hostile()
	within := func(what string, most time.Duration, runs int, do func()) {
		t.Helper()
		took := fastest(runs, do)
		t.Logf("%s: %s", what, took)
		if !raced() {
			assert.Less(t, took, most, what)
		}
	}
	var l *Holdings
	before := builders.Heap()
	within("Set of all", 1500*time.Millisecond, 3, func() {
		l = leader()
		for _, r := range all {
			l.Set(r)
		}
	})
	for i := range 1000 {
		l.SetNode(roomy(nodeName(i)))
	}
	l.View(began)
	for i, e := range l.active["shop"] {
		require.NotNil(t, l.Next(began))
		for j := range 100 {
			l.Hold(e.r, nodeName(100*i+j), began)
		}
	}
	require.Nil(t, l.Next(began), "the others hold nothing")
	heap := int64(builders.Heap()) - int64(before)
	t.Logf("heap: %d KiB", heap>>10)
	assert.Less(t, heap, int64(mostHeap))

	web := pod("web")
	within("View", 20*time.Millisecond, 20, func() { l.touch(); l.View(began) })
	within("Attempt", 5*time.Millisecond, 20, func() { l.Attempt(web, began) })
	within("Next", 500*time.Microsecond, 20, func() { l.Next(began) })
	within("Take", 500*time.Microsecond, 20, func() { l.Take(web, l.named("r09999").r, nodeName(0), began) })
	within("Return", 1500*time.Microsecond, 20, func() { l.Return(web) })
	var updates []Update
	within("Updates of all", 500*time.Millisecond, 5, func() { updates = l.Updates(began) })
	require.Len(t, updates, many)
	for _, u := range updates {
		l.Written(next(u.Object))
	}
	within("Updates of none", 125*time.Millisecond, 5, func() { require.Empty(t, l.Updates(began)) })
	expired := at(2 * time.Hour)
	l.View(expired)
	within("Attempt after the expiration of all", 500*time.Microsecond, 20, func() { l.Attempt(web, expired) })
	start := bench.ProcessorTime()
	for _, r := range all {
		l.Delete(r.Namespace, r.Name)
	}
	assert.Less(t, bench.ProcessorTime()-start, time.Second, "Delete of all takes 10ms")
	assert.Empty(t, l.entries)
	assert.Empty(t, l.of)
	runtime.KeepAlive(all)
}

func nodeName(i int) string { return fmt.Sprintf("n%03d", i%1000) }
