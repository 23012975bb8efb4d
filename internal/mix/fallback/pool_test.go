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

// breaker is a pool with the credits of its pods.
type breaker struct {
	Pool
	credits Credits
}

func (b *breaker) choose(now time.Time, pod Pod) Verdict {
	return b.Choose(now, pod, &b.credits, false)
}

// fail records a pod that waited without success. successor: another one will be created in its place.
func (b *breaker) fail(now time.Time, pod Pod, successor bool) {
	if until, ok := b.Failed(now, pod, false); ok && successor {
		b.credits.Add(now, pod.Group, until, false)
	}
}

// block records one that waited beside a free place.
func (b *breaker) block(now time.Time, pod Pod) {
	if until, ok := b.Blocked(now, pod); ok {
		b.credits.Add(now, pod.Group, until, true)
	}
}

// gone records a pod that is deleted, or has no gate any more.
func (b *breaker) gone(id string) {
	b.Gone(id)
	b.credits.Gone(id)
}

// bound records a pod that has a spot node.
func (b *breaker) bound(id string) {
	b.gone(id)
	b.Came()
}

// chosen returns the types of some pods.
func chosen(p *breaker, now time.Time, ids ...string) (types []capacity.Type) {
	for _, id := range ids {
		types = append(types, p.choose(now, pod(id)).Type)
	}
	return types
}

// fails limits pods to spot and lets them wait without success. It returns when they failed.
func fails(t *testing.T, p *breaker, now time.Time, ids ...string) time.Time {
	t.Helper()
	for _, id := range ids {
		require.Equal(t, capacity.Spot, p.choose(now, pod(id)).Type, id)
	}
	now = now.Add(wait)
	for _, id := range ids {
		p.fail(now, pod(id), true)
	}
	return now
}

func TestOnlyTheSuccessorOfATimedOutPodGoesToOnDemand(t *testing.T) {
	p := &breaker{}
	now := fails(t, p, start, "a")
	require.Equal(t, Closed, p.State(now, wait))
	other := p.choose(now, Pod{ID: "x", Group: "api", Wait: wait})
	assert.Equal(t, capacity.Spot, other.Type, "another workload of the pool")
	v := p.choose(now, pod("a2"))
	assert.Equal(t, Verdict{Type: capacity.OnDemand, Mark: Mark{1, now.Add(wait)}, Successor: true}, v)
	assert.Equal(t, capacity.Spot, p.choose(now, pod("b")).Type)
}

func TestAPodWithoutASuccessorGivesNoCredit(t *testing.T) {
	p := &breaker{}
	p.choose(start, pod("a"))
	p.fail(start.Add(wait), pod("a"), false)
	assert.Equal(t, 1, p.Mark().Failures)
	assert.Equal(t, capacity.Spot, p.choose(start.Add(wait), pod("b")).Type)
}

func TestAnUnusedCreditEnds(t *testing.T) {
	p := &breaker{}
	now := fails(t, p, start, "a")
	assert.Equal(t, capacity.Spot, p.choose(now.Add(wait), pod("b")).Type)
}

func TestACreditThatHasEndedIsNotRevivedByAnother(t *testing.T) {
	p := &breaker{}
	fails(t, p, start, "a")
	later := fails(t, p, start.Add(5*wait), "b")
	assert.Equal(t, []capacity.Type{capacity.OnDemand, capacity.Spot}, chosen(p, later, "c", "d"))
}

func TestSpotIsNotTriedBeforeTheTimeThatTheMarkNames(t *testing.T) {
	p := &breaker{}
	now := fails(t, p, start.Add(time.Millisecond), "a", "b", "c")
	assert.False(t, p.Mark().RetryAt.Before(now.Add(wait)), p.Mark())
	assert.Zero(t, p.Mark().RetryAt.Nanosecond())
}

