// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/services/server"
)

// Those who follow one environment list its containers together.
func TestFollowersShareWhatTheyPoll(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false))
	c.lists = newSharedLists(time.Hour)
	var lists atomic.Int32
	w.with(func() { w.before = countsPods(&lists) })
	w.log = func(rw http.ResponseWriter, r *http.Request, _ string) {
		flush(rw, at(1, "a line"))
		<-r.Context().Done()
	}
	var all []*following
	for range 20 {
		all = append(all, startFollowing(t, c))
	}
	for _, f := range all {
		f.eventually(t, "backend: a line")
	}
	assert.EqualValues(t, 1, lists.Load(), "lists of the pods")
	assert.Equal(t, 20, c.lists.by["e"].followers)
}

// What failed is read again, and nothing is kept of an environment that none follows.
func TestAFailedPollIsNotShared(t *testing.T) {
	l := newSharedLists(time.Hour)
	leave := l.join("e")
	reads := 0
	read := func(context.Context) ([]instance, error) {
		reads++
		if reads == 1 {
			return nil, assert.AnError
		}
		return []instance{{}}, nil
	}
	_, err := l.there(t.Context(), "e", read)
	require.ErrorIs(t, err, assert.AnError)
	for range 2 {
		found, err := l.there(t.Context(), "e", read)
		require.NoError(t, err)
		require.Len(t, found, 1)
	}
	assert.Equal(t, 2, reads)
	leave()
	assert.Empty(t, l.by)
}

// A right that is taken away ends a stream of logs with the next line after a minute.
func TestRightsAreCheckedAgainWhileLogsAreSent(t *testing.T) {
	for name, follow := range map[string]bool{"followed": true, "so far": false} {
		t.Run(name, func(t *testing.T) {
			w, c := logging(t, running("backend", "b", "1", false))
			w.log = func(rw http.ResponseWriter, _ *http.Request, _ string) {
				for i := range 100 {
					flush(rw, at(float64(i), "a line"))
				}
			}
			clock := time.Unix(1e9, 0)
			c.now = func() time.Time { return clock }
			sent := 0
			err := c.logs(t.Context(), "default", &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, Follow: follow}, func(*schedulerv1.GetEnvironmentLogsResponse) error {
				if sent++; sent == 5 {
					w.with(func() { w.denied["get"] = true })
				}
				clock = clock.Add(recheck / 10)
				return nil
			})
			assert.Equal(t, codes.PermissionDenied, server.AsError(err).Code, "%v", err)
			assert.Equal(t, 10, sent, "lines in the minute that a check counts")
		})
	}
}

// A caller reads so many containers at a time, over all calls.
func TestTheLogsThatACallerReadsAreBounded(t *testing.T) {
	w, c := logging(t, running("backend", "b1", "1", false), running("backend", "b2", "2", false))
	c.logPool = server.NewPool("logs", server.NewLimit("logs", 10), server.NewLimit("logsPerCaller", 3))
	w.log = func(rw http.ResponseWriter, r *http.Request, name string) {
		flush(rw, at(1, name))
		<-r.Context().Done()
	}
	first := startFollowing(t, c)
	require.Eventually(t, func() bool { return len(first.have()) == 2 }, 10*time.Second, 5*time.Millisecond)
	second := startFollowing(t, c)
	require.Eventually(t, func() bool { return len(second.have()) == 1 }, 10*time.Second, 5*time.Millisecond, "one more")
	_, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	assert.Equal(t, codes.ResourceExhausted, server.AsError(err).Code)
	require.ErrorContains(t, err, "logsPerCaller is 3")
	first.stop()
	require.Eventually(t, func() bool { return len(second.have()) == 2 }, 10*time.Second, 5*time.Millisecond, "the other, once there is capacity")
}
