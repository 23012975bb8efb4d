// SPDX-License-Identifier: Apache-2.0

// Package phasecount counts objects by their phase for Prometheus.
package phasecount

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout bounds a read from the cache, which may not be filled yet.
const timeout = time.Second

// Collector counts the objects in each phase. It reads from the cache.
type Collector struct {
	Reader client.Reader
	// Desc has the label of the phase only.
	Desc *prometheus.Desc
	// Phases are reported even if no object is in them.
	Phases []string
	// NewList returns an empty list, and EachPhase calls yield with the phase of each object of such a list.
	NewList   func() client.ObjectList
	EachPhase func(list client.ObjectList, yield func(phase string))
}

var _ prometheus.Collector = &Collector{}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.Desc }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	all := c.NewList()
	if err := c.Reader.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return // not filled yet
	}
	n := map[string]int{}
	for _, phase := range c.Phases {
		n[phase] = 0
	}
	c.EachPhase(all, func(phase string) { n[phase]++ })
	for phase, count := range n {
		ch <- prometheus.MustNewConstMetric(c.Desc, prometheus.GaugeValue, float64(count), phase)
	}
}