func TestAnotherChoiceForAPodReplacesThePreviousOne(t *testing.T) {
	p := &breaker{}
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
	p := &breaker{}
	chosen(p, start, "a", "b", "c", "d", "e")
	now := start.Add(wait)
	for i, id := range []string{"a", "b", "c"} {
		require.Equal(t, Closed, p.State(now, wait), i)
		p.fail(now, pod(id), true)
	}
	require.Equal(t, Open, p.State(now, wait))
	retry := now.Add(wait)
	require.Equal(t, Mark{3, retry}, p.Mark())

	// Those that still wait began before it opened: they are ignored.
	p.fail(now, pod("d"), true)
	p.fail(retry.Add(time.Second), pod("e"), false)
	require.Equal(t, Mark{3, retry}, p.Mark())

	require.Equal(t, Open, p.State(retry.Add(-1), wait))
	assert.Equal(t, capacity.OnDemand, p.choose(retry.Add(-1), pod("f")).Type)
	require.Equal(t, HalfOpen, p.State(retry, wait))
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.OnDemand}, chosen(p, retry, "g", "h", "i"))
}

func TestFailuresFarApartDoNotOpenTheBreaker(t *testing.T) {
	p := &breaker{}
	now := start
	for i := range 6 {
		now = fails(t, p, now, fmt.Sprint(i)).Add(wait + time.Second)
		require.Equal(t, 1, p.Mark().Failures)
	}
}

// As with a StatefulSet, whose pods are created one at a time.
func TestConsecutiveFailuresOpenTheBreaker(t *testing.T) {
	p := &breaker{}
	now := start
	for i := range Threshold {
		now = fails(t, p, now, fmt.Sprint(i)).Add(time.Second)
		require.Equal(t, capacity.OnDemand, p.choose(now, pod(fmt.Sprint(i, "s"))).Type)
	}
	assert.Equal(t, Open, p.State(now, wait))
}

func TestThePauseDoublesUpToABound(t *testing.T) {
	p := &breaker{}
	now := fails(t, p, start, "a", "b", "c")
	for n, waits := range []time.Duration{1, 2, 4, 4, 4} {
		retry := p.Mark().RetryAt
		require.Equal(t, waits*wait, retry.Sub(now), n)
		now = fails(t, p, retry, fmt.Sprint(n))
	}
}

func TestAPodThatIsGoneLeavesItsPlaceToAnother(t *testing.T) {
	p := &breaker{}
	fails(t, p, start, "a", "b", "c")
	now := p.Mark().RetryAt
	require.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "d", "e"))
	p.gone("d")
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "f", "g"))
}

func TestAPoolThatIsQuietForLongIsTrustedAgain(t *testing.T) {
	p := &breaker{}
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
	before := &breaker{}
	now := fails(t, before, start, "a", "b", "c")
	var marks []Mark
	for _, id := range []string{"a2", "b2", "c2"} {
		marks = append(marks, before.choose(now, pod(id)).Mark)
	}
	after := &breaker{}
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
	after.fail(now, pod("old"), true)
	assert.Equal(t, before.Mark(), after.Mark())
}

// The mark of a process whose clock is two days fast, or a forged one.
func TestAMarkKeepsPodsFromSpotForNoLongerThanFailuresDo(t *testing.T) {
	p := &breaker{}
	p.Restore(start, wait, Mark{Failures: mostFailures, RetryAt: start.Add(48 * time.Hour)})
	assert.Equal(t, Open, p.State(start, wait))
	assert.Equal(t, HalfOpen, p.State(start.Add(mostWaits*wait+time.Second), wait))
	earlier := Mark{Failures: 3, RetryAt: start.Add(wait)}
	other := &breaker{}
	other.Restore(start, wait, earlier)
	assert.Equal(t, earlier, other.Mark(), "one that is not too late stays what it is")
}

func TestWhatIsCountedCanAlwaysBeRead(t *testing.T) {
	p := &breaker{}
	now := start
	for i := range mostFailures + 2 {
		p.Tries(now, pod(fmt.Sprint(i)))
		p.fail(now, pod(fmt.Sprint(i)), false)
		if now = p.Mark().RetryAt; i < Threshold {
			now = start
		}
	}
	require.Equal(t, mostFailures, p.Mark().Failures)
	_, err := ParseMark(p.Mark().String())
	assert.NoError(t, err)
}

