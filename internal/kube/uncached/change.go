// SPDX-License-Identifier: Apache-2.0

package uncached

import "k8s.io/client-go/util/retry"

// Change calls write with an object, and again with what read returns as long as the write conflicts with that of another client. It
// returns the object that was written last, or what read returned with its error.
func Change[T any](object T, read func() (T, error), write func(T) error) (T, error) {
	stale := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if stale {
			if object, err = read(); err != nil {
				return err
			}
		}
		stale = true
		return write(object)
	})
	return object, err
}
