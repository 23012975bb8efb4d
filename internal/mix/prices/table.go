// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Table is a list of prices by instance type and region, of one date.
type Table struct {
	Source
	Licence string
	rows    rows
}

// place is where an instance type has a price.
type place struct{ instanceType, region string }

// row is in dollars an hour, 0 where the list has no price.
type row struct {
	onDemand, spot float64
	// band is how often the type is interrupted, from 1, below 5 % a month, to 5, above 20 %. 0 is unknown.
	band int
}

// header are the columns of a table.
var header = []string{"type", "region", "onDemand", "spot", "band"}

// maxPrice is more than any instance costs an hour, in dollars.
const maxPrice = 10_000

// ReadTable reads a table: lines "# source: …", "# licence: …" and "# date: 2006-01-02", then CSV with the columns type, region,
// onDemand, spot and band. An error names the line.
func ReadTable(in io.Reader) (*Table, error) {
	t, keys := &Table{rows: newRows()}, map[uint64]struct{}{}
	buffered := bufio.NewReader(in)
	comments, err := t.readComments(buffered)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(buffered)
	r.ReuseRecord = true
	for first := true; ; first = false {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			if first {
				return nil, fmt.Errorf("line %d: want the columns %s", comments+1, strings.Join(header, ","))
			}
			t.rows.sort()
			return t, nil
		}
		line, _ := r.FieldPos(0)
		if err == nil && first {
			if strings.Join(record, ",") != strings.Join(header, ",") {
				err = fmt.Errorf("the columns are %q: want %s", record, strings.Join(header, ","))
			}
		} else if err == nil {
			err = t.add(record, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", comments+line, err)
		}
	}
}

// readComments reads the first lines, and returns their number.
func (t *Table) readComments(in *bufio.Reader) (lines int, err error) {
	for {
		next, err := in.Peek(1)
		if err != nil || next[0] != '#' {
			break
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return lines, fmt.Errorf("line %d: %w", lines+1, err)
		}
		lines++
		key, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), ": ")
		switch key {
		case "source":
			t.Name = value
		case "licence":
			t.Licence = value
		case "date":
			if t.Date, err = time.Parse(time.DateOnly, value); err != nil {
				return lines, fmt.Errorf("line %d: %w", lines, err)
			}
		}
	}
	if t.Name == "" || t.Date.IsZero() {
		return lines, errors.New("line 1: want the lines `# source: …` and `# date: YYYY-MM-DD`")
	}
	return lines, nil
}

// add adds a row, whose key must not be there yet.
func (t *Table) add(record []string, keys map[uint64]struct{}) error {
	if record[0] == "" || record[1] == "" {
		return errors.New("want an instance type and a region")
	}
	var r row
	for i, to := range []*float64{&r.onDemand, &r.spot} {
		if record[2+i] == "" {
			continue
		}
		price, err := strconv.ParseFloat(record[2+i], 64)
		if err != nil || !(price > 0 && price < maxPrice) {
			return fmt.Errorf("%s: %q is no price: want dollars an hour, above 0 and below %d", header[2+i], record[2+i], maxPrice)
		}
		*to = price
	}
	var err error
	if r.band, err = bandOf(record[4]); err != nil {
		return err
	}
	key := t.rows.add(place{record[0], record[1]}, r)
	if _, has := keys[key]; has {
		return fmt.Errorf("%s in %s is there twice", record[0], record[1])
	}
	keys[key] = struct{}{}
	return nil
}

// bandOf is how often a type is interrupted, 0 for an empty text.
func bandOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	band, err := strconv.Atoi(text)
	if err != nil || band < 1 || band > 5 {
		return 0, fmt.Errorf("band: %q: want 1 to 5", text)
	}
	return band, nil
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows.all) }

// amounts implements source.
func (t *Table) amounts(n *Node) (onDemand, spot float64) {
	r := t.rows.at(place{nameInTable(n.InstanceType), n.Region})
	return r.onDemand, r.spot
}

// nameInTable is an instance type as the tables have it: those of Azure, Standard_D4s_v5 on nodes, are d4sv5 in public lists.
func nameInTable(instanceType string) string {
	if name, ok := strings.CutPrefix(instanceType, "Standard_"); ok {
		return strings.ToLower(strings.ReplaceAll(name, "_", ""))
	}
	return instanceType
}