func TestAPoolIsNotIdleWhileAPodTriesSpot(t *testing.T) {
	p := &breaker{}
	assert.True(t, p.Idle(start, wait))
	p.choose(start, pod("a"))
	later := start.Add(100 * wait)
	assert.False(t, p.Idle(later, wait))
	p.gone("a")
	assert.True(t, p.Idle(later, wait))
}

// Another gate can block a pod indefinitely.
func TestAnUndecidedProbeHoldsOthersFromSpotForABoundedTime(t *testing.T) {
	p := &breaker{}
	fails(t, p, start, "a", "b", "c")
	now := p.Mark().RetryAt
	require.Equal(t, []capacity.Type{capacity.Spot, capacity.OnDemand}, chosen(p, now, "held", "d"))
	assert.Equal(t, capacity.OnDemand, p.choose(now.Add(mostWaits*wait-1), pod("e")).Type)
	assert.Equal(t, capacity.Spot, p.choose(now.Add(mostWaits*wait), pod("f")).Type)
}

// model uses a pool as a scheduler does, and checks its invariants.
type model struct {
	pool *breaker
	now  time.Time
	n    int
	// trying are the pods limited to spot, with the time of the decision.
	trying map[string]Pod
	since  map[string]time.Time
	// owed is the number of pods that will replace others, by group. blocked are those of them that a place does not help.
	owed, blocked map[string]int
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

// mayTry reports whether a pod may be limited to spot where no node has room for it.
func (m *model) mayTry() bool {
	tries := 0
	for id := range m.trying {
		if m.now.Sub(m.since[id]) < mostWaits*wait {
			tries++
		}
	}
	state := m.pool.State(m.now, wait)
	return state == Closed || state == HalfOpen && tries == 0
}

func (m *model) choose(t *rapid.T) {
	m.n++
	group := rapid.SampledFrom([]string{"web", "api"}).Draw(t, "group")
	p := Pod{ID: fmt.Sprint(m.n), Group: group, Wait: wait}
	may, place := m.mayTry(), rapid.Bool().Draw(t, "place")
	v := m.pool.Choose(m.now, p, &m.pool.credits, place)
	if rapid.Bool().Draw(t, "called twice") {
		if again := m.pool.Choose(m.now, p, &m.pool.credits, place); again != v {
			t.Fatalf("the second call: %v, the first %v", again, v)
		}
	}
	switch {
	case v.Type == capacity.Spot && !place && !may:
		t.Fatalf("a pod tries spot while the circuit breaker is %s", m.pool.State(m.now, wait))
	case v.Type == capacity.OnDemand && place && m.blocked[group] == 0:
		t.Fatalf("a pod goes to on-demand beside a free place: %v", v)
	case v.Type == capacity.OnDemand && !place && may && m.owed[group] == 0:
		t.Fatalf("a pod goes to on-demand for no reason: %v", v)
	}
	if v.Type == capacity.Spot {
		m.trying[p.ID], m.since[p.ID] = p, m.now
		return
	}
	m.owed[group] = max(0, m.owed[group]-1)
	m.marks[p.ID] = v.Mark
	if v.Mark.Failures == 0 || !v.Successor && v.Mark != m.pool.Mark() {
		t.Fatalf("mark %v of a pod, the pool has %v", v.Mark, m.pool.Mark())
	}
	m.pool.gone(p.ID) // observed without a gate
}

func (m *model) fail(t *rapid.T) {
	p, ok := m.pick(t)
	if !ok {
		return
	}
	delete(m.trying, p.ID)
	before, mark := m.pool.State(m.now, wait), m.pool.Mark()
	m.owed[p.Group]++
	if rapid.Bool().Draw(t, "blocked") {
		m.pool.block(m.now, p)
		m.blocked[p.Group]++
		if m.pool.Mark() != mark {
			t.Fatal("a pod that is blocked by itself counts as a failure")
		}
		return
	}
	m.pool.fail(m.now, p, true)
	if before == Open && m.pool.State(m.now, wait) != Open {
		t.Fatal("a failure closed it")
	}
}

// restart has a new process, which has only the existing pods.
func (m *model) restart(t *rapid.T) {
	before, mark := m.pool.State(m.now, wait), m.pool.Mark()
	marked := slices.Contains(slices.Collect(maps.Values(m.marks)), mark)
	m.pool, m.owed, m.blocked = &breaker{}, map[string]int{}, map[string]int{}
	for _, mark := range m.marks {
		m.pool.Restore(m.now, wait, mark)
	}
	for _, p := range m.trying {
		m.pool.Tries(m.since[p.ID], p)
	}
	if after := m.pool.State(m.now, wait); before == Open && marked && after != Open {
		t.Fatalf("it was open with %v and is %s with %v", mark, after, m.pool.Mark())
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"choose":  m.choose,
		"fail":    m.fail,
		"restart": m.restart,
		"bind": func(t *rapid.T) {
			if p, ok := m.pick(t); ok {
				delete(m.trying, p.ID)
				m.pool.bound(p.ID)
				if m.pool.State(m.now, wait) != Closed {
					t.Fatal("a success did not close it")
				}
			}
		},
		"delete": func(t *rapid.T) {
			if p, ok := m.pick(t); ok {
				delete(m.trying, p.ID)
				m.pool.gone(p.ID)
			}
		},
		"time": func(t *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(1, int(3*wait/time.Second)).Draw(t, "seconds")) * time.Second)
			m.pool.credits.Expire(m.now)
		},
		"": func(t *rapid.T) {
			if len(m.pool.tries) != len(m.trying) {
				t.Fatalf("%d attempts are known, of %d", len(m.pool.tries), len(m.trying))
			}
			if state := m.pool.State(m.now, wait); state == Open && m.pool.Mark().RetryAt.Sub(m.now) > mostWaits*wait+time.Second {
				t.Fatalf("spot is not tried before %s", m.pool.Mark().RetryAt)
			}
		},
	}
}

