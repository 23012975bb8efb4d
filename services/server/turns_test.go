// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOneCallAtATimeHasTheTurnOfAKey(t *testing.T) {
	var turns Turns
	var inside, most atomic.Int32
	var calls errgroup.Group
	for range 50 {
		calls.Go(func() error {
			done, err := turns.Take(t.Context(), "a")
			if err != nil {
				return err
			}
			defer done()
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			inside.Add(-1)
			return nil
		})
	}
	require.NoError(t, calls.Wait())
	assert.EqualValues(t, 1, most.Load())
	assert.Empty(t, turns.by, "nothing is kept of a key that no call uses")
}

func TestACallWaitsForItsTurnUntilItsDeadline(t *testing.T) {
	var turns Turns
	done, err := turns.Take(t.Context(), "a")
	require.NoError(t, err)
	other, err := turns.Take(t.Context(), "b")
	require.NoError(t, err, "another key")
	other()
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = turns.Take(soon, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	done()
	done, err = turns.Take(t.Context(), "a")
	require.NoError(t, err)
	done()
	assert.Empty(t, turns.by)
}

func TestAWriteIsRepeatedWhileItConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("old"))
	tries := 0
	require.NoError(t, Converge(t.Context(), func() error {
		if tries++; tries < 8 {
			return conflict
		}
		return nil
	}))
	assert.Equal(t, 8, tries)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := Converge(soon, func() error { return conflict })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, "DEADLINE_EXCEEDED", CodeName(answerTo(soon, err).Code))
	other := errors.New("another")
	require.ErrorIs(t, Converge(t.Context(), func() error { return other }), other)
}
