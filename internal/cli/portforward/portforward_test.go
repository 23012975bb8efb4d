// SPDX-License-Identifier: Apache-2.0

package portforward

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// stream reads what is in report and then, once the connection is closed or if it has a report, its end.
type stream struct {
	httpstream.Stream
	headers http.Header
	read    func(p []byte) (int, error)
	written strings.Builder
	resets  int
}

func (s *stream) Read(p []byte) (int, error)  { return s.read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.written.Write(p) }
func (*stream) Close() error                  { return nil }
func (s *stream) Reset() error                { s.resets++; return nil }

// connection has a stream for the kubelet's report and one for data, which end when it is closed.
type connection struct {
	httpstream.Connection
	failures, data *stream
	closed         chan struct{}
	closes         int
}

// newConnection is one to a kubelet that reports, and to a pod that answers.
func newConnection(report, answer string) *connection {
	c := &connection{closed: make(chan struct{})}
	until := func(text string, ends bool) func(p []byte) (int, error) {
		r := strings.NewReader(text)
		return func(p []byte) (int, error) {
			if n, err := r.Read(p); n > 0 {
				return n, err
			}
			if !ends {
				<-c.closed
			}
			return 0, io.EOF
		}
	}
	c.failures, c.data = &stream{read: until(report, report != "")}, &stream{read: until(answer, false)}
	return c
}

func (c *connection) CreateStream(h http.Header) (httpstream.Stream, error) {
	s := c.data
	if h.Get(corev1.StreamType) == corev1.StreamTypeError {
		s = c.failures
	}
	s.headers = h.Clone()
	return s, nil
}

func (c *connection) Close() error {
	if c.closes++; c.closes == 1 {
		close(c.closed)
	}
	return nil
}

func TestAForwardedConnectionReadsAndWrites(t *testing.T) {
	c := newConnection("", "answer")
	conn, err := open(c, 10260)
	require.NoError(t, err)
	assert.Equal(t, "10260", c.data.headers.Get(corev1.PortHeader))
	assert.Equal(t, "10260", c.failures.headers.Get(corev1.PortHeader))
	_, err = conn.Write([]byte("question"))
	require.NoError(t, err)
	assert.Equal(t, "question", c.data.written.String())
	p := make([]byte, 100)
	n, err := conn.Read(p)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(p[:n]))
	require.NoError(t, conn.Close())
	require.ErrorIs(t, conn.Close(), net.ErrClosed)
	assert.Equal(t, 1, c.data.resets)
	_, err = conn.Read(p)
	assert.ErrorIs(t, err, io.EOF)
}

// Without the report, a port on which no one listens looks like a server that closes the connection.
func TestTheReportOfTheKubeletIsTheError(t *testing.T) {
	const report = "dial tcp4 127.0.0.1:10260: connect: connection refused"
	c := newConnection(report, "")
	conn, err := open(c, 10260)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 100))
	require.EqualError(t, err, report)

	c.data.read = func([]byte) (int, error) { return 3, errors.New("reset") }
	n, err := conn.Read(make([]byte, 100))
	assert.Equal(t, 3, n)
	assert.EqualError(t, err, "reset", "what was read belongs to it")
}

func TestTheReportOfTheKubeletIsBounded(t *testing.T) {
	conn, err := open(newConnection(strings.Repeat("x", 1<<20), ""), 10260)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 100))
	require.Error(t, err)
	assert.Len(t, err.Error(), maxReport)
}
