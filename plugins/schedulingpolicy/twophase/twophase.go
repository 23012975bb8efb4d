// SPDX-License-Identifier: Apache-2.0

// Package twophase binds the pods of a group together. In the first phase they wait until the group has as many members with a
// node as it needs, and each prepares its binding; in the second, once all have, they are bound. A group that is not complete
// in time gives all nodes back.
package twophase

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ErrAborted is the error of a pod whose group was given up because of another one.
var ErrAborted = errors.New("another pod of the group could not be prepared")

// Groups are the groups of a scheduler. Safe for concurrent use.
type Groups struct {
	mu sync.Mutex
	of map[string]group
}

// group is the members of a group that have a node and are not bound, by UID: a pod can take the name of one that is being bound
// and was deleted.
type group map[types.UID]*member

// member is a pod. Guarded by Groups.mu.
type member struct {
	name string
	// batch is nil while the pod waits for the group to be complete.
	batch    *batch
	prepared bool
	// confirm returns an error if the pod may not be bound any more. It is set when the pod is prepared.
	confirm func() error
}

// batch is the members that are bound together. Guarded by Groups.mu.
type batch struct {
	size, prepared int
	// decided is set when all are prepared, or one has failed.
	decided bool
	failed  error
	// done is closed when it is decided, or its members are bound with others.
	done chan struct{}
}

// New returns Groups without members.
func New() *Groups { return &Groups{of: map[string]group{}} }

// Names are the names of members. A set has them.
type Names interface {
	Has(name string) bool
	Len() int
}

// Join adds a pod that has a node. Others are the members that are bound, or whose binding is prepared. Join reports whether
// the group is complete with it, and returns the members that have waited for this and may go on.
func (g *Groups) Join(key, pod string, uid types.UID, others Names, size int) (allowed []types.UID, complete bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[key]
	if of == nil {
		of = group{}
		g.of[key] = of
	}
	of[uid] = &member{name: pod}
	allowed, complete = of.complete(others, size)
	return slices.DeleteFunc(allowed, func(id types.UID) bool { return id == uid }), complete
}

// Retry is Join without another pod, after others or the size have changed. It returns the members that may go on.
func (g *Groups) Retry(key string, others Names, size int) (allowed []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	allowed, _ = g.of[key].complete(others, size)
	return allowed
}

// Waiting returns the members that wait for the group to be complete.
func (g *Groups) Waiting(key string) (uids []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, m := range g.of[key] {
		if m.batch == nil {
			uids = append(uids, id)
		}
	}
	return uids
}

// Count returns the number of members, with others.
func (g *Groups) Count(key string, others Names) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	certain, open := g.of[key].count(others)
	return certain + open
}

// complete has the members that wait bound together if the group is complete, and returns them.
func (of group) complete(others Names, size int) (allowed []types.UID, complete bool) {
	certain, open := of.count(others)
	if certain+open < size {
		return nil, false
	}
	dependent := certain < size // on members that can still fail, and so all of them are bound or none
	b, merged := &batch{done: make(chan struct{})}, sets.Set[*batch]{}
	for id, m := range of {
		switch {
		case m.batch == nil:
			allowed = append(allowed, id)
		case dependent && !m.batch.decided:
			merged.Insert(m.batch)
		default:
			continue
		}
		b.add(m)
	}
	for old := range merged {
		close(old.done)
	}
	return allowed, true
}

// count returns how many members wait or are bound for certain, and how many more are bound if no other of their batch fails.
// What is prepared for the latter, or for members that have failed, can still be canceled. A name is one member.
func (of group) count(others Names) (certain, open int) {
	sure, unsure, undecided := sets.Set[string]{}, sets.Set[string]{}, sets.Set[string]{}
	for _, m := range of {
		switch {
		case m.batch == nil || m.batch.committed():
			sure.Insert(m.name)
			continue
		case !m.batch.decided:
			undecided.Insert(m.name)
		}
		unsure.Insert(m.name)
	}
	if others != nil {
		certain = others.Len()
		for name := range unsure {
			if others.Has(name) {
				certain--
			}
		}
	}
	for name := range sure {
		if others == nil || !others.Has(name) || unsure.Has(name) {
			certain++
		}
	}
	return certain, undecided.Difference(sure).Len()
}

// add has a member bound with the batch.
func (b *batch) add(m *member) {
	m.batch = b
	b.size++
	if m.prepared {
		b.prepared++
	}
}

func (b *batch) committed() bool { return b.decided && b.failed == nil }

// decide commits a batch, or gives it up because of an error. A batch is decided once.
func (b *batch) decide(err error) {
	if !b.decided {
		b.decided, b.failed = true, err
		close(b.done)
	}
}

// Alone reports whether a pod is bound without others: its group was complete before.
func (g *Groups) Alone(key string, uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.of[key][uid]
	return m == nil || m.batch == nil || m.batch.size == 1
}

// Prepared notes that a pod is prepared, and returns nil when all that are bound with it are. It returns an error if one of
// them fails before, the context ends, or one of them is not confirmed when all are prepared. The function that confirms the pod
// is called with a lock held.
func (g *Groups) Prepared(ctx context.Context, key string, uid types.UID, confirm func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.of[key][uid]
	if m == nil || m.batch == nil {
		return ErrAborted
	}
	if ctx.Err() == nil && !m.prepared { // if the time is over the pod is not bound, and must not commit the others
		m.prepared, m.confirm = true, confirm
		m.batch.prepared++
		if m.batch.prepared == m.batch.size {
			m.batch.decide(g.of[key].confirm(m.batch))
		}
	}
	for !m.batch.decided {
		done := m.batch.done
		g.mu.Unlock()
		select {
		case <-done:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			m.batch.decide(context.Cause(ctx))
		}
	}
	return m.batch.failed
}

// confirm returns why a member of a batch may not be bound any more, nil if all may. All of them are prepared.
func (of group) confirm(b *batch) error {
	for _, m := range of {
		if m.batch != b {
			continue
		}
		if err := m.confirm(); err != nil {
			return err
		}
	}
	return nil
}

// Leave removes a pod that is bound, or that gives its node back. It reports whether all that were to be bound with it were
// prepared, so that they are bound whatever becomes of this one, and returns the members that waited with it, which have to
// give their nodes back. It can be called twice.
func (g *Groups) Leave(key string, uid types.UID) (committed bool, aborted []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[key]
	m := of[uid]
	if m == nil {
		return false, nil
	}
	delete(of, uid)
	if m.batch != nil {
		m.batch.decide(ErrAborted)
		committed = m.batch.failed == nil
	} else {
		for id, other := range of {
			if other.batch == nil {
				aborted = append(aborted, id)
				delete(of, id)
			}
		}
	}
	if len(of) == 0 {
		delete(g.of, key)
	}
	return committed, aborted
}
