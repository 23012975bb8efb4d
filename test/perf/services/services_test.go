// SPDX-License-Identifier: Apache-2.0

// Package services_test measures the gRPC services of a running controller under
// load, beside a plain client that does the same at the API server.
package services_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

const (
	command = "make bench-services"

	// perSecond requests for so long are well below what two processors can do.
	perSecond = 50
	paced     = 6 * time.Second
	// workers have a request under way each, until so many are answered.
	workers, saturated = 16, 1_000
)

func TestMain(m *testing.M) {
	if os.Getenv(bench.EnvDepth) != string(bench.Full) {
		os.Exit(m.Run())
	}
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true}))
}

func TestServices(t *testing.T) {
	depth := bench.Asked(t)
	if depth != bench.Full {
		t.Skip("it takes minutes: " + command)
	}
	s := serve(t)
	_, _, err := bench.Saturated(workers, kept, func(i int) error { return s.direct.Create(s.Ctx, object(s.Namespace, keptName(i))) })
	require.NoError(t, err)
	suite := bench.NewSuite("services", command)
	t.Cleanup(func() { bench.Keep(t, suite) })
	options := depth.Options(t)
	options.Rounds, options.Repeats = bench.Rounds(t, options.Rounds), min(options.Repeats, 2)
	for _, op := range s.operations() {
		for _, c := range s.cases(op) {
			if !bench.Chosen(t, c.Name) {
				continue
			}
			r, err := options.Interleave(s.Ctx, c)
			require.NoError(t, err)
			suite.Add(r)
			report(t, &r)
		}
	}
}

// load makes the calls of one turn, and returns what they took each and together.
type load func(call func(i int) error) (took []time.Duration, all time.Duration, err error)

func (s *served) cases(op operation) []bench.Case {
	n := perSecond * int(paced.Seconds())
	settings := map[string]string{
		"limits": fmt.Sprintf("%d; a list is a page of %d", kept, page), "caller": "one service account, one connection, plaintext to the service",
		"update": "read and replace, in both ways", "service": "checks with the API server for every call whether the caller may",
	}
	one := func(name string, at map[string]float64, l load) bench.Case {
		return bench.Case{Name: op.name + "/" + name, At: at, Settings: settings, Peers: []bench.Peer{
			{Name: "grpc", Run: s.turn(l, op.grpc)}, {Name: "direct", Run: s.turn(l, op.direct)},
		}}
	}
	return []bench.Case{
		one(fmt.Sprintf("rate=%d", perSecond), map[string]float64{"rate": perSecond}, func(call func(int) error) ([]time.Duration, time.Duration, error) {
			began := time.Now()
			took, err := bench.Paced(n, perSecond, call)
			return took, time.Since(began), err
		}),
		one(fmt.Sprintf("workers=%d", workers), map[string]float64{"workers": workers}, func(call func(int) error) ([]time.Duration, time.Duration, error) {
			return bench.Saturated(workers, cmp.Or(op.most, saturated), call)
		}),
	}
}

// turn measures a load. What the controller uses is measured of both peers: it
// looks at every limit that is written, whoever writes it, and only what it uses
// more is the service's.
func (s *served) turn(l load, call func(i int) error) func(context.Context) (bench.Values, error) {
	return func(ctx context.Context) (bench.Values, error) {
		s.idle(ctx)
		before := s.server()
		took, all, err := l(call)
		if err != nil {
			return nil, err
		}
		after := s.server()
		n, list := float64(len(took)), bench.Milliseconds(took)
		return bench.Values{
			"p50_ms": bench.Quantile(list, 0.5), "p99_ms": bench.Quantile(list, 0.99), "max_ms": slices.Max(list),
			"requests_per_s":                 n / all.Seconds(),
			"controller_cpu_ms_per_request":  (after.controllerMS - before.controllerMS) / n,
			"api_cpu_ms_per_request":         (after.apiMS - before.apiMS) / n,
			"controller_allocs_per_request":  (after.allocations - before.allocations) / n,
			"controller_alloc_b_per_request": (after.bytes - before.bytes) / n,
		}, nil
	}
}

func report(t *testing.T, r *bench.Result) {
	for _, peer := range r.Peers() {
		t.Logf("%-20s %-7s p50 %6.1f ms, p99 %6.1f ms, most %6.1f ms, %5.0f requests/s; for each: controller %.2f ms, %.0f allocations, %.0f KiB, API server %.2f ms",
			r.Name, peer, r.Median(peer, "p50_ms"), r.Median(peer, "p99_ms"), r.Median(peer, "max_ms"), r.Median(peer, "requests_per_s"),
			r.Median(peer, "controller_cpu_ms_per_request"), r.Median(peer, "controller_allocs_per_request"),
			r.Median(peer, "controller_alloc_b_per_request")/1024, r.Median(peer, "api_cpu_ms_per_request"))
	}
}
