// SPDX-License-Identifier: Apache-2.0

package decisionobjects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
)

// objects are what an API server has, whose requests can fail.
type objects struct {
	mu sync.Mutex
	m  map[types.NamespacedName]*v1alpha1.SchedulingDecision
	// writes is the number of requests. fail is called for each, before it is carried out; an error with lost set, after.
	writes int
	fail   func() (err error, lost bool)
}

func (s *objects) do(request func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	var err error
	lost := true
	if s.fail != nil {
		err, lost = s.fail()
	}
	if err == nil || lost {
		request()
	}
	return err
}

func (s *objects) List(context.Context) (records []*decision.Record, err error) {
	return records, s.do(func() {
		for _, o := range s.m {
			records = append(records, decision.FromObject(o))
		}
	})
}

func (s *objects) Apply(_ context.Context, o *v1alpha1.SchedulingDecision) error {
	return s.do(func() { s.m[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o })
}

func (s *objects) Delete(_ context.Context, pod types.NamespacedName) error {
	return s.do(func() { delete(s.m, pod) })
}

func (s *objects) ids() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]string{}
	for pod, o := range s.m {
		ids[pod.String()] = o.Attempt.ID
	}
	return ids
}

func server() *objects { return &objects{m: map[types.NamespacedName]*v1alpha1.SchedulingDecision{}} }

// start runs the objects of a scheduler until the test ends, or end is called.
func start(t *testing.T, s *objects) (o *Objects, end func()) {
	t.Helper()
	o = New(s, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { o.Run(ctx) })
	end = func() {
		cancel()
		g.Wait()
	}
	t.Cleanup(end)
	return o, end
}

func record(namespace, pod, id string) *decision.Record {
	return &decision.Record{Namespace: namespace, Pod: pod, ID: id, UID: types.UID("uid of " + pod), Time: time.Now(), Outcome: decision.Bound}
}

// after waits until all is quiet, and then for a time.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func TestTheLastRecordOfAPodIsItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		o, _ := start(t, s)
		o.Put(record("shop", "web-0", "1"), time.Minute)
		o.Put(record("shop", "web-0", "2"), time.Minute)
		o.Put(record("shop", "web-1", "3"), time.Hour)
		after(time.Second)
		assert.Equal(t, map[string]string{"shop/web-0": "2", "shop/web-1": "3"}, s.ids())
		after(time.Minute + expiryPeriod)
		assert.Equal(t, map[string]string{"shop/web-1": "3"}, s.ids(), "one has expired")
	})
}

func TestANamespaceKeepsTheNewestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		o, _ := start(t, s)
		o.Put(record("quiet", "web-0", "1"), time.Hour)
		for i := range 3 * decision.MaxObjectsPerNamespace {
			o.Put(record("busy", fmt.Sprint(i), "1"), time.Hour)
			after(100 * time.Millisecond)
		}
		after(time.Minute)
		ids := s.ids()
		assert.Len(t, ids, decision.MaxObjectsPerNamespace+1)
		assert.Contains(t, ids, "quiet/web-0")
		assert.Contains(t, ids, fmt.Sprint("busy/", 3*decision.MaxObjectsPerNamespace-1))
	})
}

// Whatever fails and whenever a scheduler ends: in the end, the objects are those of the records.
func TestObjectsConverge(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := server()
			failures := rand.New(rand.NewPCG(seed, 1))
			s.fail = func() (error, bool) {
				if failures.IntN(3) == 0 {
					return errors.New("timeout"), failures.IntN(2) == 0
				}
				return nil, false
			}
			o, end := start(t, s)
			for i := range 400 {
				if i%150 == 149 {
					end()
					o, end = start(t, s)
				}
				ttl := []time.Duration{time.Second, time.Minute, time.Hour}[random.IntN(3)]
				o.Put(record(fmt.Sprint("n", random.IntN(2)), fmt.Sprint(random.IntN(150)), fmt.Sprint(i)), ttl)
				if random.IntN(4) == 0 {
					after(time.Duration(random.IntN(500)) * time.Millisecond)
				}
			}
			after(10 * time.Minute)
			s.mu.Lock()
			s.fail = nil
			s.mu.Unlock()
			after(10 * time.Minute)
			want := map[string]string{}
			for n := range 2 {
				for i := range 150 {
					for _, r := range o.store.Of(fmt.Sprint("n", n), fmt.Sprint(i)) {
						want[r.Namespace+"/"+r.Pod] = r.ID
					}
				}
			}
			require.Equal(t, want, s.ids(), "seed %d", seed)
			require.Len(t, o.written, len(want))
		})
	}
}

