// SPDX-License-Identifier: Apache-2.0

package leaderguard

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answering answers everything.
type answering struct{ asked []string }

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func request(t *testing.T, what string) *http.Request {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, strings.NewReader("x"))
	require.NoError(t, err)
	return r
}

func TestBehindAShutFenceNothingIsWritten(t *testing.T) {
	f, c, _, _ := leader(t)
	api := &answering{}
	client := http.Client{Transport: f.Wrap(api)}
	all := []string{
		"GET /api/v1/pods", "HEAD /api/v1/pods", "POST /api/v1/namespaces/shop/pods/web/eviction", "PATCH /apis/berth.dev/v1alpha1/namespaces/shop/capacitymixes/web/status",
		"DELETE /api/v1/namespaces/shop/pods/web", "PUT /apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth-controller",
	}
	ask := func() (answered []string) {
		for _, what := range all {
			resp, err := client.Do(request(t, what))
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
	stop(c, 2*limits.RenewDeadline)
	assert.Equal(t, []string{all[0], all[1], all[5]}, ask(), "reads, and leader election")
	assert.Equal(t, len(all)+3, len(api.asked))
	client.Transport = f.WrapAll(api)
	assert.Equal(t, []string{all[0], all[1]}, ask(), "reads alone")
}

// roundTripper is a function.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAWriteInFlightIsCancelledWhenTheFenceShuts(t *testing.T) {
	f, c, _, _ := leader(t)
	began := make(chan struct{})
	stalled := f.Wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
		close(began)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}))
	ended := make(chan error, 1)
	go func() {
		resp, err := stalled.RoundTrip(request(t, "POST /api/v1/namespaces/shop/pods/web/eviction"))
		ended <- errors.Join(err, closed(resp))
	}()
	<-began
	c.Step(9 * time.Second)
	require.False(t, f.Shut())
	select {
	case err := <-ended:
		require.Fail(t, "it ended early", err)
	default:
	}
	c.Step(9 * time.Second)
	require.True(t, f.Shut())
	require.ErrorIs(t, <-ended, ErrShut)
}

func closed(resp *http.Response) error {
	if resp == nil {
		return nil
	}
	return resp.Body.Close()
}

func TestTheContextOfAWriteEndsWithItsBody(t *testing.T) {
	f, _, _, _ := leader(t)
	var sent *http.Request
	resp, err := f.Wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		return (&answering{}).RoundTrip(r)
	})).RoundTrip(request(t, "DELETE /api/v1/namespaces/shop/pods/web"))
	require.NoError(t, err)
	require.NoError(t, sent.Context().Err())
	require.NoError(t, resp.Body.Close())
	require.Error(t, sent.Context().Err())
}
