// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/services/server"
)

var epoch = time.Unix(1e9, 0)

func store(clock *testingclock.FakePassiveClock, total, perUser int) *sessions {
	return &sessions{
		clock: clock, idle: 10 * time.Minute, most: time.Hour, all: map[sessionID]*session{},
		total: server.NewLimit("sessions", total), perUser: server.NewLimit("sessionsPerUser", perUser),
	}
}

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

func TestASessionEndsWhenItIsIdleAndAfterTheMaximum(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	s := store(clock, 10, 10)
	cookie, _, err := s.begin("token", named("alice"))
	require.NoError(t, err)
	alive := func(after time.Duration) bool {
		clock.SetTime(clock.Now().Add(after))
		found, release := s.use(cookie)
		if found != nil {
			release()
		}
		return found != nil
	}
	assert.True(t, alive(9*time.Minute))
	assert.True(t, alive(9*time.Minute), "it was used")
	assert.False(t, alive(10*time.Minute))

	clock.SetTime(epoch)
	cookie, open, err := s.begin("token", named("alice"))
	require.NoError(t, err)
	_, release := s.use(cookie)
	clock.SetTime(epoch.Add(59 * time.Minute))
	_, _, ok := s.state(open)
	assert.True(t, ok, "a page is open")
	clock.SetTime(epoch.Add(time.Hour))
	_, _, ok = s.state(open)
	assert.False(t, ok, "no session lasts longer")
	release()
	assert.Empty(t, s.all)
}

func TestTheCookieIsNotInTheStore(t *testing.T) {
	s := store(testingclock.NewFakePassiveClock(epoch), 10, 10)
	cookie, added, err := s.begin("token", named("alice"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(cookie), 26, "128 bits")
	assert.NotContains(t, string(added.id[:]), cookie)
	another, _, err := s.begin("token", named("alice"))
	require.NoError(t, err)
	assert.NotEqual(t, cookie, another)
	s.end(added)
	found, _ := s.use(cookie)
	assert.Nil(t, found)
	_, _, ok := s.state(added)
	assert.False(t, ok)
}

// A user who begins many sessions ends none of another, and sessions with an open page stay.
func TestSessionsGiveWayWithinTheirUser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := testingclock.NewFakePassiveClock(epoch)
		total, perUser := rapid.IntRange(1, 6).Draw(t, "total"), rapid.IntRange(1, 3).Draw(t, "per user")
		s := store(clock, total, perUser)
		open := map[*session]func(){}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			clock.SetTime(clock.Now().Add(time.Second))
			before := len(s.all)
			cookie, added, err := s.begin("token", named(fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "user"))))
			if err != nil {
				require.Equal(t, codes.ResourceExhausted, server.AsError(err).Code)
				require.Equal(t, before, len(s.all))
			} else if rapid.Bool().Draw(t, "open") {
				_, open[added] = s.use(cookie)
			}
			for o, release := range open {
				require.Contains(t, s.all, o.id, "step %d: a session with an open page", i)
				if rapid.IntRange(0, 3).Draw(t, "close") == 0 {
					release()
					delete(open, o)
				}
			}
			of := map[string]int{}
			for _, o := range s.all {
				of[o.user.GetName()]++
			}
			require.LessOrEqual(t, len(s.all), total)
			for _, n := range of {
				require.LessOrEqual(t, n, perUser)
			}
		}
	})
}
