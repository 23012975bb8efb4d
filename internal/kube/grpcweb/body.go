// SPDX-License-Identifier: Apache-2.0

package grpcweb

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
)

// textBytes is the part of a body in base64 that is kept while it is decoded. It is a multiple of 4.
const textBytes = 4 << 10

// textBody decodes a body in base64. It may consist of several parts, each with its padding.
type textBody struct {
	io.ReadCloser
	// encoded has the bytes of an incomplete group of four, decoded those that were not returned yet.
	encoded, decoded []byte
	in               [textBytes]byte
	out              [textBytes]byte
	err              error
}

// Read decodes. A body that is not base64 is a base64.CorruptInputError.
func (b *textBody) Read(p []byte) (int, error) {
	for len(b.decoded) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.fill()
	}
	n := copy(p, b.decoded)
	b.decoded = b.decoded[n:]
	return n, nil
}

// fill reads and decodes as many groups as are there.
func (b *textBody) fill() {
	kept := copy(b.in[:], b.encoded)
	n, err := b.ReadCloser.Read(b.in[kept:])
	n += kept
	whole := n - n%4
	b.encoded = b.in[whole:n]
	if errors.Is(err, io.EOF) && whole < n {
		err = base64.CorruptInputError(whole)
	}
	b.err = err
	decoded, err := decodeGroups(b.out[:], b.in[:whole])
	b.decoded = b.out[:decoded]
	if err != nil {
		b.err = err
	}
}

// decodeGroups decodes groups of four, of which any may be padded.
func decodeGroups(out, in []byte) (n int, err error) {
	for len(in) > 0 {
		end := len(in)
		if padding := bytes.IndexByte(in, '='); padding >= 0 {
			end = padding - padding%4 + 4
		}
		// The library skips line breaks, which would move the groups.
		if line := bytes.IndexAny(in[:end], "\r\n"); line >= 0 {
			return n, base64.CorruptInputError(line)
		}
		decoded, err := base64.StdEncoding.Decode(out[n:], in[:end])
		if n += decoded; err != nil {
			return n, err
		}
		in = in[end:]
	}
	return n, nil
}
