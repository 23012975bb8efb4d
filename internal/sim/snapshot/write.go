// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"berth.dev/berth/internal/sim/wholefile"
)

// gzipExtension ends the names of compressed files.
const gzipExtension = ".gz"

// Write writes the document: JSON with a line for each object, so that neither who writes nor who reads it needs all of it at once. The
// same snapshot gives the same bytes.
func (s *Snapshot) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	header, err := json.Marshal(s.Header)
	if err != nil {
		return err
	}
	_, _ = out.Write(header[:len(header)-1]) // Flush returns the first error
	for _, l := range s.lists() {
		if l.len() == 0 {
			continue
		}
		_, _ = fmt.Fprintf(out, ",\n%q:[\n", l.name())
		for i := range l.len() {
			if i > 0 {
				_, _ = out.WriteString(",\n")
			}
			object, err := json.Marshal(l.at(i))
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", l.name(), i, err)
			}
			if _, err := out.Write(object); err != nil {
				return err
			}
		}
		_, _ = out.WriteString("\n]")
	}
	_, _ = out.WriteString("}\n")
	return out.Flush()
}

// WriteFile writes the document to a file that its owner alone may read, compressed if its name ends in ".gz". The file is there as a
// whole or not at all, also if the context ends.
func (s *Snapshot) WriteFile(ctx context.Context, path string) error {
	return wholefile.Write(path, func(w io.Writer) error {
		return s.writeCompressed(&interruptible{ctx, w}, strings.HasSuffix(path, gzipExtension))
	})
}

func (s *Snapshot) writeCompressed(w io.Writer, compress bool) error {
	if !compress {
		return s.Write(w)
	}
	z := gzip.NewWriter(w)
	return errors.Join(s.Write(z), z.Close())
}

// interruptible fails once its context ends.
type interruptible struct {
	ctx context.Context
	w   io.Writer
}

func (i *interruptible) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(p)
}
