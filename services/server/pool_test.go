// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

func TestAPoolNeverHoldsMoreThanItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, perKey := rapid.IntRange(1, 10).Draw(t, "total"), rapid.IntRange(1, 10).Draw(t, "perKey")
		p := NewPool("things", NewLimit("all", total), NewLimit("each", perKey))
		held, all := map[string]int{}, 0
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			key, n := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), rapid.IntRange(1, 4).Draw(t, "n")
			if rapid.Bool().Draw(t, "take") {
				fits := all+n <= total && held[key]+n <= perKey
				err := p.Take(key, n)
				require.Equal(t, fits, err == nil)
				if fits {
					held[key], all = held[key]+n, all+n
				} else {
					require.Equal(t, codes.ResourceExhausted, AsError(err).Code)
				}
			} else if n <= held[key] {
				p.Free(key, n)
				held[key], all = held[key]-n, all-n
			}
		}
		for key, n := range held {
			p.Free(key, n)
		}
		require.Zero(t, p.used)
		require.Empty(t, p.by, "keys that hold nothing are not kept")
	})
}

// pipe is a connection that records whether it was closed.
type pipe struct {
	net.Conn
	closed bool
}

func (p *pipe) Close() error {
	p.closed = true
	return nil
}

func TestANewConnectionClosesTheOldestWithoutACall(t *testing.T) {
	all := &connections{most: NewLimit("connections", 4)}
	var pipes []*pipe
	open := func() *connection {
		p := &pipe{}
		pipes = append(pipes, p)
		return all.admit(p)
	}
	known, idle, stranger, other := open(), open(), open(), open()
	release := known.hold()
	idle.hold()()
	require.NotNil(t, open(), "a fifth")
	assert.Equal(
		t, []bool{false, false, true, false, false}, closedOf(pipes),
		"strangers have their half, so the oldest of them goes first",
	)
	require.NoError(t, stranger.Close(), "closing it again changes nothing")
	assert.Equal(t, 4, all.open)
	other.hold()
	require.NotNil(t, open(), "a sixth")
	assert.True(t, pipes[1].closed, "one stranger alone is left in peace, and the idle one goes")
	for range 2 {
		c := open()
		require.NotNil(t, c)
		c.hold()
	}
	assert.Equal(t, []bool{false, true, true, false, true, true, false, false}, closedOf(pipes))
	assert.Nil(t, open(), "all have calls in flight")
	release()
	require.NotNil(t, open())
	assert.True(t, pipes[0].closed)
	assert.Equal(t, 4, all.open)
}

// New callers get their first call through while many idle connections are open.
func TestNewCallersDoNotCloseOneAnothersConnections(t *testing.T) {
	all := &connections{most: NewLimit("connections", 16)}
	for range 16 {
		all.admit(&pipe{}).hold()()
	}
	var pipes []*pipe
	for range 8 {
		pipes = append(pipes, &pipe{})
		require.NotNil(t, all.admit(pipes[len(pipes)-1]))
	}
	assert.NotContains(t, closedOf(pipes), true)
}

func closedOf(pipes []*pipe) (closed []bool) {
	for _, p := range pipes {
		closed = append(closed, p.closed)
	}
	return closed
}

// Whatever connections do, no more than the maximum are open, and none with a call is closed for another.
func TestConnectionsStayWithinTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &connections{most: NewLimit("connections", 4)}
		type held struct {
			*connection
			pipe  *pipe
			calls []func()
		}
		var conns []*held
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step < 2 || len(conns) == 0:
				p := &pipe{}
				if c := all.admit(p); c != nil {
					conns = append(conns, &held{connection: c, pipe: p})
				}
			default:
				c := rapid.SampledFrom(conns).Draw(t, "connection")
				switch {
				case step == 2:
					c.calls = append(c.calls, c.hold())
				case step == 3 && len(c.calls) > 0:
					c.calls[0]()
					c.calls = c.calls[1:]
				case step == 4 && len(c.calls) == 0:
					require.NoError(t, c.Close())
				}
			}
			open := 0
			for _, c := range conns {
				if !c.pipe.closed {
					open++
				}
			}
			require.Equal(t, open, all.open)
			require.LessOrEqual(t, open, 4)
		}
	})
}

