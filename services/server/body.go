// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// messageHeader is the prefix of each message: whether it is compressed, and its length.
	messageHeader = 5
	// maxMessages is the maximum number of messages of a client stream, which only reflection has.
	maxMessages = 256
)

// account is what the body of one call uses of a pool.
type account struct {
	pool *Pool
	key  string

	mu     sync.Mutex // guards the rest: gRPC reads a body in its own goroutine
	taken  int
	closed bool
}

func (a *account) take(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return io.ErrClosedPipe
	}
	if err := a.pool.Take(a.key, n); err != nil {
		return err
	}
	a.taken += n
	return nil
}

func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool.Free(a.key, a.taken)
	a.taken, a.closed = 0, true
}

// messages is the body of a gRPC call. The transport reads it into an unbounded queue of buffers of 16 KiB, however
// little each read returns, and whether or not the service reads messages. Therefore a read returns as much of a
// message as the buffer holds, and the number and size of messages are limited.
type messages struct {
	body io.ReadCloser
	call *call
	// most is the maximum size of a message, total that of all messages, and left the number of messages that may
	// follow.
	most, total, left int
	// rest is the remaining length of the current message.
	rest int
	err  error
}

// Read reads until the end of a message.
func (m *messages) Read(p []byte) (n int, err error) {
	if m.err != nil {
		return 0, m.err
	}
	if n, err = m.read(p); err != nil {
		if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
			err = InvalidField("request", "is not base64, which the Content-Type of the call requires")
		}
		m.err = err
		if refusal, ok := errors.AsType[*Error](err); ok {
			m.call.fail(refusal)
		}
	}
	return n, err
}

func (m *messages) read(p []byte) (n int, err error) {
	if len(p) < messageHeader {
		return 0, io.ErrShortBuffer
	}
	if m.rest == 0 {
		if n, err = m.next(p); err != nil {
			return n, err
		}
	}
	if err := m.call.bytes.take(cap(p)); err != nil {
		return 0, err
	}
	read, err := io.ReadFull(m.body, p[n:n+min(len(p)-n, m.rest)])
	m.rest -= read
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n + read, err
}

// next reads the header of a message.
func (m *messages) next(p []byte) (n int, err error) {
	if n, err = io.ReadFull(m.body, p[:messageHeader]); err != nil {
		return n, err
	}
	if m.left--; m.left < 0 {
		return 0, tooLarge("request", "has more messages than the method accepts")
	}
	size := binary.BigEndian.Uint32(p[1:messageHeader])
	if int64(size) > int64(m.most) {
		return 0, tooLarge("request", fmt.Sprintf("is %d bytes, more than the %d of %s", size, m.most, m.call.bodyLimit()))
	}
	if m.total -= int(size); m.total < 0 {
		return 0, tooLarge("request", "has messages of more bytes in total than "+m.call.bodyLimit())
	}
	m.rest = int(size)
	return n, nil
}

// Close closes the body.
func (m *messages) Close() error { return m.body.Close() }

// counted is the body of a REST call, which counts for the caller.
type counted struct {
	io.ReadCloser
	bytes *account
}

// Read reads, and counts the bytes.
func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.bytes != nil {
		if over := b.bytes.take(n); over != nil {
			return 0, over
		}
	}
	return n, err
}

// bounded returns the body of a gRPC call with its limits.
func (s *Server) bounded(body io.ReadCloser, c *call) io.ReadCloser {
	most := s.bodyBytes(c)
	m := &messages{body: body, call: c, most: most, total: most, left: 1}
	if c.clientStream {
		m.left = maxMessages
	}
	return m
}

// bodyBytes returns the maximum size of a call's body.
func (s *Server) bodyBytes(c *call) int {
	if s.open(c) {
		return openBody
	}
	return int(s.config.MaxRequestBytes)
}

// bodyLimit returns the name of the limit of a call's body.
func (c *call) bodyLimit() string {
	if c.caller == nil {
		return "calls without authentication"
	}
	return "maxRequestBytes"
}
