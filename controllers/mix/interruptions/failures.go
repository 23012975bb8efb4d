// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// failures are the attempts in a row that failed.
type failures struct {
	n int
	// last is the last error, which is logged once.
	last string
}

// after returns the time until the next attempt, 0 after one without an error.
func (f *failures) after(ctx context.Context, err error) time.Duration {
	if err == nil {
		*f = failures{}
		return 0
	}
	if err.Error() != f.last {
		log.FromContext(ctx).Error(err, "Cannot count the interruptions of spot nodes")
		f.last = err.Error()
	}
	f.n++
	return min(retryAfter<<min(f.n-1, 8), maxRetryAfter)
}