func TestUnknownTokensAreReviewedOnlySoOften(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	tk := newTokens("services.requestLimits", 10*time.Second, clock)
	tk.set(4, 2)
	n := 0
	fresh := func() digest { n++; return tk.digest(string(rune('a' + n))) }
	refusal := func(d digest, address string) error {
		_, err := tk.begin(d, address)
		return err
	}

	good := fresh()
	done, err := tk.begin(good, "10.0.0.1")
	require.NoError(t, err)
	again, err := tk.begin(good, "10.0.0.1")
	require.NoError(t, err, "the same token under review costs nothing more")
	done(true, true)
	again(true, true)

	bad := fresh()
	done, err = tk.begin(bad, "10.0.0.1")
	require.NoError(t, err)
	done(false, true)
	assert.Equal(t, codes.Unauthenticated, AsError(refusal(bad, "10.0.0.1")).Code, "it is not reviewed again")
	for range 2 {
		require.NoError(t, refusal(fresh(), "10.0.0.1"))
	}
	require.ErrorContains(t, refusal(fresh(), "10.0.0.1"), "services.requestLimits.unknownTokensPerSecondPerAddress is 2")
	for range 3 {
		require.NoError(t, refusal(fresh(), "10.0.0.2"), "another address has tokens of its own")
	}
	require.ErrorContains(t, refusal(fresh(), "10.0.0.2"), "services.requestLimits.unknownTokensPerSecond is 4", "half are for other addresses")
	require.NoError(t, refusal(fresh(), "10.0.0.3"))
	require.ErrorContains(t, refusal(fresh(), "10.0.0.4"), "services.requestLimits.unknownTokensPerSecond is 4")
	for range 100 {
		require.NoError(t, refusal(good, "10.0.0.1"), "a token that was valid is always reviewed")
	}
	clock.SetTime(clock.Now().Add(11 * time.Second))
	require.NoError(t, refusal(bad, "10.0.0.1"), "the answer on a token counts for tokenCacheSeconds")

	// A token that is no longer valid is an unknown one.
	done, err = tk.begin(good, "10.0.0.1")
	require.NoError(t, err)
	done(false, true)
	assert.Equal(t, codes.Unauthenticated, AsError(refusal(good, "10.0.0.1")).Code)
	// An API server that did not answer has no effect on the cache.
	other := fresh()
	done, err = tk.begin(other, "10.0.0.4")
	require.NoError(t, err)
	done(false, false)
	require.NoError(t, refusal(other, "10.0.0.4"))
}

// Two addresses that guess tokens, as fast as they may each, used up the limit for all.
func TestAddressesThatGuessTokensLockNoCallerOut(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	tk := newTokens("console.limits", 5*time.Second, clock)
	tk.set(10, 5)
	n := 0
	ask := func(address string, valid bool) error {
		n++
		done, err := tk.begin(tk.digest(fmt.Sprint(n)), address)
		if err == nil {
			done(valid, true)
		}
		return err
	}
	for second := range 120 {
		for i := range 40 { // more than an address may
			_ = ask(fmt.Sprintf("10.0.0.%d", i%4), false)
		}
		for i := range 4 {
			require.NoError(t, ask(fmt.Sprintf("192.0.2.%d", i), true), "second %d", second)
		}
		clock.SetTime(clock.Now().Add(time.Second))
	}
	clock.SetTime(clock.Now().Add(suspicion))
	require.NoError(t, ask("10.0.0.0", true), "a mistake is forgotten")
}

func TestAddresses(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:3000": "10.0.0.1", "[::ffff:10.0.0.1]:3000": "10.0.0.1", "[2001:db8::1:2:3:4]:1": "2001:db8::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "@", "name:1": "name",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		assert.Equal(t, want, addressOf(r), remote)
	}
}

// However the bytes of messages arrive, messages are read completely, into as few buffers as they fill, and within the
// limits.
func TestMessagesAreReadWhole(t *testing.T) {
	const buffer, most = 64, 200
	rapid.Check(t, func(t *rapid.T) {
		var sent []byte
		buffers := 0
		all := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, most/4), 0, 4).Draw(t, "messages")
		for _, m := range all {
			sent = append(binary.BigEndian.AppendUint32(append(sent, 0), uint32(len(m))), m...)
			buffers += (messageHeader + len(m) + buffer - 1) / buffer
		}
		bytesPool := NewPool("bytes", NewLimit("all", 1<<20), NewLimit("each", 1<<20))
		c := &call{bytes: &account{pool: bytesPool, key: "a"}}
		m := &messages{body: io.NopCloser(iotest.OneByteReader(bytes.NewReader(sent))), call: c, most: most, total: most, left: 4}
		var got []byte
		for {
			p := make([]byte, buffer)
			n, err := m.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			buffers--
		}
		require.Equal(t, sent, got)
		require.Zero(t, buffers)
		c.bytes.close()
		require.Empty(t, bytesPool.by)
		require.ErrorIs(t, c.bytes.take(1), io.ErrClosedPipe)
	})
}

func TestMessagesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		sent  string
		words string
	}{
		"a message that is too large": {"\x00\x00\x00\x00\x0b", "is 11 bytes, more than the 10 of calls without authentication"},
		"too many":                    {"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "more messages than the method accepts"},
		"too much in total":           {"\x00\x00\x00\x00\x06123456\x00\x00\x00\x00\x06", "in total"},
		"more than all may have":      {"\x00\x00\x00\x00\x0a1234567890", "the limit each is 8"},
	} {
		t.Run(name, func(t *testing.T) {
			left := 1
			if name == "too much in total" {
				left = 2
			}
			most := 1 << 20
			if name == "more than all may have" {
				most = 8
			}
			c := &call{bytes: &account{pool: NewPool("bytes", NewLimit("all", most), NewLimit("each", most)), key: "a"}}
			ended := false
			c.onFailure(func() { ended = true })
			m := &messages{body: io.NopCloser(bytes.NewReader([]byte(tc.sent))), call: c, most: 10, total: 10, left: left}
			_, err := io.ReadAll(io.MultiReader(m))
			require.ErrorContains(t, err, tc.words)
			require.True(t, errors.Is(err, c.failed()) && ended)
			_, more := m.Read(make([]byte, 64))
			require.Equal(t, err, more, "nothing more is read")
		})
	}
	truncated := &messages{
		body: io.NopCloser(bytes.NewReader([]byte("\x00\x00\x00\x00\x05123"))),
		call: &call{bytes: &account{pool: NewPool("", NewLimit("", 99), NewLimit("", 99))}}, most: 9, total: 9, left: 1,
	}
	_, err := truncated.Read(make([]byte, 64))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a truncated message")
}
