// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// bounds are what happens at most in the small world of the model. Every order in which it can happen is tried.
type bounds struct {
	replicas, deletions, kills, lost int
	// late lets a Binding of a scheduler that was killed arrive after the next one has begun, which Berth does not protect from
	// (docs/decisions/0014-leader-guard.md).
	late bool
}

// phase is how far the scheduler is with a pod.
type phase int

const (
	idle       phase = iota
	inCycle          // it holds a claim, and is about to be reserved
	sent             // its Binding is on the way to the API server
	committed        // the API server has bound it, and the answer is on the way back
	refused          // the API server refused, and the answer is on the way back
	unanswered       // the request, or the answer, is lost
	over             // the scheduler has done its part
)

// modelPod is a pod as the API server has it, and what the scheduler does with it.
type modelPod struct {
	exists, bound bool
	slot          int // of a bound pod
	phase         phase
	claimed       int // by the scheduler
	known         bool
	// orphan is a Binding of a killed scheduler that is still on the way.
	orphan bool
}

// event is a change that the watch of pods delivers in order.
type event struct {
	pod  int
	kind string // created, bound, deleted
}

// model is a small world: one workload, an API server, and a scheduler that is the real ledger, fed as the plugin feeds it.
type model struct {
	bounds
	types  *capacity.Classifier
	ledger *ledger.Ledger
	pods   []modelPod
	events []event
	seen   int
}

var (
	modelGroup = governing.GroupKey{Namespace: "ns", ID: "web"}
	modelMix   = &governing.Mix{Mix: split.New(50, 1)}
)

func newModel(types *capacity.Classifier, b bounds) *model {
	m := &model{bounds: b, types: types, ledger: ledger.New(types, nil)}
	for range b.replicas {
		m.create()
	}
	return m
}

func uidOf(i int) types.UID { return types.UID(fmt.Sprintf("pod-%d", i)) }

func (m *model) create() {
	m.pods = append(m.pods, modelPod{exists: true})
	m.events = append(m.events, event{len(m.pods) - 1, "created"})
}

// step is something that can happen next.
type step struct {
	what string
	pod  int
	do   func()
}

// next are all that can happen next.
func (m *model) next() (all []step) {
	if m.seen < len(m.events) {
		all = append(all, step{"deliver", m.events[m.seen].pod, m.deliver})
	}
	busy := slices.ContainsFunc(m.pods, func(p modelPod) bool { return p.phase == inCycle })
	for i := range m.pods {
		p := &m.pods[i]
		add := func(what string, do func()) { all = append(all, step{what, i, do}) }
		switch p.phase {
		case idle:
			if p.known && !busy { // scheduling cycles come one after the other
				add("claim", func() { m.claim(i) })
			}
		case inCycle:
			add("reserve", func() { m.reserve(i) })
			add("no node for", func() { p.phase = idle })
		case sent:
			add("commit", func() { m.commit(i) })
			if m.lost > 0 {
				add("lose the request of", func() { m.lost--; p.phase = unanswered })
				add("lose the answer for", func() { m.lost--; m.bind(i); p.phase = unanswered })
			}
		case committed:
			add("answer", func() { p.phase = over })
		case refused:
			add("refuse", func() { m.ledger.Unreserve(uidOf(i)); p.phase = idle })
		case unanswered:
			add("give up", func() { m.ledger.Doubt(uidOf(i)); m.ledger.Unreserve(uidOf(i)); p.phase = idle })
		}
		if p.exists && m.deletions > 0 {
			add("delete", func() { m.remove(i) })
		}
		if p.orphan {
			add("commit late", func() { p.orphan = false; m.bind(i) })
		}
	}
	if m.kills > 0 {
		all = append(all, step{"kill", -1, m.kill})
	}
	return all
}

// deliver hands the next event to the ledger, as the handlers of the plugin do.
func (m *model) deliver() {
	e := m.events[m.seen]
	m.seen++
	p := &m.pods[e.pod]
	switch e.kind {
	case "created":
		p.known = true
	case "bound":
		m.observe(e.pod)
		p.phase = over
	case "deleted":
		m.ledger.Forget(uidOf(e.pod))
		p.phase = over
	}
}

func (m *model) observe(i int) {
	p := &m.pods[i]
	m.ledger.Observe(ledger.Bound{UID: uidOf(i), Member: in(modelGroup), Created: int64(i), Node: "node", Claimed: p.slot})
}

func (m *model) claim(i int) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uidOf(i)), UID: uidOf(i)}}
	hold, err := m.ledger.Claim(ledger.Claim{
		Pod: pod, Member: in(modelGroup), Governing: modelMix, Exists: func() bool { return true },
	})
	if err == nil {
		m.pods[i].claimed, m.pods[i].phase = hold.Slot, inCycle
	}
}

func (m *model) reserve(i int) {
	p := &m.pods[i]
	if p.phase = idle; m.ledger.Reserve(uidOf(i), p.claimed, "node") == nil {
		p.phase = sent
	}
}

