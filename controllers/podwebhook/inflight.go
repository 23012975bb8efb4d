// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"net/http"
	"time"
)

const (
	// maxReviewBytes is the largest review: a pod of a create request is at most 3 MiB, and a review has little beside it.
	maxReviewBytes = 4 << 20
	// reviewsAtOnce bounds the reviews that are in memory.
	reviewsAtOnce = 64
	// reviewTimeout is how long the API server waits for an answer: a body that takes longer is not its.
	reviewTimeout = 3 * time.Second
)

// boundedReviews passes requests on whose size, number and time are bounded, since any client that reaches the port may send them.
// A request beyond that gets an error, and the API server creates the pod as it is.
func boundedReviews(next http.Handler) http.Handler {
	turns := make(chan struct{}, reviewsAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(reviewTimeout)) // not of recorders in tests
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		default:
			http.Error(w, "too many reviews", http.StatusTooManyRequests)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxReviewBytes)
		next.ServeHTTP(w, r)
	})
}
