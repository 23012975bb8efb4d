// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/policy"
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

func (d *decider) used() (time.Duration, error) {
	if d.process == nil {
		return bench.ProcessorTime(), nil
	}
	p, err := bench.ReadProcess(d.process.PID())
	return p.Processor, err
}

func (p *plane) used(d *decider) (u used, err error) {
	if u.decider, err = d.used(); err != nil {
		return u, err
	}
	for _, name := range []string{cluster.APIServer, cluster.Etcd} {
		process, err := bench.ReadProcess(p.Component(name).PID())
		if err != nil {
			return u, err
		}
		u.api += process.Processor
	}
	return u, nil
}

// follow reads the audit log until something holds.
func (t *tally) follow(ctx context.Context, file string, until func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		if err := t.read(file); err != nil {
			return err
		}
		if until() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d bindings and %d requests: %w", t.bindings, t.requests, ctx.Err())
		case <-tick.C:
		}
	}
}

// drained measures what a decider does about pods that wait: from its first
// binding to its last.
func (p *plane) drained(ctx context.Context, s size, start func() (*decider, error)) (bench.Values, error) {
	d, err := start()
	if err != nil {
		return nil, err
	}
	defer d.stop()
	zero, err := d.used()
	if err != nil {
		return nil, err
	}
	if d.process != nil {
		zero = 0
	}
	var t tally
	var before, after used
	if err := t.follow(ctx, p.AuditLogPath(), func() bool { return t.bindings > 0 }); err != nil {
		return nil, fmt.Errorf("first binding: %w", err)
	}
	if before, err = p.used(d); err != nil {
		return nil, err
	}
	profiled := d.profile(ctx)
	if err := t.follow(ctx, p.AuditLogPath(), func() bool { return t.bindings >= s.pods }); err != nil {
		return nil, fmt.Errorf("last binding: %w", err)
	}
	if after, err = p.used(d); err != nil {
		return nil, err
	}
	late := t.requests
	if err := profiled(); err != nil {
		return nil, err
	}
	if err := t.settle(ctx, p.AuditLogPath()); err != nil {
		return nil, err
	}
	n := float64(s.pods)
	v := bench.Values{
		// From its start: a fast scheduler has decided much before the first binding is done. To read all nodes and pods is in it.
		"cpu_ms_per_pod":            ms(after.decider-zero) / n,
		"cpu_from_first_ms_per_pod": ms(after.decider-before.decider) / n,
		"api_cpu_ms_per_pod":        ms(after.api-before.api) / n,
		"writes_after_last_per_pod": float64(t.requests-late) / n,
	}
	if err := d.describe(ctx, v); err != nil {
		return nil, err
	}
	return v, p.judge(ctx, s, v)
}

// describe adds what a scheduler's process says of itself.
func (d *decider) describe(ctx context.Context, v bench.Values) error {
	if d.process == nil {
		return nil
	}
	process, err := bench.ReadProcess(d.process.PID())
	if err != nil {
		return err
	}
	v["peak_rss_bytes"] = process.PeakBytes
	text, err := d.process.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	v["rate_limiter_wait_p99_s"] = quantile(text, "rest_client_rate_limiter_duration_seconds", 0.99)
	return nil
}

// settle waits until nothing more is written.
func (t *tally) settle(ctx context.Context, file string) error {
	seen, at := t.requests, time.Now()
	return t.follow(ctx, file, func() bool {
		if t.requests != seen {
			seen, at = t.requests, time.Now()
		}
		return time.Since(at) > settled
	})
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// judge adds what the audit log and the bound pods say: pace, writes, and how
// well the pods are placed.
func (p *plane) judge(ctx context.Context, s size, v bench.Values) error {
	all, err := p.ReadAuditLog(func(e *cluster.AuditEvent) bool { return e.Stage == "ResponseComplete" })
	if err != nil {
		return err
	}
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
	if err != nil {
		return err
	}
	placed := make([]placement, 0, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		version, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
		if err != nil || o.Spec.NodeName == "" {
			return fmt.Errorf("pod %s on node %q has version %q: %w", o.Name, o.Spec.NodeName, o.ResourceVersion, err)
		}
		slot, claimed := policy.ClaimedSlot(o)
		if !claimed {
			slot = split.NoSlot
		}
		placed = append(placed, placement{pod: o.Name, node: o.Spec.NodeName, committed: version, received: w.received[o.Name], slot: slot})
	}
	if len(placed) != s.pods {
		return fmt.Errorf("%d pods instead of %d", len(placed), s.pods)
	}
	quality(placed, s.nodes, v)
	return nil
}

// writes are the requests of an audit log by verb and resource.
type writes struct {
	kinds       map[string]int
	refused     map[int]int // by HTTP status
	first, last time.Time   // of the bindings
	// received says when the API server was told to bind a pod, in nanoseconds.
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
