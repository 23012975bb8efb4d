// SPDX-License-Identifier: Apache-2.0

package fallback

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

const wait = 10 * time.Minute

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func pod(id string) Pod { return Pod{ID: id, Group: "web", Wait: wait} }

// chosen returns the types of some pods.
func chosen(p *Pool, now time.Time, ids ...string) (types []capacity.Type) {
	for _, id := range ids {
		types = append(types, p.Choose(now, pod(id)).Type)
	}
	return types
}

// fails limits pods to spot and lets them wait without success. It returns when they failed.
func fails(t *testing.T, p *Pool, now time.Time, ids ...string) time.Time {
	t.Helper()
	for _, id := range ids {
		require.Equal(t, capacity.Spot, p.Choose(now, pod(id)).Type, id)
	}
	now = now.Add(wait)
	for _, id := range ids {
		p.Failed(now, pod(id), true)
	}
	return now
}

func TestOnlyTheSuccessorOfATimedOutPodGoesToOnDemand(t *testing.T) {
	p := &Pool{}
	now := fails(t, p, start, "a")
	require.Equal(t, Closed, p.State(now, wait))
	other := p.Choose(now, Pod{ID: "x", Group: "api", Wait: wait})
	assert.Equal(t, capacity.Spot, other.Type, "another workload of the pool")
	v := p.Choose(now, pod("a2"))
	assert.Equal(t, Verdict{Type: capacity.OnDemand, Mark: Mark{1, now.Add(wait)}, Successor: true}, v)
	assert.Equal(t, capacity.Spot, p.Choose(now, pod("b")).Type)
}

func TestAPodThatNobodyReplacesGivesNoCredit(t *testing.T) {
	p := &Pool{}
	p.Choose(start, pod("a"))
	p.Failed(start.Add(wait), pod("a"), false)
	assert.Equal(t, 1, p.Mark().Failures)
	assert.Equal(t, capacity.Spot, p.Choose(start.Add(wait), pod("b")).Type)
}

func TestACreditThatNobodyTakesEnds(t *testing.T) {
	p := &Pool{}
	now := fails(t, p, start, "a")
	assert.Equal(t, capacity.Spot, p.Choose(now.Add(wait), pod("b")).Type)
}

func TestACreditThatHasEndedIsNotRevivedByAnother(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a")
	later := fails(t, p, start.Add(5*wait), "b")
	assert.Equal(t, []capacity.Type{capacity.OnDemand, capacity.Spot}, chosen(p, later, "c", "d"))
}

func TestSpotIsNotTriedBeforeTheTimeThatTheMarkNames(t *testing.T) {
	p := &Pool{}
	now := fails(t, p, start.Add(time.Millisecond), "a", "b", "c")
	assert.False(t, p.Mark().RetryAt.Before(now.Add(wait)), p.Mark())
	assert.Zero(t, p.Mark().RetryAt.Nanosecond())
}

func TestAnotherChoiceForAPodReplacesThePreviousOne(t *testing.T) {
	p := &Pool{}
	now := fails(t, p, start, "a", "b")
	for range 3 { // for example, its patch was rejected
		assert.Equal(t, []capacity.Type{capacity.OnDemand}, chosen(p, now, "a2"))
	}
	assert.Equal(t, []capacity.Type{capacity.OnDemand, capacity.Spot}, chosen(p, now, "b2", "c"))
	for range 3 {
		assert.Equal(t, []capacity.Type{capacity.Spot}, chosen(p, now, "c"))
	}
	assert.Len(t, p.tries, 1)
}