func newModel() *model {
	return &model{
		pool: &breaker{}, now: start, trying: map[string]Pod{}, since: map[string]time.Time{},
		owed: map[string]int{}, blocked: map[string]int{}, marks: map[string]Mark{},
	}
}

func TestThePoolKeepsItsPromisesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { t.Repeat(newModel().actions()) })
}

// Whatever happened, once attempts succeed the pool closes: after at most the longest pause, with the first attempt.
func TestThePoolClosesWithTheFirstAttemptThatSucceeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(m.actions())
		for id := range m.trying {
			m.pool.gone(id)
		}
		m.now = m.now.Add(mostWaits*wait + time.Second)
		for n := range 10 {
			p := Pod{ID: fmt.Sprint("late-", n), Group: "late", Wait: wait}
			if v := m.pool.choose(m.now, p); v.Type != capacity.Spot {
				t.Fatalf("attempt %d goes to on-demand", n)
			}
			m.pool.bound(p.ID)
			if s := m.pool.State(m.now, wait); s != Closed {
				t.Fatalf("it is %s with %v", s, m.pool.Mark())
			}
		}
	})
}

func TestTheSuccessorOfABlockedPodGoesToOnDemand(t *testing.T) {
	p := &breaker{}
	p.choose(start, pod("a"))
	now := start.Add(wait)
	p.block(now, pod("a"))
	want := Verdict{Type: capacity.OnDemand, Mark: Mark{1, now.Add(wait)}, Successor: true}
	assert.Equal(t, want, p.Choose(now, pod("a2"), &p.credits, true), "beside the place where it cannot be either")
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.Spot}, chosen(p, now, "b", "c"))
	assert.Equal(t, Closed, p.State(now, wait))
	assert.Zero(t, p.Mark())
}

func TestASuccessClosesAnOpenBreaker(t *testing.T) {
	p := &breaker{}
	require.Equal(t, capacity.Spot, p.choose(start, pod("late")).Type)
	now := fails(t, p, start, "a", "b", "c")
	require.Equal(t, Open, p.State(now, wait))
	p.bound("late")
	successors := []capacity.Type{capacity.OnDemand, capacity.OnDemand, capacity.OnDemand}
	assert.Equal(t, successors, chosen(p, now, "a2", "b2", "c2"), "they do not wait again, though another one had success")
	assert.Equal(t, []capacity.Type{capacity.Spot, capacity.Spot}, chosen(p, now, "d", "e"))
}

