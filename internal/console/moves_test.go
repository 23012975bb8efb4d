// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// moveEvents are events about the move of web-3 to slot 3.
func moveEvents(texts string) []overview.MoveEvent {
	now := time.Now()
	return []overview.MoveEvent{{
		Time: now.Add(-time.Minute), Reason: v1alpha1.EventReasonMoved, Count: 1, Message: texts,
		Of: &rebalance.MoveReport{
			Pod: "old" + texts, UID: types.UID("uid" + texts), From: "on-demand", FromNode: "o-3" + texts, To: "spot", Node: "s-3" + texts, Slot: new(3),
			Proven: now.Add(-time.Minute),
		},
	}}
}

// moving has web with slot 3 in a state, of which the pod came after the move began.
func moving(state overview.State, available time.Time) *overview.Overview {
	w := workload("shop", "web")
	w.Satisfied = overview.Known(state == overview.InPlace)
	s := &w.Slots[3]
	s.State, s.Pod = state, "web-new"
	s.Arrival = overview.Arrival{Created: time.Now(), Bound: time.Now(), Available: available}
	if state == overview.NoPod {
		s.Pod, s.Node, s.NodeType, s.Arrival = "", "", "", overview.Arrival{}
	}
	return overviewOf(w)
}

const movesAt = "/workloads/shop/Deployment/web"

// A move changes on the open page of its workload as one row of the stream, until it is over.
func TestAMoveIsSeenWhileItRuns(t *testing.T) {
	source := &cluster{o: moving(overview.NoPod, time.Time{})}
	reports := &fakeReports{moves: moveEvents("")}
	c := running(t, Options{Source: source, Interval: interval, Reports: reports, Log: slog.New(slog.DiscardHandler)})
	_, page := get(t, c, movesAt)
	for _, want := range []string{
		`<h3>old: on-demand → spot <span class="badge warn">At: Replaced</span></h3>`, "The next pod is not created yet.", `<span class="badge ok">✓ Evicted</span>`,
		`<span class="badge spot">spot</span>`,
	} {
		assert.Contains(t, page, want)
	}
	next := listen(t, c, movesAt)
	source.set(moving(overview.InPlace, time.Now().Add(-time.Second)), nil)
	var row replacement
	for row = next(); !strings.HasPrefix(row.ID, "move-"); row = next() {
		assert.NotEqual(t, "moves", row.ID, "the other moves stay")
	}
	assert.True(t, strings.HasPrefix(row.HTML, `<article id="`+row.ID+`"`), row.HTML)
	assert.Contains(t, row.HTML, `<span class="badge ok">✓ Available</span></h3>`)
	assert.Contains(t, row.HTML, "<details><summary>Over at ")
}

func TestMovesThatCannotBeReadAreUnknown(t *testing.T) {
	source := &cluster{o: moving(overview.InPlace, time.Now())}
	page := func(reports *fakeReports, at string) string {
		c := running(t, Options{Source: source, Interval: interval, Reports: reports, Log: slog.New(slog.DiscardHandler)})
		w, page := get(t, c, at)
		require.Equal(t, http.StatusOK, w.Code)
		return page
	}
	assert.Contains(t, page(&fakeReports{noEvents: errors.New(`cannot list "events"`)}, movesAt), `Moves are unknown: cannot list &#34;events&#34;`)
	assert.Contains(t, page(&fakeReports{}, movesAt), "No replica was moved in the last hour.")
	slow := &fakeReports{wait: func(ctx context.Context) { <-ctx.Done() }, noEvents: context.DeadlineExceeded}
	assert.Contains(t, page(slow, movesAt), "The events about moves are being read.", "a page does not wait for events")

	c := running(t, Options{Source: source, Interval: interval, Log: slog.New(slog.DiscardHandler)})
	_, without := get(t, c, movesAt)
	assert.NotContains(t, without, `id="moves"`, "without the right to read events at all")
}

// Names in events are what anyone who may create events writes.
func TestTextsOfMovesAreInert(t *testing.T) {
	const evil = `<script>alert(1)</script>" onmouseover="x`
	source := &cluster{o: moving(overview.InPlace, time.Now())}
	c := running(t, Options{Source: source, Interval: interval, Reports: &fakeReports{moves: moveEvents(evil)}, Log: slog.New(slog.DiscardHandler)})
	_, page := get(t, c, movesAt)
	all := elements(t, page)
	assert.Len(t, all["script"], 1)
	assert.Len(t, all["article"], 1)
	for _, list := range all {
		for _, n := range list {
			assert.Empty(t, attribute(n, "onmouseover"))
		}
	}
}

// Events are read often while a replica moves, and seldom while none does: each reading is a request for the API server.
func TestMovesAreReadAsOftenAsTheyChange(t *testing.T) {
	now, reports := time.Now(), &fakeReports{}
	m := &movesReader{
		reports: reports, turns: newTurns(1, 1), now: func() time.Time { return now }, path: []string{"shop", "Deployment", "web"}, query: url.Values{},
	}
	reads := func(o *overview.Overview, after time.Duration) int {
		now = now.Add(after)
		before := reports.count()
		m.in(t.Context(), &state{Reading: &overview.Reading{Overview: o}, rows: &sync.Map{}, at: now}, time.Second)
		return reports.count() - before
	}
	quiet := overviewOf(workload("shop", "web"))
	assert.Equal(t, 1, reads(quiet, 0), "the first")
	assert.Equal(t, 0, reads(quiet, movesBusy))
	assert.Equal(t, 1, reads(quiet, movesQuiet))
	off := moving(overview.NoPod, time.Time{})
	assert.Equal(t, 0, reads(off, movesBusy/2))
	assert.Equal(t, 1, reads(off, movesBusy/2), "a pod has gone")
	assert.Equal(t, 1, reads(off, movesBusy), "the mix is not satisfied")
	reports.noEvents = errors.New("forbidden")
	shown := m.in(t.Context(), &state{Reading: &overview.Reading{Overview: off}, at: now}, time.Second)
	assert.Empty(t, shown.moves.problem, "it is not time yet")
}
