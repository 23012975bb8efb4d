// SPDX-License-Identifier: Apache-2.0

package flood_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is an HTTP/2 connection that does what no client would: its frames are written one by one, and it reads only on request.
type peer struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	encode *hpack.Encoder
	next   uint32

	mu sync.Mutex // guards the rest
	// statuses counts answers by grpc-status, or :status of those that have none; reset streams are "reset".
	statuses map[string]int
	closed   bool
}

// patience bounds a write to a server that does not read.
const patience = 10 * time.Second

// connect opens a connection on which the server may send so much of a stream. Reading has its answers counted.
func connect(t *testing.T, address string, window uint32, reading bool) *peer {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := &peer{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, statuses: map[string]int{}}
	p.encode = hpack.NewEncoder(&p.block)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	_ = p.framer.WriteSettingsAck()
	if reading {
		p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		go p.read()
	}
	return p
}

// read counts answers until the connection ends.
func (p *peer) read() {
	for {
		frame, err := p.framer.ReadFrame()
		if _, of := errors.AsType[http2.StreamError](err); of {
			continue
		}
		p.mu.Lock()
		if err != nil {
			p.closed = true
			p.mu.Unlock()
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" || h.Name == ":status" && h.Value != "200" {
					p.statuses[h.Value]++
				}
			}
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo {
				p.statuses["reset"]++
			}
		}
		p.mu.Unlock()
	}
}

// open begins a call. The error is that of the connection, which the server may have closed.
func (p *peer) open(method, token string) (stream uint32, err error) {
	p.block.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "berth"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token})
	}
	for _, f := range fields {
		_ = p.encode.WriteField(f) // to a buffer
	}
	stream = p.next
	p.next += 2
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	return stream, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true})
}

// empty is a message without fields.
var empty = []byte{0, 0, 0, 0, 0}

// call makes a call with an empty request.
func (p *peer) call(method, token string) error {
	stream, err := p.open(method, token)
	if err != nil {
		return err
	}
	return p.framer.WriteData(stream, true, empty)
}

// ended returns whether so many calls, or the connection, have ended, and how.
func (p *peer) ended(n int) (all bool, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0
	for _, count := range p.statuses {
		sum += count
	}
	return p.closed || sum >= n, fmt.Sprint(p.statuses)
}

func (p *peer) count(status string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statuses[status]
}