func TestFailuresOpenTheCircuitBreakerAndTimeHalfOpensIt(t *testing.T) {
	p := &Pool{}
	chosen(p, start, "a", "b", "c", "d", "e")
	now := start.Add(wait)
	for i, id := range []string{"a", "b", "c"} {
		require.Equal(t, Closed, p.State(now, wait), i)
		p.Failed(now, pod(id), true)
	}
	require.Equal(t, Open, p.State(now, wait))
	retry := now.Add(wait)
	require.Equal(t, Mark{3, retry}, p.Mark())

	// Those that still wait began before it opened: they are ignored.
	p.Failed(now, pod("d"), true)
	p.Failed(retry.Add(time.Second), pod("e"), true)
	require.Equal(t, Mark{3, retry}, p.Mark())

	require.Equal(t, Open, p.State(retry.Add(-1), wait))
	assert.Equal(t, capacity.OnDemand, p.Choose(retry.Add(-1), pod("f")).Type)
	require.Equal(t, HalfOpen, p.State(retry, wait))
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.OnDemand}, chosen(p, retry, "g", "h", "i"))
}

func TestFailuresFarApartDoNotOpenIt(t *testing.T) {
	p := &Pool{}
	now := start
	for i := range 6 {
		now = fails(t, p, now, fmt.Sprint(i)).Add(wait + time.Second)
		require.Equal(t, 1, p.Mark().Failures)
	}
}

// As with a StatefulSet, whose pods are created one at a time.
func TestFailuresOneAfterTheOtherOpenIt(t *testing.T) {
	p := &Pool{}
	now := start
	for i := range Threshold {
		now = fails(t, p, now, fmt.Sprint(i)).Add(time.Second)
		require.Equal(t, capacity.OnDemand, p.Choose(now, pod(fmt.Sprint(i, "s"))).Type)
	}
	assert.Equal(t, Open, p.State(now, wait))
}

func TestThePauseDoublesUpToABound(t *testing.T) {
	p := &Pool{}
	now := fails(t, p, start, "a", "b", "c")
	for n, waits := range []time.Duration{1, 2, 4, 8, 8, 8} {
		retry := p.Mark().RetryAt
		require.Equal(t, waits*wait, retry.Sub(now), n)
		now = fails(t, p, retry, fmt.Sprint(n))
	}
}

func TestSpotIsTriedInStepsThatDouble(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a", "b", "c")
	now, n := p.Mark().RetryAt, 0
	for _, allowed := range []int{1, 2, 4} {
		var round []string
		for len(round) <= allowed {
			n++
			id := fmt.Sprint(n)
			if p.Choose(now, pod(id)).Type != capacity.Spot {
				break
			}
			round = append(round, id)
		}
		require.Len(t, round, allowed)
		for _, id := range round {
			p.Succeeded(now, pod(id))
		}
	}
	require.Equal(t, HalfOpen, p.State(now, wait))
	p.Choose(now, pod("last"))
	p.Succeeded(now, pod("last"))
	assert.Equal(t, Closed, p.State(now, wait))
	for range 20 {
		n++
		assert.Equal(t, capacity.Spot, p.Choose(now, pod(fmt.Sprint(n))).Type)
	}
}

func TestAFailureWhileHalfOpenTakesBackTheSteps(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a", "b", "c")
	now := p.Mark().RetryAt
	p.Choose(now, pod("d"))
	p.Succeeded(now, pod("d"))
	chosen(p, now, "e", "f")
	p.Failed(now.Add(wait), pod("e"), true)
	require.Equal(t, Open, p.State(now.Add(wait), wait))
	p.Failed(now.Add(wait), pod("f"), true)
	require.Equal(t, Mark{4, now.Add(3 * wait)}, p.Mark(), "f began before it opened again")
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, p.Mark().RetryAt, "g", "h"))
}

func TestAPodThatIsGoneLeavesItsPlaceToAnother(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a", "b", "c")
	now := p.Mark().RetryAt
	require.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "d", "e"))
	p.Gone("d")
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "f", "g"))
}

func TestAPoolThatIsQuietForLongIsTrustedAgain(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a", "b", "c")
	later := p.Mark().RetryAt.Add(mostWaits * wait)
	assert.False(t, p.Idle(later.Add(-1), wait))
	assert.Equal(t, HalfOpen, p.State(later.Add(-1), wait))
	assert.True(t, p.Idle(later, wait))
	assert.Equal(t, Closed, p.State(later, wait))
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.Spot}, chosen(p, later, "d", "e"))
	assert.Equal(t, Closed, p.State(later, wait))
}

