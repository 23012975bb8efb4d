// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"container/heap"
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// MaxRecords is the number of records that a Store keeps, the newest: its memory must have a bound, however many pods
	// are scheduled.
	MaxRecords = 8192
	// MaxPerNamespace is the number of records of one namespace, the newest: one tenant cannot push out the records of the
	// others.
	MaxPerNamespace = 2048
	// MaxPerPod is the number of records of one pod, the newest: a pod that is tried again and again has no use for more, and
	// a response has a bound.
	MaxPerPod = 8

	// MaxObjects is the number of pods whose last record is kept as an object: etcd has less capacity than the memory of a
	// scheduler.
	MaxObjects = 2000
	// MaxObjectsPerNamespace is the number of those of one namespace.
	MaxObjectsPerNamespace = 100
)

// limits are the bounds of a store.
type limits struct{ all, namespace, pod int }

// Store keeps records in memory until they expire. Beyond a bound it drops the oldest record of the pod, of the namespace or
// of all. Safe for concurrent use.
type Store struct {
	clock  clock.PassiveClock
	limits limits
	// dropped is called for each record that is dropped, with the lock held; nil for no call.
	dropped func(pod types.NamespacedName)

	mu sync.Mutex
	// all and namespaces list entries, oldest first.
	all        list.List
	namespaces map[string]*list.List
	// pods are the entries of a pod, oldest first: at most MaxPerPod.
	pods   map[types.NamespacedName][]*entry
	expiry expiries
}

// entry is a record in a store.
type entry struct {
	record *Record
	// at is the index in Store.expiry, inAll and inNamespace the places in the lists.
	at                 int
	inAll, inNamespace *list.Element
}

// NewStore returns an empty store.
func NewStore(clock clock.PassiveClock) *Store {
	return newStore(clock, limits{all: MaxRecords, namespace: MaxPerNamespace, pod: MaxPerPod})
}

// NewObjectStore returns an empty store of the last record of each pod, within the bounds for objects. It calls dropped for
// each pod whose record it drops, which must not call the store.
func NewObjectStore(clock clock.PassiveClock, dropped func(pod types.NamespacedName)) *Store {
	s := newStore(clock, limits{all: MaxObjects, namespace: MaxObjectsPerNamespace, pod: 1})
	s.dropped = dropped
	return s
}

func newStore(clock clock.PassiveClock, l limits) *Store {
	return &Store{
		clock: clock, limits: l,
		namespaces: map[string]*list.List{}, pods: map[types.NamespacedName][]*entry{},
	}
}

// Put adds a record, or replaces the record of the pod with the same ID, which keeps its place. The record expires after ttl.
// The store keeps a copy with bounded strings and lists.
func (s *Store) Put(r *Record, ttl time.Duration) {
	r = bounded(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.dropExpired(now)
	r.Expires = now.Add(ttl)
	for _, e := range s.pods[podOf(r)] {
		if e.record.ID == r.ID {
			e.record = r
			heap.Fix(&s.expiry, e.at)
			return
		}
	}
	s.add(&entry{record: r})
}

// Of returns the records of a pod that have not expired, newest first. They must not be changed.
func (s *Store) Of(namespace, pod string) []*Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpired(s.clock.Now())
	entries := s.pods[types.NamespacedName{Namespace: namespace, Name: pod}]
	records := make([]*Record, len(entries))
	for i, e := range entries {
		records[len(entries)-1-i] = e.record
	}
	return records
}

// Len returns the number of records that have not expired.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpired(s.clock.Now())
	return s.all.Len()
}

// DropExpired drops the records that have expired. All other methods do so too; this one is for a timer.
func (s *Store) DropExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpired(s.clock.Now())
}

func podOf(r *Record) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Pod}
}

// add adds an entry and drops the oldest one of the first scope that has too many. One more entry needs one drop at most.
func (s *Store) add(e *entry) {
	pod := podOf(e.record)
	inNamespace := s.namespaces[pod.Namespace]
	if inNamespace == nil {
		inNamespace = list.New()
		s.namespaces[pod.Namespace] = inNamespace
	}
	e.inAll, e.inNamespace = s.all.PushBack(e), inNamespace.PushBack(e)
	s.pods[pod] = append(s.pods[pod], e)
	heap.Push(&s.expiry, e)
	switch {
	case len(s.pods[pod]) > s.limits.pod:
		s.drop(s.pods[pod][0])
	case inNamespace.Len() > s.limits.namespace:
		s.drop(first(inNamespace))
	case s.all.Len() > s.limits.all:
		s.drop(first(&s.all))
	}
}

func first(l *list.List) *entry {
	e, _ := l.Front().Value.(*entry)
	return e
}

// drop removes an entry, and what has no entries left.
func (s *Store) drop(e *entry) {
	pod := podOf(e.record)
	s.all.Remove(e.inAll)
	inNamespace := s.namespaces[pod.Namespace]
	if inNamespace.Remove(e.inNamespace); inNamespace.Len() == 0 {
		delete(s.namespaces, pod.Namespace)
	}
	rest := make([]*entry, 0, len(s.pods[pod]))
	for _, other := range s.pods[pod] {
		if other != e {
			rest = append(rest, other)
		}
	}
	if s.pods[pod] = rest; len(rest) == 0 {
		delete(s.pods, pod)
	}
	heap.Remove(&s.expiry, e.at)
	if s.dropped != nil {
		s.dropped(pod)
	}
}

func (s *Store) dropExpired(now time.Time) {
	for len(s.expiry) > 0 && !now.Before(s.expiry[0].record.Expires) {
		s.drop(s.expiry[0])
	}
}

// expiries is a heap of entries, the first to expire at the top.
type expiries []*entry

func (h expiries) Len() int           { return len(h) }
func (h expiries) Less(i, j int) bool { return h[i].record.Expires.Before(h[j].record.Expires) }

func (h expiries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *expiries) Push(x any) {
	if e, ok := x.(*entry); ok {
		e.at = len(*h)
		*h = append(*h, e)
	}
}

// Pop implements heap.Interface.
func (h *expiries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil // the heap must not keep the record in memory
	*h = (*h)[:last]
	return e
}
