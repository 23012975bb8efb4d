// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
)

// turns bound how many requests do something at once: it has an element for each that does.
type turns chan struct{}

// take waits until one more may, which ends with done. what is a plural noun.
func (t turns) take(ctx context.Context, what string) (done func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s take too long: %w", what, ctx.Err())
	}
}

// try takes a turn if there is one now.
func (t turns) try() (done func(), ok bool) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, true
	default:
		return nil, false
	}
}
