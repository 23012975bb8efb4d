// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// off is a workload with replicas that wait.
func off(name string, waits int) overview.Workload {
	w := workload("shop", name)
	w.Satisfied, w.Reason, w.Pending = overview.Known(false), "Pending", overview.Known(waits)
	w.Message = fmt.Sprintf("%d of 10 replicas wait for a node.", waits)
	return w
}

func TestWhatHitsMostReplicasIsNamedFirst(t *testing.T) {
	many := []overview.Workload{workload("shop", "fine")}
	for i := range 8 {
		many = append(many, off(fmt.Sprint("web-", i), i))
	}
	concerns, more := concernsOf(overviewOf(many...))
	require.Len(t, concerns, mostConcerns)
	assert.Equal(t, 3, more)
	assert.Equal(t, concern{"shop/web-7", "/workloads/shop/Deployment/web-7", "7 of 10 replicas wait for a node.", 7, 10}, concerns[0])
	assert.Equal(t, 6, concerns[1].Hit)
	_, c := start(t, overviewOf(many...))
	_, page := get(t, c, "/")
	assert.Less(t, strings.Index(page, "shop/web-7"), strings.Index(page, "shop/web-6"))
	_, page = get(t, c, "/?filter=web")
	assert.NotContains(t, page, "Needs attention", "a search is for workloads")
	fine := overviewOf(workload("shop", "web"))
	_, c = start(t, fine)
	_, page = get(t, c, "/")
	assert.Contains(t, page, "Of the workloads that are known, none needs attention.")
	fine.Totals.Satisfied = overview.Known(1)
	_, c = start(t, fine)
	_, page = get(t, c, "/")
	assert.Contains(t, page, "All workloads satisfy their mix.")
}

// The parts of a bar are in it, in order and without a gap, and have its whole where all is placed.
func TestTheRectanglesOfABarFillIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) portion {
			return portion{"spot", rapid.IntRange(0, 1_000_000).Draw(t, "n")}
		}), 0, 4).Draw(t, "parts")
		whole := 0
		for _, p := range parts {
			whole += p.n
		}
		var b bar
		b.fill(0, barHeight, whole, parts)
		end := 0
		for _, r := range b.Rects {
			require.Equal(t, end, r.X)
			require.Positive(t, r.Width)
			end += r.Width
		}
		if whole > 0 {
			require.Equal(t, barWidth, end)
		}
	})
}

func TestPodsAreCountedByZone(t *testing.T) {
	groups := []overview.NodeGroup{
		{Type: "spot", Zone: "a", Pods: overview.Known(7)},
		{Type: "on-demand", Zone: "a", Pods: overview.Known(3)},
		{Type: "on-demand", Zone: "", Pods: overview.Known(2)},
	}
	words := func() map[string]string {
		all := map[string]string{}
		bars, _ := placeBars(groups, "no zone")
		for _, b := range bars {
			all[b.Name] = b.Words
		}
		return all
	}
	assert.Equal(t, map[string]string{"a": "7 spot, 3 on-demand", "no zone": "2 on-demand"}, words())
	groups[0].Pods = overview.Maybe[int]{}
	assert.Equal(t, map[string]string{"a": "?", "no zone": "?"}, words(), "what may not be listed is unknown")
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func moved(at time.Time) overview.Happening {
	return overview.Happening{
		Time: at, Lane: overview.LaneMoves, Namespace: "shop", Kind: "Deployment", Name: "web", Reason: "ReplicaMoved", Message: "<b>Evicted",
	}
}

func TestTheTimelineHasTheLastDay(t *testing.T) {
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	m.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionSatisfied, Status: metav1.ConditionFalse, Reason: "MixNotSatisfied", LastTransitionTime: metav1.NewTime(noon.Add(-20 * time.Hour))},
	}
	source := readings(func() *overview.Reading {
		return &overview.Reading{Overview: overviewOf(workload("shop", "web")), Mixes: []*v1alpha1.CapacityMix{m}}
	})
	reports := &fakeReports{happened: []overview.Happening{moved(noon.Add(-time.Minute)), moved(noon.Add(-25 * time.Hour))}}
	c := running(t, Options{
		Source: source, Interval: interval, Log: slog.New(slog.DiscardHandler), Reports: reports, Now: func() time.Time { return noon },
	})
	w, page := get(t, c, "/timeline")
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, page, `aria-label="Mixes: 1, Moves: 1, Borrowing: 0, Storms: 0, Breaker: 0, Rollouts: 0"`)
	assert.Contains(t, page, `<time datetime="2026-11-29T11:59:00Z" title="2026-11-29 11:59:00 UTC">11:59:00</time>`)
	assert.Contains(t, page, `<a href="/workloads/shop/Deployment/web">shop/web</a> ReplicaMoved <span class="dim">&lt;b&gt;Evicted</span>`)
	assert.Contains(t, page, "the oldest of 2 events is of 2026-11-28 11:00 UTC.", "it says how far the events reach back")
	_, part := get(t, c, "/timeline?part=1")
	assert.NotContains(t, part, "<html")
	assert.Contains(t, part, "ReplicaMoved")

	reports.noEvents, reports.happened = errors.New("events is forbidden"), nil
	_, page = get(t, c, "/timeline")
	assert.Contains(t, page, "Moves and borrowing are unknown: events is forbidden")
	assert.Contains(t, page, "MixNotSatisfied", "what the objects keep is there without events")
}

// The pages of a cluster of 1,000 workloads, of workloads of 100 replicas, and of one with 1,000.
func TestPagesAreSmall(t *testing.T) {
	assert.Less(t, compressedSize(t, thousand(), "/"), 100<<10)
	large := thousand()
	for i := range large.Workloads {
		large.Workloads[i] = slots(large.Workloads[i], 100)
	}
	assert.Less(t, compressedSize(t, large, "/"), 100<<10)
	large.Workloads[0] = slots(large.Workloads[0], 1000)
	assert.Less(t, compressedSize(t, large, workloadURL(&large.Workloads[0])), 100<<10)
}

// slots is a workload with more slots.
func slots(w overview.Workload, n int) overview.Workload {
	all := w.Slots
	w.Slots = nil
	for i := range n {
		s := all[i%len(all)]
		s.Slot, s.Pod, s.Node = i, fmt.Sprintf("%s-7dd8c6474c-%05x", w.Name, i*7919), fmt.Sprintf("ip-10-0-%d-%d.internal", i/250, i%250)
		w.Slots = append(w.Slots, s)
	}
	w.Replicas = n
	return w
}
