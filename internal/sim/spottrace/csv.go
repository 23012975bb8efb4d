// SPDX-License-Identifier: Apache-2.0

package spottrace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// header is the first line of a trace in CSV.
const header = "seconds,available"

// readCSV reads rows of a time and the number of nodes that are available from then on. The last row is the end of the data.
func readCSV(data []byte) (*Trace, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace = -1, true, true
	first, err := r.Read()
	if err != nil {
		return nil, rowError(err)
	}
	if got := strings.Join(first, ","); strings.TrimRight(got, " ") != header {
		return nil, &positionError{line: 1, message: fmt.Sprintf("%.60q is neither JSON nor the header %s", got, header)}
	}
	t := &Trace{}
	last, lastLine := int64(-1), 1
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, rowError(err)
		}
		line, _ := r.FieldPos(0)
		seconds, available, err := rowOf(row)
		switch {
		case err != nil:
			return nil, &positionError{line: line, message: err.Error()}
		case last < 0 && seconds != 0:
			return nil, &positionError{line: line, message: fmt.Sprintf("seconds: %d is not 0, with which a trace begins", seconds)}
		case seconds <= last:
			return nil, &positionError{line: line, message: fmt.Sprintf("seconds: %d is not after %d of line %d", seconds, last, lastLine)}
		}
		last, lastLine = seconds, line
		t.End = time.Duration(seconds) * time.Second
		t.add(t.End, int(available))
	}
	if t.End == 0 {
		return nil, &positionError{line: lastLine, message: "want at least two rows: the last one is the end of the data"}
	}
	if n := len(t.Steps) - 1; t.Steps[n].At == t.End {
		t.Steps = t.Steps[:n] // it is for no time
	}
	return t, nil
}

func rowOf(row []string) (seconds, available int64, err error) {
	if len(row) != 2 {
		return 0, 0, fmt.Errorf("%d values are not 2: %s", len(row), header)
	}
	if seconds, err = wholeNumber(strings.TrimSpace(row[0]), 0, int64(MaxEnd/time.Second)); err != nil {
		return 0, 0, fmt.Errorf("seconds: %w", err)
	}
	if available, err = wholeNumber(strings.TrimSpace(row[1]), 0, MaxAvailable); err != nil {
		return 0, 0, fmt.Errorf("available: %w", err)
	}
	return seconds, available, nil
}

// rowError has the position of an error of the syntax.
func rowError(err error) error {
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		return &positionError{syntax.Line, syntax.Column, syntax.Err.Error()}
	}
	return err
}

// wholeNumber reads a number of both formats.
func wholeNumber(text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a whole number", text)
	case n < 0:
		return 0, fmt.Errorf("%d is negative", n)
	case n >= least && n <= most:
		return n, nil
	}
	return 0, fmt.Errorf("%.40s is not between %d and %d", text, least, most)
}