func TestAProcessThatComesToLeadTakesOverTheNewestMark(t *testing.T) {
	before := &Pool{}
	now := fails(t, before, start, "a", "b", "c")
	var marks []Mark
	for _, id := range []string{"a2", "b2", "c2"} {
		marks = append(marks, before.Choose(now, pod(id)).Mark)
	}
	after := &Pool{}
	after.Restore(now, wait, Mark{2, now.Add(-wait)})
	for _, m := range marks {
		read, err := ParseMark(m.String())
		require.NoError(t, err)
		after.Restore(now, wait, read)
	}
	assert.Equal(t, before.Mark(), after.Mark())
	assert.Equal(t, Open, after.State(now, wait))
	// Pods that already waited began before the mark was written.
	after.Tries(start, pod("old"))
	after.Failed(now, pod("old"), true)
	assert.Equal(t, before.Mark(), after.Mark())
}

// The mark of a process whose clock is two days fast, or a forged one.
func TestAMarkKeepsPodsFromSpotForNoLongerThanFailuresDo(t *testing.T) {
	p := &Pool{}
	p.Restore(start, wait, Mark{Failures: mostFailures, RetryAt: start.Add(48 * time.Hour)})
	assert.Equal(t, Open, p.State(start, wait))
	assert.Equal(t, HalfOpen, p.State(start.Add(mostWaits*wait+time.Second), wait))
	earlier := Mark{Failures: 3, RetryAt: start.Add(wait)}
	other := &Pool{}
	other.Restore(start, wait, earlier)
	assert.Equal(t, earlier, other.Mark(), "one that is not too late stays what it is")
}

func TestWhatIsCountedCanAlwaysBeRead(t *testing.T) {
	p := &Pool{}
	now := start
	for i := range mostFailures + 2 {
		p.Tries(now, pod(fmt.Sprint(i)))
		p.Failed(now, pod(fmt.Sprint(i)), false)
		if now = p.Mark().RetryAt; i < Threshold {
			now = start
		}
	}
	require.Equal(t, mostFailures, p.Mark().Failures)
	_, err := ParseMark(p.Mark().String())
	assert.NoError(t, err)
}

func TestAPoolIsNotIdleWhileAPodTriesSpotOrTookACredit(t *testing.T) {
	p := &Pool{}
	assert.True(t, p.Idle(start, wait))
	p.Choose(start, pod("a"))
	assert.False(t, p.Idle(start, wait))
	p.Failed(start, pod("a"), true)
	p.Choose(start, pod("b"))
	later := start.Add(100 * wait)
	assert.False(t, p.Idle(later, wait))
	p.Gone("b")
	assert.True(t, p.Idle(later, wait))
}

func TestAPodThatIsBoundWhileSpotIsNotTriedTakesNoStep(t *testing.T) {
	p := &Pool{}
	require.Equal(t, capacity.Spot, p.Choose(start, pod("late")).Type)
	now := fails(t, p, start, "a", "b", "c")
	p.Succeeded(now, pod("late"))
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, p.Mark().RetryAt, "d", "e"))
}

// Another gate can block a pod indefinitely.
func TestAnUndecidedProbeHoldsOthersFromSpotForABoundedTime(t *testing.T) {
	p := &Pool{}
	fails(t, p, start, "a", "b", "c")
	now := p.Mark().RetryAt
	require.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "held", "d"))
	assert.Equal(t, capacity.OnDemand, p.Choose(now.Add(mostWaits*wait-1), pod("e")).Type)
	assert.Equal(t, capacity.Spot, p.Choose(now.Add(mostWaits*wait), pod("f")).Type)
}

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
	ids := slices.Sorted(maps.Keys(m.trying))
	if len(ids) == 0 {
		return Pod{}, false
	}
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
