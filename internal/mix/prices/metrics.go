// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Bounds of metrics: Karpenter on AWS has 20,000 prices.
const (
	maxMetrics = 32 << 20
	maxLine    = 16 << 10
	maxSamples = 200_000
)

// oldest is before each price of a metric. A sample that claims to be older has a time in another unit.
var oldest = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// Metrics are prices that programs of a cluster serve as metrics.
type Metrics struct {
	// Notes are what was not used, a sentence each.
	Notes   []string
	sources []live
}

// live is a source of metrics. It has no price of a node that is simulated.
type live struct {
	source
	of     *Source
	origin Origin
}

// kind is how the prices of one program are read of its metrics.
type kind struct {
	program string
	origin  Origin
	// metrics has the names, and for each the labels that the prices depend on.
	metrics []metric
	read    func(samples map[string]model.Vector, of *Source) (s source, note string, err error)
}

type metric struct {
	name   string
	labels []string
}

// programs are those whose metrics have prices, in the order in which they apply.
var programs = []kind{karpenterOfferings, openCostNodes}

// query has one value for each set of the labels: programs with several replicas, and several clusters, have the same series more than
// once. The highest price makes the lowest saving.
func (m *metric) query() string {
	return fmt.Sprintf("max by (%s) (%s)", strings.Join(m.labels, ", "), m.name)
}

// Query has a Prometheus server find the values of a metric.
type Query struct{ Metric, Text string }

// Queries are those whose answers ReadAnswers reads.
func Queries() (all []Query) {
	for i := range programs {
		for k := range programs[i].metrics {
			m := &programs[i].metrics[k]
			all = append(all, Query{m.name, m.query()})
		}
	}
	return all
}

// ReadAnswers returns the prices of the answers to Queries, by the name of the metric. The name is that of the server.
func ReadAnswers(name string, at time.Time, answers map[string]model.Vector) (*Metrics, error) {
	m := &Metrics{}
	for i := range programs {
		p := &programs[i]
		if !slices.ContainsFunc(p.metrics, func(m metric) bool { return len(answers[m.name]) > 0 }) {
			continue
		}
		of := &Source{Name: p.program + " from " + name, Date: at}
		s, note, err := p.read(answers, of)
		if err != nil {
			return nil, err
		}
		if note != "" {
			m.Notes = append(m.Notes, of.Name+": "+note)
		}
		m.sources = append(m.sources, live{s, of, p.origin})
	}
	if len(m.sources) == 0 {
		var names []string
		for _, q := range Queries() {
			names = append(names, q.Metric)
		}
		return nil, fmt.Errorf("no sample of %s", strings.Join(names, ", "))
	}
	return m, nil
}

// ReadMetrics returns the prices of metrics in the text format of Prometheus. The name is that of the file, and the time that at which it
// was written: samples that have a time of their own may be older. An error names the line or the sample.
func ReadMetrics(name string, at time.Time, in io.Reader) (*Metrics, error) {
	text, err := wantedLines(in)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	samples := map[string]model.Vector{}
	options := &expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}
	for metric, f := range families {
		if t := f.GetType(); t != dto.MetricType_GAUGE && t != dto.MetricType_UNTYPED {
			return nil, fmt.Errorf("%s is of type %s: want a gauge", metric, strings.ToLower(t.String()))
		}
		if samples[metric], err = expfmt.ExtractSamples(options, f); err != nil {
			return nil, fmt.Errorf("%s: %w", metric, err)
		}
		for _, s := range samples[metric] {
			written := s.Timestamp.Time()
			if written.Before(oldest) {
				return nil, fmt.Errorf("%s: %d ms is no time of a price", seriesOf(s), int64(s.Timestamp))
			}
			if written.Before(at) {
				at = written
			}
		}
	}
	return ReadAnswers(name, at.UTC(), samples)
}

// wantedLines returns the lines about metrics with prices, and an empty one for each other: the parser counts lines, and keeps what it
// reads.
func wantedLines(in io.Reader) ([]byte, error) {
	var out bytes.Buffer
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	line, read, samples := 0, 0, 0
	for lines.Scan() {
		line++
		text := lines.Bytes()
		if read += len(text) + 1; read > maxMetrics {
			return nil, fmt.Errorf("line %d: more than %d bytes", line, maxMetrics)
		}
		if isWanted(text) {
			if samples++; samples > maxSamples {
				return nil, fmt.Errorf("line %d: more than %d samples", line, maxSamples)
			}
			out.Write(text)
		}
		out.WriteByte('\n')
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes", line+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	return out.Bytes(), nil
}

// isWanted reports whether a line is about a metric with prices: its type, or a sample.
func isWanted(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	if comment, is := bytes.CutPrefix(line, []byte("#")); is {
		fields := bytes.Fields(comment)
		if len(fields) < 2 || string(fields[0]) != "TYPE" {
			return false
		}
		line = fields[1]
	}
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		line = line[:end]
	}
	return slices.ContainsFunc(programs, func(p kind) bool {
		return slices.ContainsFunc(p.metrics, func(m metric) bool { return m.name == string(line) })
	})
}

// priceOf is the value of a sample, 0 where the program has no price.
func priceOf(s *model.Sample) (float64, error) {
	if p := float64(s.Value); p >= 0 && p < maxPrice {
		return p, nil
	}
	return 0, fmt.Errorf("%s: %v is no price: want dollars an hour, at least 0 and below %d", seriesOf(s), s.Value, maxPrice)
}

// maxSeries is the length of a series in an error.
const maxSeries = 300

func seriesOf(s *model.Sample) string {
	text := s.Metric.String()
	if len(text) > maxSeries {
		text = strings.ToValidUTF8(text[:maxSeries], "") + "…"
	}
	return text
}
