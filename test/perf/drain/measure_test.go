// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/testutil"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

const (
	// glance is how often the audit log is looked at: the precision of what is read from /proc.
	glance = 20 * time.Millisecond
	// settled is how long nothing more is written before all Events are taken to be there.
	settled = time.Second
	// longest bounds one turn.
	longest = 15 * time.Minute
)

// used is the processor time of the processes at a moment.
type used struct{ decider, api time.Duration }

// decider is what binds the pods: a scheduler's process, or the test's own.
type decider struct {
	process *cluster.Scheduler // nil: this process
	stop    func()
}

// starter starts a decider.
type starter func(ctx context.Context) *decider

func (p *plane) used(d *decider) (u used) {
	p.t.Helper()
	if d.process == nil {
		u.decider = bench.ProcessorTime()
	} else {
		u.decider = p.read(d.process.Process).Processor
	}
	for _, name := range []string{cluster.APIServer, cluster.Etcd} {
		u.api += p.read(p.Component(name)).Processor
	}
	return u
}

// read returns what a process uses.
func (p *plane) read(process *cluster.Process) bench.Process {
	p.t.Helper()
	used, err := bench.ReadProcess(process.PID())
	require.NoError(p.t, err)
	return used
}

// follow reads the audit log until something holds.
func (p *plane) follow(ctx context.Context, t *tally, until func() bool) {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(ctx, glance, longest, true, func(context.Context) (bool, error) {
		err := t.read(p.AuditLogPath())
		return until(), err
	})
	require.NoError(p.t, err, "%d bindings and %d requests", t.bindings, t.requests)
}

// drained measures what a decider does about pods that wait: from its first
// binding to its last.
func (p *plane) drained(ctx context.Context, s size, start starter) bench.Values {
	p.t.Helper()
	d := start(ctx)
	defer d.stop()
	var zero time.Duration
	if d.process == nil {
		zero = bench.ProcessorTime()
	}
	var t tally
	p.follow(ctx, &t, func() bool { return t.bindings > 0 })
	before := p.used(d)
	profiled := d.profile(ctx)
	p.follow(ctx, &t, func() bool { return t.bindings >= s.pods })
	after, late := p.used(d), t.requests
	require.NoError(p.t, profiled())
	p.settle(ctx, &t)
	n := float64(s.pods)
	v := bench.Values{
		// From its start: a fast scheduler has decided much before the first binding is done. To read all nodes and pods is in it.
		"cpu_ms_per_pod":            ms(after.decider-zero) / n,
		"cpu_from_first_ms_per_pod": ms(after.decider-before.decider) / n,
		"api_cpu_ms_per_pod":        ms(after.api-before.api) / n,
		"writes_after_last_per_pod": float64(t.requests-late) / n,
	}
	p.describe(ctx, d, v)
	p.judge(ctx, s, v)
	return v
}

// describe adds what a scheduler's process reports of itself.
func (p *plane) describe(ctx context.Context, d *decider, v bench.Values) {
	p.t.Helper()
	if d.process == nil {
		return
	}
	v["peak_rss_bytes"] = p.read(d.process.Process).PeakBytes
	text, err := d.process.Get(ctx, "/metrics")
	require.NoError(p.t, err)
	v["rate_limiter_wait_p99_s"] = quantile(text, "rest_client_rate_limiter_duration_seconds", 0.99)
}

