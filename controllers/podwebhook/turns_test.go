// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// over is a context that has ended: what has to wait fails.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestOneNamespaceLeavesReadsToOthers(t *testing.T) {
	turns := newTurns()
	for range readsAtOncePerNamespace {
		require.True(t, turns.enter(t.Context(), "greedy"))
	}
	assert.False(t, turns.enter(over(t), "greedy"))
	require.True(t, turns.enter(t.Context(), "other"))
	turns.leave("other")
	for range readsAtOncePerNamespace {
		turns.leave("greedy")
	}
	assert.Empty(t, turns.of, "nothing is left of a namespace that reads nothing")
	assert.True(t, turns.all.TryAcquire(readsAtOnce), "all turns are free")
}

func TestReadsHaveARate(t *testing.T) {
	turns := newTurns()
	ctx, cancel := context.WithTimeout(t.Context(), 1) // nothing waits for the rate
	defer cancel()
	made := 0
	for range 3 * namespaceReadBurst {
		if turns.rateOf("greedy").Allow() {
			made++
		}
	}
	assert.Less(t, made, 2*namespaceReadBurst)
	assert.False(t, turns.enter(ctx, "greedy"))
	require.True(t, turns.enter(t.Context(), "other"))
	turns.leave("other")
	assert.Empty(t, turns.of)
}

func TestReviewsAreBounded(t *testing.T) {
	var read int64
	h := boundedReviews(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, _ = io.Copy(io.Discard, r.Body)
	}))
	post := func(h http.Handler, size int) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(make([]byte, size))))
		return w.Code
	}
	post(h, 3*maxReviewBytes)
	assert.EqualValues(t, maxReviewBytes, read)

	arrived, end := make(chan struct{}), make(chan struct{})
	slow := boundedReviews(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-end
	}))
	done := make(chan int)
	for range reviewsAtOnce {
		go func() { done <- post(slow, 1) }()
		<-arrived
	}
	assert.Equal(t, http.StatusTooManyRequests, post(slow, 1))
	close(end)
	for range reviewsAtOnce {
		assert.Equal(t, http.StatusOK, <-done)
	}
}
