// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// Limit is the maximum number of something in use.
type Limit struct {
	// Name is the field of the configuration, or a name if there is no field. It is a label of the metric.
	Name string
	most atomic.Int64
}

// NewLimit returns a limit with a name.
func NewLimit(name string, most int) *Limit {
	l := &Limit{Name: name}
	l.Set(most)
	return l
}

// Set changes the maximum. What is in use above it stays.
func (l *Limit) Set(most int) { l.most.Store(int64(most)) }

// Most is the maximum.
func (l *Limit) Most() int { return int(l.most.Load()) }

// Refuse counts a refusal and returns it: RESOURCE_EXHAUSTED, with the name of the limit. what is a plural noun.
func (l *Limit) Refuse(what string) *Error {
	refusals.WithLabelValues(l.Name).Inc()
	return &Error{
		Code: codes.ResourceExhausted, cheap: true,
		Message: fmt.Sprintf("too many %s: the limit %s is %d; retry later", what, l.Name, l.most.Load()),
	}
}

// Pool counts what is in use, in total and by key.
type Pool struct {
	what          string
	total, perKey *Limit

	mu   sync.Mutex // guards the rest
	used int64
	by   map[string]int64
}

// NewPool returns an empty pool. what is a plural noun for the error.
func NewPool(what string, total, perKey *Limit) *Pool {
	return &Pool{what: what, total: total, perKey: perKey, by: map[string]int64{}}
}

// Take takes n for a key, or takes nothing and returns RESOURCE_EXHAUSTED with the name of the limit.
func (p *Pool) Take(key string, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := int64(n)
	if p.by[key]+add > p.perKey.most.Load() {
		return p.perKey.Refuse(p.what + " of one caller")
	}
	if p.used+add > p.total.most.Load() {
		return p.total.Refuse(p.what)
	}
	p.used += add
	p.by[key] += add
	return nil
}

// Free releases n of a key.
func (p *Pool) Free(key string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= int64(n)
	if p.by[key] -= int64(n); p.by[key] <= 0 {
		delete(p.by, key)
	}
}
