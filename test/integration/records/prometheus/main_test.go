// SPDX-License-Identifier: Apache-2.0

// Package prometheus_test queries a real Prometheus server, which scrapes a source of
// this package, as internal/records/prometheus does. It needs no control plane.
package prometheus_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"berth.dev/berth/hack/cluster"
)

// startTimeout covers a cold build of Prometheus.
const startTimeout = 15 * time.Minute

// shared is the server that all tests query, and what it scrapes.
var shared struct {
	server *cluster.Prometheus
	source *source
	target string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "berth-prometheus-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.source = newSource(time.Now())
	for _, c := range table {
		c.expose(shared.source)
	}
	exposeOthers(shared.source)
	scraped := httptest.NewServer(shared.source)
	defer scraped.Close()
	shared.target = scraped.Listener.Addr().String()
	shared.server, err = cluster.StartPrometheus(ctx, os.Stderr, cluster.PrometheusOptions{Dir: dir, Targets: []string{shared.target}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start Prometheus:", err)
		return 1
	}
	defer shared.server.Kill()
	return m.Run()
}