// commit is what the API server does with a Binding.
func (m *model) commit(i int) {
	p := &m.pods[i]
	if p.phase = refused; m.bind(i) {
		p.phase = committed
	}
}

func (m *model) bind(i int) bool {
	p := &m.pods[i]
	if !p.exists || p.bound {
		return false
	}
	p.bound, p.slot = true, p.claimed
	m.events = append(m.events, event{i, "bound"})
	return true
}

// remove deletes a pod, which its ReplicaSet replaces.
func (m *model) remove(i int) {
	m.deletions--
	m.pods[i].exists = false
	m.events = append(m.events, event{i, "deleted"})
	m.create()
}

// kill replaces the scheduler by one that reads all pods, and knows nothing else.
func (m *model) kill() {
	m.kills--
	m.ledger, m.seen = ledger.New(m.types, nil), len(m.events)
	for i := range m.pods {
		p := &m.pods[i]
		p.orphan = m.late && p.phase == sent
		p.known, p.phase = p.exists, idle
		if p.exists && p.bound {
			m.observe(i)
			p.phase = over
		}
		if !p.exists {
			p.phase = over
		}
	}
}

// key has all that the future of the world depends on.
func (m *model) key() string {
	b := []byte{byte(m.deletions), byte(m.kills), byte(m.lost), byte(m.seen)}
	bit := func(is bool) byte {
		if is {
			return 1
		}
		return 0
	}
	for _, p := range m.pods {
		b = append(b, bit(p.exists), bit(p.bound), byte(p.slot), byte(p.phase), byte(p.claimed), bit(p.known), bit(p.orphan))
	}
	for _, e := range m.events[m.seen:] {
		b = append(b, byte(e.pod), e.kind[0])
	}
	return string(b) + m.ledger.Dump(modelGroup)
}

// broken is the promise that does not hold, "" for none.
func (m *model) broken() string {
	holders := map[int]int{}
	running, all := 0, 0
	for i, p := range m.pods {
		if !p.exists {
			continue
		}
		all++
		if !p.bound {
			continue
		}
		running++
		if other, taken := holders[p.slot]; taken {
			return fmt.Sprintf("slot %d is held by pods %d and %d", p.slot, other, i)
		}
		holders[p.slot] = i
	}
	if running < all || m.seen < len(m.events) {
		return ""
	}
	for slot := range all {
		if _, taken := holders[slot]; !taken {
			return fmt.Sprintf("all %d pods run, and none holds slot %d", all, slot)
		}
	}
	return ""
}

// explore tries every order, and returns how many states there are, how many of them are complete, and the shortest way to a broken one.
func explore(t require.TestingT, b bounds, most int) (states, complete int, counterexample []string) {
	types, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	replay := func(path []int) *model {
		m := newModel(types, b)
		for _, i := range path {
			m.next()[i].do()
		}
		return m
	}
	// way is how a state is reached, and in how many ways it goes on.
	type way struct {
		path []int
		next int
	}
	first := replay(nil)
	seen, queue := map[string]bool{first.key(): true}, []way{{nil, len(first.next())}}
	for ; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		if from.next == 0 {
			complete++
		}
		for i := range from.next {
			path := append(slices.Clone(from.path), i)
			m := replay(path)
			if what := m.broken(); what != "" {
				return len(seen), complete, append(describe(newModel(types, b), path), what)
			}
			if key := m.key(); !seen[key] {
				seen[key] = true
				queue = append(queue, way{path, len(m.next())})
			}
		}
		require.LessOrEqual(t, len(seen), most, "the world is too large to be explored")
	}
	return len(seen), complete, nil
}

func describe(m *model, path []int) (names []string) {
	for _, i := range path {
		s := m.next()[i]
		names = append(names, fmt.Sprintf("%s %d", s.what, s.pod))
		s.do()
	}
	return names
}

// No order of events, scheduling cycles, failed Bindings, lost answers, deletions and kills has two live pods hold one slot, or leaves a
// gap once all pods run.
func TestNoInterleavingGivesASlotToTwoPods(t *testing.T) {
	for name, b := range map[string]bounds{
		"deletions":                     {replicas: 2, deletions: 2},
		"a kill":                        {replicas: 3, kills: 1},
		"a lost request or answer":      {replicas: 2, lost: 1, deletions: 1},
		"a kill, a deletion and a loss": {replicas: 2, deletions: 1, kills: 1, lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, complete, counterexample := explore(t, b, 200_000)
			require.Empty(t, counterexample)
			assert.Greater(t, states, 100)
			t.Logf("%d states, %d of them complete", states, complete)
		})
	}
}

// The model finds the one order that Berth does not protect from, so it would find others.
func TestTheModelFindsABindingOfADeadScheduler(t *testing.T) {
	_, _, counterexample := explore(t, bounds{replicas: 2, kills: 1, late: true}, 200_000)
	require.NotEmpty(t, counterexample)
	assert.Contains(t, strings.Join(counterexample, ", "), "is held by pods")
	t.Log(strings.Join(counterexample, ", "))
}
