// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/jsonerr"
)

// yamlBudget bounds a document in YAML: one that a user writes is small, and its parser has all of it in memory.
var yamlBudget = budget.YAML{Bytes: 16 << 20, Nodes: 1_000_000, Depth: 64}

// Load reads a file of a snapshot, compressed if its name ends in ".gz". An error has the name of the file, and the line or the field.
func Load(path string) (*Snapshot, error) {
	file, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var r io.Reader = file
	if strings.HasSuffix(path, gzipExtension) {
		if r, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	s, err := Read(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Read reads a document: JSON, or a smaller one in YAML. It refuses fields that do not exist and objects that are there twice, and drops
// fields that a snapshot does not have.
func Read(r io.Reader) (*Snapshot, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	start, err := in.Peek(1)
	for err == nil && bytes.IndexByte([]byte(" \t\r\n"), start[0]) >= 0 {
		_, _ = in.Discard(1) // it was seen
		start, err = in.Peek(1)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(start) == 0 || start[0] == '{' {
		return readJSON(in, documentBounds)
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(yamlBudget.Bytes)+1))
	if err != nil {
		return nil, err
	}
	value, _, err := yamlBudget.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("YAML %w", err)
	}
	document, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	s, err := readJSON(bytes.NewReader(document), documentBounds)
	if faulty, ok := errors.AsType[*fault](err); ok {
		return nil, faulty.err // all of the JSON is one line
	}
	return s, err
}

// fault is what is wrong in a line.
type fault struct {
	line int
	err  error
}

func (f *fault) Error() string { return fmt.Sprintf("line %d: %v", f.line, f.err) }
func (f *fault) Unwrap() error { return f.err }

func readJSON(r io.Reader, b bounds) (*Snapshot, error) {
	d := &decoder{lines: newLines(r, b), header: map[string]json.RawMessage{}}
	d.json = json.NewDecoder(d.lines)
	d.builder = NewBuilder(Header{})
	d.seen = map[string]bool{}
	if err := d.document(); err != nil {
		return nil, err
	}
	if err := d.readHeader(); err != nil {
		return nil, err
	}
	return d.builder.Snapshot(), nil
}

type decoder struct {
	lines   *lines
	json    *json.Decoder
	builder *Builder
	// seen are the fields that were read, and header those that are no lists.
	seen   map[string]bool
	header map[string]json.RawMessage
}

func (d *decoder) document() error {
	if err := d.delimiter('{', "must be an object"); err != nil {
		return err
	}
	for d.json.More() {
		token, err := d.json.Token()
		if err != nil {
			return d.failed(err)
		}
		field, _ := token.(string) // of an object, every other token is a key
		if d.seen[field] {
			return d.wrong("field %q is there twice", field)
		}
		d.seen[field] = true
		if err := d.field(field); err != nil {
			return err
		}
	}
	if err := d.delimiter('}', "must end with }"); err != nil {
		return err
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return d.wrong("there is more behind the document")
	}
	return nil
}

func (d *decoder) field(name string) error {
	i := slices.IndexFunc(d.builder.lists, func(l list) bool { return l.name() == name })
	if i >= 0 {
		return d.list(d.builder.lists[i])
	}
	var value json.RawMessage
	if err := d.json.Decode(&value); err != nil {
		return d.failed(err)
	}
	d.header[name] = value
	return nil
}

// list reads a list object by object.
func (d *decoder) list(l list) error {
	if err := d.delimiter('[', l.name()+" must be a list"); err != nil {
		return err
	}
	known := map[types.NamespacedName]bool{}
	var value json.RawMessage
	for i := 0; d.json.More(); i++ {
		line := d.lines.at(d.json.InputOffset())
		value = value[:0]
		if err := d.json.Decode(&value); err != nil {
			return d.failed(err)
		}
		o, err := l.fresh(), checkQuantities(value)
		if err == nil {
			err = strict(value, o)
		}
		if err != nil {
			return &fault{line, fmt.Errorf("%s[%d]: %w", l.name(), i, err)}
		}
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		switch {
		case o.GetName() == "" || l.inNamespaces() && o.GetNamespace() == "":
			return &fault{line, fmt.Errorf("%s[%d]: has no name, or no namespace", l.name(), i)}
		case known[key]:
			return &fault{line, fmt.Errorf("%s[%d]: %s is there twice", l.name(), i, strings.TrimPrefix(key.String(), "/"))}
		}
		known[key] = true
		if err := d.builder.Add(o); err != nil {
			return err
		}
	}
	return d.delimiter(']', l.name()+" must end with ]")
}

func (d *decoder) delimiter(want json.Delim, problem string) error {
	token, err := d.json.Token()
	switch {
	case err != nil:
		return d.failed(err)
	case token != want:
		return d.wrong("%s", problem)
	}
	return nil
}

// failed is an error of the JSON, or of what it was read from.
func (d *decoder) failed(err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case syntax: // its offset does not count what is between values
		return d.wrong("is not valid JSON: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return d.wrong("the document ends early")
	}
	return err
}

func (d *decoder) wrong(format string, args ...any) error {
	return &fault{d.lines.at(d.json.InputOffset()), fmt.Errorf(format, args...)}
}

func (d *decoder) readHeader() error {
	encoded, err := json.Marshal(d.header)
	if err != nil {
		return err
	}
	h := Header{}
	if err := strict(encoded, &h); err != nil {
		return err
	}
	switch {
	case h.APIVersion != APIVersion || h.Kind != Kind:
		return fmt.Errorf("is apiVersion %q, kind %q: must be %q, %q", h.APIVersion, h.Kind, APIVersion, Kind)
	case h.Time.IsZero():
		return errors.New("time: must be set")
	}
	for i, m := range h.Missing {
		known := slices.ContainsFunc(d.builder.lists, func(l list) bool { return l.name() == m.List })
		if !known || m.Reason != Forbidden && m.Reason != NotServed {
			return fmt.Errorf("missing[%d]: %q is no list, or %q is no reason", i, m.List, m.Reason)
		}
	}
	d.builder.snapshot.Header = h
	return nil
}

// strict decodes JSON. Fields that do not exist, and those that are there twice, are errors.
func strict(value []byte, into any) error {
	unknown, err := kjson.UnmarshalStrict(value, into)
	if err == nil && len(unknown) > 0 {
		return unknown[0]
	}
	if err == nil {
		return nil
	}
	field, description := jsonerr.Explain(err)
	if field == "" {
		return errors.New(description)
	}
	return fmt.Errorf("%s %s", field, description)
}
