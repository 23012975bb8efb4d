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

// list is a list of objects of the API, whose struct is T.
type list[T any] interface {
	*T
	client.ObjectList
}

// Collector counts the objects in each phase P. It reads their list L from the cache.
type Collector[T any, L list[T], P ~string] struct {
	reader client.Reader
	desc   *prometheus.Desc
	phases []P
	each   func(all L, yield func(P))
}

// New returns a collector. Desc has the label of the phase only; phases are reported even if no object is in them; each calls yield
// with the phase of each object of a list.
func New[T any, L list[T], P ~string](
	r client.Reader, desc *prometheus.Desc, phases []P, each func(all L, yield func(P)),
) *Collector[T, L, P] {
	return &Collector[T, L, P]{r, desc, phases, each}
}

// Describe implements prometheus.Collector.
func (c *Collector[T, L, P]) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *Collector[T, L, P]) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	all := L(new(T))
	if err := c.reader.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return // not filled yet
	}
	n := map[P]int{}
	for _, phase := range c.phases {
		n[phase] = 0
	}
	c.each(all, func(phase P) { n[phase]++ })
	for phase, count := range n {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(count), string(phase))
	}
}