func TestAPodWithAPlaceGoesToSpotWhileTheBreakerIsOpen(t *testing.T) {
	p := &breaker{}
	now := fails(t, p, start, "a", "b", "c")
	for range 2 { // for example, its patch was rejected
		assert.Equal(t, capacity.Spot, p.Choose(now, pod("a2"), &p.credits, true).Type)
	}
	require.Equal(t, Open, p.State(now, wait), "only the caller has whether the place is one for the others, too")
	p.Came()
	types := chosen(p, now, "b2", "c2", "d")
	assert.Equal(t, []capacity.Type{capacity.OnDemand, capacity.OnDemand, capacity.Spot}, types, "a place is in place of a credit")
}

// report records a pod for which an autoscaler launches no node.
func (b *breaker) report(now time.Time, pod Pod) {
	if until, ok := b.Failed(now, pod, true); ok {
		b.credits.Add(now, pod.Group, until, false)
	}
}

func TestReportsOpenTheBreakerForAsLongAsTheirCostsAllow(t *testing.T) {
	p := &breaker{}
	chosen(p, start, "a", "b", "c")
	now := start.Add(5 * time.Second)
	for _, id := range []string{"a", "b", "c"} {
		p.report(now, pod(id))
	}
	require.Equal(t, Open, p.State(now, wait))
	assert.True(t, p.Reported(now, wait))
	assert.Equal(t, now.Add(leastPause), p.Mark().RetryAt, "and not the wait of 10 minutes")

	retry := p.Mark().RetryAt
	first := Pod{ID: "first", Group: "one more workload", Wait: wait}
	require.Equal(t, capacity.Spot, p.choose(retry, first).Type)
	p.report(retry.Add(5*time.Second), first)
	assert.Equal(t, retry.Add(5*time.Second+4*time.Minute), p.Mark().RetryAt, "48 times 5 s")

	retry = p.Mark().RetryAt
	probe := Pod{ID: "probe", Group: "another workload", Wait: wait}
	require.Equal(t, capacity.Spot, p.choose(retry, probe).Type)
	p.report(retry.Add(time.Second), probe)
	assert.Equal(t, retry.Add(time.Second+leastPause), p.Mark().RetryAt, "at least a minute, however fast the report is")

	retry = p.Mark().RetryAt
	other := Pod{ID: "probe2", Group: "a third one", Wait: wait}
	require.Equal(t, capacity.Spot, p.choose(retry, other).Type)
	p.fail(retry.Add(wait), other, true)
	assert.False(t, p.Reported(retry.Add(wait), wait), "its time was over, and no autoscaler reported anything")
	assert.Equal(t, retry.Add(wait+4*wait), p.Mark().RetryAt)
}

func TestASuccessEndsWhatWasReported(t *testing.T) {
	p := &breaker{}
	chosen(p, start, "a", "b", "c")
	for _, id := range []string{"a", "b", "c"} {
		p.report(start.Add(time.Second), pod(id))
	}
	require.True(t, p.Reported(start.Add(time.Second), wait))
	p.Came()
	assert.False(t, p.Reported(start.Add(time.Second), wait))
}

// A day without spot, with a pod whenever one may try: those that try wait for half an hour in all.
func TestADayOfProbesCostsHalfAnHour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.IntRange(60, 3600).Draw(t, "wait in seconds")) * time.Second
		p, now, waited := &breaker{}, start, time.Duration(0)
		for n := 0; now.Before(start.Add(24 * time.Hour)); n++ {
			probe := Pod{ID: fmt.Sprint(n), Group: fmt.Sprint(n), Wait: wait}
			if p.choose(now, probe).Type == capacity.Spot {
				took := time.Duration(rapid.IntRange(1, 75).Draw(t, "seconds to the report")) * time.Second
				now = now.Add(min(took, wait))
				p.report(now, probe)
				if n >= Threshold { // before, the breaker is closed
					waited += took
				}
			}
			if p.State(now, wait) == Open {
				now = p.Mark().RetryAt
			}
		}
		most := 24*time.Hour/probeShare + 75*time.Second // the last one may end a day later
		if waited > most && mostWaits*wait >= probeShare*75*time.Second {
			t.Fatalf("those that tried waited for %s of a day", waited)
		}
	})
}
