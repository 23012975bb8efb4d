// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const limit = 10 * time.Second

// stopped is a fence of a process that leads, and a clock that goes on while the process does not.
func stopped() (*Fence, *clocktesting.FakeClock) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := New(c)
	f.lead(limit)
	return f, c
}

func TestAProcessThatWasStoppedForTooLongStaysShut(t *testing.T) {
	f, c := stopped()
	c.SetTime(c.Now().Add(limit))
	assert.False(t, f.Shut(), "not for longer than it may")
	c.SetTime(c.Now().Add(limit))
	assert.False(t, f.Shut(), "it ran in between")
	c.SetTime(c.Now().Add(limit + 1))
	assert.True(t, f.Shut())
	assert.True(t, f.Shut(), "whoever asks later")
}

func TestAProcessThatDoesNotLeadMayBeStopped(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := New(c)
	c.SetTime(c.Now().Add(time.Hour))
	assert.False(t, f.Shut())
}

func TestAProcessThatRunsIsNeverShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(clock.RealClock{})
		time.Sleep(time.Hour) // it stood by
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx, limit) }()
		time.Sleep(time.Hour)
		assert.False(t, f.Shut(), "it was noted all the time")
		cancel()
		require.NoError(t, <-ended)
		time.Sleep(limit + 1)
		assert.True(t, f.Shut(), "and now it is not")
	})
}

func TestAProcessThatWasStoppedIsTold(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := New(c)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context(), limit) }()
	require.Eventually(t, c.HasWaiters, time.Minute, time.Millisecond)
	c.Step(2 * limit)
	require.ErrorIs(t, <-ended, ErrShut)
}

// answering answers everything.
type answering struct{ asked []string }

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestBehindAShutFenceNothingIsWritten(t *testing.T) {
	f, c := stopped()
	api := &answering{}
	client := http.Client{Transport: f.Wrap(api)}
	all := []string{
		"GET /api/v1/pods", "HEAD /api/v1/pods", "POST /api/v1/namespaces/shop/pods/web/eviction", "PATCH /apis/berth.dev/v1alpha1/namespaces/shop/capacitymixes/web/status",
		"DELETE /api/v1/namespaces/shop/pods/web", "PUT /apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth-controller",
	}
	ask := func() (answered []string) {
		for _, what := range all {
			method, path, _ := strings.Cut(what, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, strings.NewReader("x"))
			require.NoError(t, err)
			resp, err := client.Do(r)
			if err != nil {
				require.ErrorIs(t, err, ErrShut)
				continue
			}
			require.NoError(t, resp.Body.Close())
			answered = append(answered, what)
		}
		return answered
	}
	assert.Equal(t, all, ask())
	c.SetTime(c.Now().Add(2 * limit))
	assert.Equal(t, []string{all[0], all[1], all[5]}, ask(), "who reads, and leader election")
	assert.Equal(t, len(all)+3, len(api.asked))
}
