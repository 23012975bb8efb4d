// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"bytes"
	"io"
	"os"
)

// tally counts the lines of an audit log as it grows. To read the file costs the
// API server nothing, unlike a watch.
type tally struct {
	// bindings are those that the API server made, requests all that it logged.
	bindings, requests int

	at   int64
	rest []byte
}

// read takes in what the file has more than last time.
func (t *tally) read(file string) error {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.at, io.SeekStart); err != nil {
		return err
	}
	more, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	t.at += int64(len(more))
	t.add(more)
	return nil
}

func (t *tally) add(text []byte) {
	t.rest = append(t.rest, text...)
	for {
		line, rest, whole := bytes.Cut(t.rest, []byte("\n"))
		if !whole {
			t.rest = bytes.Clone(t.rest)
			return
		}
		t.rest = rest
		t.requests++
		if bytes.Contains(line, []byte(`"subresource":"binding"`)) && bytes.Contains(line, []byte(`"code":201`)) {
			t.bindings++
		}
	}
}