// settle waits until nothing more is written.
func (p *plane) settle(ctx context.Context, t *tally) {
	p.t.Helper()
	seen, at := t.requests, time.Now()
	p.follow(ctx, t, func() bool {
		if t.requests != seen {
			seen, at = t.requests, time.Now()
		}
		return time.Since(at) > settled
	})
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// judge adds what the audit log and the bound pods show: pace, writes, and how
// well the pods are placed.
func (p *plane) judge(ctx context.Context, s size, v bench.Values) {
	p.t.Helper()
	all, err := p.ReadAuditLog(func(e *cluster.AuditEvent) bool { return e.Stage == "ResponseComplete" })
	require.NoError(p.t, err)
	w := written(all)
	for kind, n := range w.kinds {
		v["writes_"+kind+"_per_pod"] = float64(n) / float64(s.pods)
		v["api_writes_per_pod"] += float64(n) / float64(s.pods)
	}
	for code, n := range w.refused {
		v[fmt.Sprintf("api_writes_refused_%d_per_pod", code)] = float64(n) / float64(s.pods)
	}
	v["pods_per_s"] = float64(s.pods) / w.last.Sub(w.first).Seconds()
	list, err := p.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	require.NoError(p.t, err)
	placed := make([]placement, 0, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		version, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
		require.True(p.t, err == nil && o.Spec.NodeName != "", "pod %s on node %q has version %q: %v",
			o.Name, o.Spec.NodeName, o.ResourceVersion, err)
		slot, claimed := governing.ClaimedSlot(o)
		if !claimed {
			slot = split.NoSlot
		}
		placed = append(placed, placement{pod: o.Name, node: o.Spec.NodeName, committed: version, received: w.received[o.Name], slot: slot})
	}
	require.Len(p.t, placed, s.pods)
	quality(placed, s.nodes, v)
}

// writes are the requests of an audit log by verb and resource.
type writes struct {
	kinds       map[string]int
	refused     map[int]int // by HTTP status
	first, last time.Time   // of the bindings
	// received is when the API server got the binding of a pod, in nanoseconds.
	received map[string]int64
}

// written counts requests. Questions that the API server answers without
// storing anything, such as reviews of tokens, are none.
func written(all []cluster.AuditEvent) writes {
	w := writes{kinds: map[string]int{}, refused: map[int]int{}, received: map[string]int64{}}
	for i := range all {
		e := &all[i]
		o := &e.ObjectRef
		if strings.HasSuffix(o.Resource, "reviews") {
			continue
		}
		kind := e.Verb + "_" + o.Resource
		if o.Subresource != "" {
			kind += "_" + o.Subresource
		}
		w.kinds[kind]++
		if c := e.ResponseStatus.Code; c < 200 || c > 299 {
			w.refused[c]++
			continue
		}
		if o.Subresource != "binding" {
			continue
		}
		w.received[o.Name] = e.RequestReceived.UnixNano()
		if w.first.IsZero() || e.RequestReceived.Before(w.first) {
			w.first = e.RequestReceived
		}
		if e.StageTimestamp.After(w.last) {
			w.last = e.StageTimestamp
		}
	}
	return w
}

// bucket is one of a histogram, over all its labels.
type bucket struct{ edge, count float64 }

// quantile estimates one of a histogram in Prometheus' text format, as PromQL
// does: evenly within the bucket that it lies in. NaN if nothing was observed.
func quantile(text []byte, histogram string, q float64) float64 {
	samples := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(text), &samples); err != nil {
		return math.NaN()
	}
	counts := map[float64]float64{}
	for _, s := range samples[histogram+"_bucket"] {
		edge, err := strconv.ParseFloat(string(s.Metric["le"]), 64)
		if err != nil {
			return math.NaN()
		}
		counts[edge] += float64(s.Value)
	}
	buckets := make([]bucket, 0, len(counts))
	for edge, n := range counts {
		buckets = append(buckets, bucket{edge, n})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.edge, b.edge) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return math.NaN()
	}
	rank := q * buckets[len(buckets)-1].count
	below := bucket{}
	for _, b := range buckets {
		if b.count >= rank {
			if math.IsInf(b.edge, 1) {
				return below.edge
			}
			return below.edge + (b.edge-below.edge)*(rank-below.count)/(b.count-below.count)
		}
		below = b
	}
	return below.edge
}

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

// envProfiles is a folder for a processor profile of each scheduler, of some
// seconds after its first binding, and one of its heap after that. To take them
// costs a few per cent: not for the figures.
const envProfiles = "BERTH_BENCH_PROFILES"

// profile takes a profile beside the measurement, if the environment variable is set. wait ends with it.
func (d *decider) profile(ctx context.Context) (wait func() error) {
	dir := os.Getenv(envProfiles)
	if dir == "" || d.process == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		var errs []error
		for kind, path := range map[string]string{"pprof": "profile?seconds=8", "heap": "heap"} { // the client waits for 10
			text, err := d.process.Get(ctx, "/debug/pprof/"+path)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, d.process.Name+"."+kind), text, 0o600)
			}
			errs = append(errs, err)
		}
		done <- errors.Join(errs...)
	}()
	return func() error { return <-done }
}
