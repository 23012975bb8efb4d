// SPDX-License-Identifier: Apache-2.0

package rebalance

import "time"

// Backoff returns how long to wait after a number of failures in a row: base after the first, twice as long after every
// further one, never longer than limit. No failures, or a base or limit that is not positive, mean no wait.
func Backoff(base, limit time.Duration, failures int32) time.Duration {
	if failures <= 0 || base <= 0 || limit <= 0 {
		return 0
	}
	// base·2^n ≤ limit is the same as base ≤ ⌊limit/2^n⌋, which cannot overflow.
	doublings := failures - 1
	if base > limit>>doublings {
		return limit
	}
	return base << doublings
}
