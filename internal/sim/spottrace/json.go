// SPDX-License-Identifier: Apache-2.0

package spottrace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// reader reads a trace in JSON token by token, so that an error has its position.
type reader struct {
	data    []byte
	decoder *json.Decoder
	// gap is 0 until it was read, and ticks is nil.
	gap   time.Duration
	ticks []tick
}

// tick is a number that differs from the one before, and its index in the data.
type tick struct {
	index, available int
}

// readJSON reads {"metadata": {"gap_seconds": 300}, "data": [0, 3, …]}. Other keys are not read: the format is that of others.
func readJSON(data []byte) (*Trace, error) {
	r := &reader{data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	count := 0
	err := r.object("", func(key string) (err error) {
		switch key {
		case "metadata":
			return r.object("metadata", r.metadata)
		case "data":
			if r.ticks != nil {
				return r.fail("data is set twice")
			}
			count, err = r.numbers()
			return err
		}
		return r.skip()
	})
	if err != nil {
		return nil, err
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, r.fail("more follows the end of the trace")
	}
	switch {
	case r.gap == 0:
		return nil, &positionError{line: 1, message: "metadata.gap_seconds is missing: want the seconds between two numbers of data"}
	case count == 0:
		return nil, &positionError{line: 1, message: "data is missing: want the numbers of available nodes"}
	case time.Duration(count) > MaxEnd/r.gap:
		return nil, &positionError{line: 1, message: fmt.Sprintf("%d numbers of %s are longer than %s", count, r.gap, MaxEnd)}
	}
	t := &Trace{Gap: r.gap, End: time.Duration(count) * r.gap}
	for _, tick := range r.ticks {
		t.add(time.Duration(tick.index)*r.gap, tick.available)
	}
	return t, nil
}

func (r *reader) metadata(key string) error {
	if key != "gap_seconds" {
		return r.skip()
	}
	if r.gap != 0 {
		return r.fail("metadata.gap_seconds is set twice")
	}
	seconds, err := r.number("metadata.gap_seconds", 1, int64(MaxEnd/time.Second))
	r.gap = time.Duration(seconds) * time.Second
	return err
}

// object reads an object, of which each calls value to read the value of a key.
func (r *reader) object(what string, value func(key string) error) error {
	if err := r.delim(what, '{', "an object"); err != nil {
		return err
	}
	for r.decoder.More() {
		token, err := r.token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder accepts no other keys
		if err := value(key); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

// numbers reads data and returns how many numbers it has.
func (r *reader) numbers() (count int, err error) {
	if err := r.delim("data", '[', "a list of numbers"); err != nil {
		return 0, err
	}
	for ; r.decoder.More(); count++ {
		n, err := r.number(fmt.Sprintf("data[%d]", count), 0, MaxAvailable)
		if err != nil {
			return 0, err
		}
		if last := len(r.ticks) - 1; last < 0 || r.ticks[last].available != int(n) {
			r.ticks = append(r.ticks, tick{count, int(n)})
		}
	}
	if _, err := r.token(); err != nil {
		return 0, err
	}
	if count == 0 {
		return 0, r.failAtLast("data is empty: want the numbers of available nodes", 1)
	}
	return count, nil
}

func (r *reader) number(what string, least, most int64) (int64, error) {
	token, err := r.token()
	if err != nil {
		return 0, err
	}
	text, is := token.(json.Number)
	if !is {
		return 0, r.failAtLast(fmt.Sprintf("%s: %s is not a number", what, describe(token)), 1)
	}
	n, err := wholeNumber(text.String(), least, most)
	if err != nil {
		return 0, r.failAtLast(what+": "+err.Error(), len(text))
	}
	return n, nil
}

func (r *reader) delim(what string, want json.Delim, name string) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	if token != want {
		return r.failAtLast(fmt.Sprintf("%s: %s is not %s", what, describe(token), name), 1)
	}
	return nil
}

// skip reads a value that has no meaning here, however deep it is, without a value of it.
func (r *reader) skip() error {
	for depth := 0; ; {
		token, err := r.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (r *reader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, r.position(len(r.data), "the file ends within the trace")
	case err != nil:
		return nil, r.fail(err.Error())
	}
	return token, nil
}

// fail is an error at the token that follows.
func (r *reader) fail(message string) error {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	return r.position(offset, message)
}

// failAtLast is an error at the last token that was read, of which the length is known.
func (r *reader) failAtLast(message string, length int) error {
	return r.position(max(0, int(r.decoder.InputOffset())-length), message)
}

func (r *reader) position(offset int, message string) error {
	before := r.data[:min(offset, len(r.data))]
	line := bytes.Count(before, []byte("\n")) + 1
	return &positionError{line, len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1, message}
}

// describe is a token in a message.
func describe(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%.40q", v)
	default:
		return fmt.Sprint(v)
	}
}