// A scheduler deletes in time what one before it wrote, and what is more than the bound.
func TestObjectsOfASchedulerBeforeExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		o, end := start(t, s)
		o.Put(record("shop", "web-0", "1"), time.Minute)
		o.Put(record("shop", "web-1", "2"), time.Hour)
		after(time.Second)
		end()
		after(30 * time.Second)
		o, _ = start(t, s)
		o.Put(record("shop", "web-1", "3"), time.Hour)
		after(time.Second)
		assert.Equal(t, map[string]string{"shop/web-0": "1", "shop/web-1": "3"}, s.ids())
		after(30*time.Second + expiryPeriod)
		assert.Equal(t, map[string]string{"shop/web-1": "3"}, s.ids())
	})
}

// What the API server refuses is not written again and again.
func TestARefusedObjectIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		o, _ := start(t, s)
		after(time.Second)
		s.mu.Lock()
		s.fail = func() (error, bool) {
			return apierrors.NewInvalid(v1alpha1.Kind("SchedulingDecision"), "web-0", nil), false
		}
		s.mu.Unlock()
		before := s.writes
		o.Put(record("shop", "web-0", "1"), time.Minute)
		after(30 * time.Second)
		assert.Equal(t, before+1, s.writes)
	})
}

// 1,000 records a second of different pods, for two minutes without an API server, and then with one: requests and memory are
// bounded.
func TestAFloodOfRecordsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		away := func() (error, bool) { return errors.New("connection refused"), false }
		o, _ := start(t, s)
		after(time.Second)
		s.mu.Lock()
		s.fail, s.writes = away, 0
		s.mu.Unlock()
		heap := live()
		flood := func(from, seconds int) {
			for i := range seconds * 10 {
				for j := range 100 {
					r := record(fmt.Sprint("n", j%50), fmt.Sprintf("%d-%d-%d", from, i, j), "1")
					r.Message = strings.Repeat("m", 2000)
					o.Put(r, time.Hour)
				}
				after(100 * time.Millisecond)
			}
		}
		flood(1, 120)
		assert.Less(t, live()-heap, uint64(32<<20), "bytes of heap without an API server")
		assert.LessOrEqual(t, len(o.written), maxWritten)
		s.mu.Lock()
		writes := s.writes
		s.fail = nil
		s.mu.Unlock()
		assert.LessOrEqual(t, writes, burst+writesPerSecond*125, "requests")
		flood(2, 60)
		assert.LessOrEqual(t, len(s.ids()), maxWritten)
		t.Log(len(s.ids()), "objects after the flood")
		after(time.Hour + 2*maxWritten*time.Second/writesPerSecond)
		assert.Zero(t, len(s.ids()), "all have expired")
		assert.Zero(t, len(o.written))
	})
}

// While objects cannot be deleted, no others are created.
func TestNoObjectIsCreatedBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server()
		o, _ := start(t, s)
		after(time.Second)
		for i := range maxWritten {
			o.wrote(types.NamespacedName{Namespace: "gone", Name: fmt.Sprint(i)})
		}
		o.Put(record("shop", "web-0", "1"), time.Hour)
		o.Put(record("gone", "7", "2"), time.Hour)
		after(time.Minute)
		assert.Equal(t, map[string]string{"gone/7": "2"}, s.ids(), "one that exists is replaced")
	})
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
