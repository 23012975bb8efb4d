// SPDX-License-Identifier: Apache-2.0

package fallback

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

// model uses a pool as a scheduler does, and checks its invariants.
type model struct {
	pool *Pool
	now  time.Time
	n    int
	// trying are the pods limited to spot, with the time of the decision.
	trying map[string]Pod
	since  map[string]time.Time
	// owed is the number of pods that will replace others, by group.
	owed map[string]int
	// marks of the existing pods that fell back.
	marks map[string]Mark
}

func (m *model) pick(t *rapid.T) (Pod, bool) {
	ids := make([]string, 0, len(m.trying))
	for id := range m.trying {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return Pod{}, false
	}
	slices.Sort(ids)
	return m.trying[rapid.SampledFrom(ids).Draw(t, "pod")], true
}

func (m *model) choose(t *rapid.T) {
	m.n++
	group := rapid.SampledFrom([]string{"web", "api"}).Draw(t, "group")
	p := Pod{ID: fmt.Sprint(m.n), Group: group, Wait: wait}
	state, tries := m.pool.State(m.now, wait), 0
	for id := range m.trying {
		if m.now.Sub(m.since[id]) < mostWaits*wait {
			tries++
		}
	}
	v := m.pool.Choose(m.now, p)
	if rapid.Bool().Draw(t, "asked twice") {
		if again := m.pool.Choose(m.now, p); again != v {
			t.Fatalf("asked again: %v, before %v", again, v)
		}
	}
	switch {
	case v.Type == capacity.Spot:
		m.trying[p.ID], m.since[p.ID] = p, m.now
		if state == Open {
			t.Fatal("a pod tries spot while the circuit breaker is open")
		}
		if state == HalfOpen && tries >= m.pool.allowed() {
			t.Fatalf("%d pods try spot, %d may", tries+1, m.pool.allowed())
		}
	case state == Closed && m.owed[group] == 0:
		t.Fatalf("a pod goes to on-demand for no reason: %v", v)
	case v.Successor:
		m.owed[group]--
	}
	if v.Type == capacity.OnDemand {
		m.marks[p.ID] = v.Mark
		if v.Mark.Failures == 0 || v.Mark != m.pool.Mark() {
			t.Fatalf("mark %v of a pod, the pool has %v", v.Mark, m.pool.Mark())
		}
		m.pool.Gone(p.ID) // observed without a gate
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"choose": m.choose,
		"bind": func(t *rapid.T) {
			if p, ok := m.pick(t); ok {
				delete(m.trying, p.ID)
				m.pool.Succeeded(m.now, p)
			}
		},
		"fail": func(t *rapid.T) {
			if p, ok := m.pick(t); ok {
				delete(m.trying, p.ID)
				before := m.pool.State(m.now, wait)
				m.pool.Failed(m.now, p, true)
				m.owed[p.Group]++
				if before == Open && m.pool.State(m.now, wait) != Open {
					t.Fatal("a failure closed it")
				}
			}
		},
		"delete": func(t *rapid.T) {
			if p, ok := m.pick(t); ok {
				delete(m.trying, p.ID)
				m.pool.Gone(p.ID)
			}
		},
		"time": func(t *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(1, int(3*wait/time.Second)).Draw(t, "seconds")) * time.Second)
		},
		"restart": func(t *rapid.T) {
			// A new process has only the existing pods.
			before, mark := m.pool.State(m.now, wait), m.pool.Mark()
			marked := slices.Contains(values(m.marks), mark)
			m.pool, m.owed = &Pool{}, map[string]int{}
			for _, mark := range m.marks {
				m.pool.Restore(m.now, wait, mark)
			}
			for _, p := range m.trying {
				m.pool.Tries(m.since[p.ID], p)
			}
			if after := m.pool.State(m.now, wait); before == Open && marked && (after != Open || m.pool.Mark() != mark) {
				t.Fatalf("it was open with %v and is %s with %v", mark, after, m.pool.Mark())
			}
		},
		"": func(t *rapid.T) {
			if len(m.pool.tries) != len(m.trying) || len(m.pool.given) != 0 {
				t.Fatalf("%d attempts and %d credits in use are known, of %d and 0", len(m.pool.tries), len(m.pool.given), len(m.trying))
			}
			if state := m.pool.State(m.now, wait); state == Open && m.pool.Mark().RetryAt.Sub(m.now) > mostWaits*wait+time.Second {
				t.Fatalf("spot is not tried before %s", m.pool.Mark().RetryAt)
			}
		},
	}
}

func values(m map[string]Mark) (list []Mark) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

func newModel() *model {
	return &model{
		pool: &Pool{}, now: start, trying: map[string]Pod{}, since: map[string]time.Time{}, owed: map[string]int{},
		marks: map[string]Mark{},
	}
}

func TestThePoolKeepsItsPromisesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { t.Repeat(newModel().actions()) })
}

// Whatever happened, once all attempts succeed the pool closes: after at most the longest pause, and as many attempts
// as the steps require.
func TestThePoolClosesOnceAllAttemptsSucceed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(m.actions())
		for _, p := range m.trying {
			m.pool.Succeeded(m.now, p)
		}
		m.now = m.now.Add(mostWaits*wait + time.Second)
		for n := range mostAllowed {
			p := Pod{ID: fmt.Sprint("late-", n), Group: "late", Wait: wait}
			if v := m.pool.Choose(m.now, p); v.Type != capacity.Spot {
				t.Fatalf("attempt %d goes to on-demand", n)
			}
			m.pool.Succeeded(m.now, p)
		}
		if s := m.pool.State(m.now, wait); s != Closed {
			t.Fatalf("it is %s with %v", s, m.pool.Mark())
		}
	})
}
