// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHangingAPIServerDoesNotBlockACycle(t *testing.T) {
	b := NewBindings(1, time.Millisecond)
	hang := make(chan struct{})
	go func() { _ = b.Do(t.Context(), func() error { <-hang; return nil }) }()
	require.Eventually(t, func() bool { return b.InProgress() == 1 }, 10*time.Second, time.Millisecond)
	b.Wait(t.Context()) // returns

	b.timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Wait(ctx)
	require.ErrorIs(t, b.Do(ctx, func() error { return nil }), context.Canceled)
	close(hang)
}
