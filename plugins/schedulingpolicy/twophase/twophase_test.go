// SPDX-License-Identifier: Apache-2.0

package twophase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"
)

var errOver = errors.New("the time is over")

// over is a context that has ended.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	return ctx
}

// valid confirms a pod that may be bound.
func valid() error { return nil }

// join has pods join the group of a size, one after the other.
func join(g *Groups, size int, pods ...string) (allowed []types.UID, complete bool) {
	for _, pod := range pods {
		allowed, complete = g.Join("g", pod, types.UID(pod), nil, size)
	}
	return allowed, complete
}

func TestAGroupIsBoundWhenAllArePrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		_, complete := join(g, 2, "a")
		require.False(t, complete)
		assert.True(t, g.Alone("g", "a"))
		allowed, complete := join(g, 2, "b")
		require.True(t, complete)
		assert.Equal(t, []types.UID{"a"}, allowed, "the last one does not wait")
		assert.False(t, g.Alone("g", "a"))

		first := make(chan error, 1)
		go func() { first <- g.Prepared(t.Context(), "g", "a", valid) }()
		synctest.Wait()
		require.Empty(t, first, "it waits for the other")
		require.NoError(t, g.Prepared(t.Context(), "g", "b", valid))
		require.NoError(t, <-first)
		for _, pod := range []types.UID{"a", "b"} {
			committed, aborted := g.Leave("g", pod)
			assert.True(t, committed)
			assert.Empty(t, aborted)
		}
		assert.Empty(t, g.of)
	})
}

func TestAMemberThatIsNotBoundWithOthersIsNotPrepared(t *testing.T) {
	t.Parallel()
	g := New()
	require.ErrorIs(t, g.Prepared(t.Context(), "g", "unknown", valid), ErrAborted)
	join(g, 2, "waits")
	require.ErrorIs(t, g.Prepared(t.Context(), "g", "waits", valid), ErrAborted)
}

// A member that is prepared counts no more when its batch has failed: the last one decides nothing.
func TestAFailedBatchStaysFailed(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*Groups){
		"a member's time is over":          func(g *Groups) { assert.ErrorIs(t, g.Prepared(over(t), "g", "a", valid), errOver) },
		"a member leaves":                  func(g *Groups) { g.Leave("g", "a") },
		"a member's time ends as it waits": func(g *Groups) { assert.ErrorIs(t, ends(t, g, "a"), errOver) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := New()
			join(g, 3, "a", "b", "c")
			fail(g)
			require.Error(t, g.Prepared(t.Context(), "g", "b", valid))
			require.Error(t, g.Prepared(t.Context(), "g", "c", valid))
			committed, _ := g.Leave("g", "b")
			assert.False(t, committed)
		})
	}
}

// A member that waited for the others may not be bound any more when the last one is prepared: none is bound.
func TestAGroupIsConfirmedWhenItIsCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		join(g, 3, "a", "b", "c")
		errs := make(chan error, 2)
		var lost error
		go func() { errs <- g.Prepared(t.Context(), "g", "a", func() error { return lost }) }()
		go func() { errs <- g.Prepared(t.Context(), "g", "b", valid) }()
		synctest.Wait()
		lost = errors.New("its mix changed")
		require.ErrorIs(t, g.Prepared(t.Context(), "g", "c", valid), lost)
		for range 2 {
			require.ErrorIs(t, <-errs, lost)
		}
		for _, pod := range []types.UID{"a", "b", "c"} {
			committed, _ := g.Leave("g", pod)
			assert.False(t, committed, pod)
		}
	})
}

// ends prepares a pod whose context ends while it waits.
func ends(t *testing.T, g *Groups, pod types.UID) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errOver)
	defer cancel()
	return g.Prepared(ctx, "g", pod, valid)
}

// A pod without time that committed its group would be missing in it.
func TestTheLastMemberDoesNotCommitAfterItsTime(t *testing.T) {
	t.Parallel()
	g := New()
	g.Join("g", "a", "a", sets.New("b"), 2)
	require.ErrorIs(t, g.Prepared(over(t), "g", "a", valid), errOver)
	committed, _ := g.Leave("g", "a")
	assert.False(t, committed)
}

// A group that is complete only with members that are not prepared is not complete if they fail.
func TestAnExtraMemberIsBoundWithThoseThatItNeeds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then func(context.Context, *Groups) error
		want error
	}{
		"they are prepared": {func(ctx context.Context, g *Groups) error { return g.Prepared(ctx, "g", "b", valid) }, nil},
		"one leaves":        {func(_ context.Context, g *Groups) error { g.Leave("g", "b"); return nil }, ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := New()
				join(g, 2, "a", "b")
				results := make(chan error, 2)
				go func() { results <- g.Prepared(t.Context(), "g", "a", valid) }()
				synctest.Wait()
				// The Reservation of a is there, but it is canceled if b fails.
				_, complete := g.Join("g", "extra", "extra", sets.New("a"), 2)
				require.True(t, complete)
				assert.False(t, g.Alone("g", "extra"))
				go func() { results <- g.Prepared(t.Context(), "g", "extra", valid) }()
				synctest.Wait()
				require.Empty(t, results)
				require.NoError(t, test.then(t.Context(), g))
				synctest.Wait()
				require.Len(t, results, 2)
				assert.Equal(t, test.want, <-results)
				assert.Equal(t, test.want, <-results)
			})
		})
	}
}

func TestAnExtraMemberDoesNotWaitForThoseThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	g := New()
	bound := sets.New("x", "y")
	for _, pod := range []string{"a", "b"} {
		_, complete := g.Join("g", pod, types.UID(pod), bound, 2)
		require.True(t, complete)
		assert.True(t, g.Alone("g", types.UID(pod)))
	}
	g.Leave("g", "a")
	require.NoError(t, g.Prepared(t.Context(), "g", "b", valid))
}

func TestMembersOfAFailedBatchDoNotCount(t *testing.T) {
	t.Parallel()
	g := New()
	join(g, 2, "a", "b")
	g.Leave("g", "a")
	_, complete := g.Join("g", "c", "c", sets.New("b"), 2)
	assert.False(t, complete, "b gives its node back, and what is prepared for it is canceled")
}

// The old pod of a StatefulSet can leave after the new one has joined.
func TestAReplacedPodDoesNotLeaveForItsSuccessor(t *testing.T) {
	t.Parallel()
	g := New()
	g.Join("g", "a", "old", nil, 2)
	g.Join("g", "b", "b", nil, 2)
	g.Leave("g", "b")
	_, complete := g.Join("g", "a", "new", nil, 2)
	require.False(t, complete, "two pods of one name are one member")
	g.Leave("g", "old")
	allowed, complete := g.Join("g", "b", "b", nil, 2)
	assert.True(t, complete)
	assert.Equal(t, []types.UID{"new"}, allowed)
}

// modelBatch is open until all its members are prepared or one fails.
type modelBatch struct {
	size, prepared     int
	committed, decided bool
	err                error
}

func (b *modelBatch) fail(err error) {
	if !b.decided {
		b.decided, b.err = true, err
	}
}

// modelMember waits without a batch.
type modelMember struct {
	group, name string
	uid         types.UID
	batch       *modelBatch
	// reserved is set if its binding is prepared.
	reserved bool
	// result is of Prepared, nil if that was not called.
	result chan error
	cancel context.CancelCauseFunc
}

func waits(m *modelMember) bool     { return m.batch == nil }
func open(m *modelMember) bool      { return m.batch != nil && !m.batch.decided }
func committed(m *modelMember) bool { return m.batch != nil && m.batch.committed }
func failed(m *modelMember) bool    { return m.batch != nil && m.batch.decided && !m.batch.committed }
func reserved(m *modelMember) bool  { return m.reserved }

// model is the groups as they should be, with those that are tested.
type model struct {
	ctx    context.Context //nolint:containedctx // of the test
	g      *Groups
	size   map[string]int
	member []*modelMember
	// running are those whose Prepared has not returned.
	running []*modelMember
	// bound are the names of the bound members of a group, or those for which capacity is kept, ever those that were once.
	bound, ever map[string]sets.Set[string]
}

func newModel(ctx context.Context, t *rapid.T) *model {
	m := &model{ctx: ctx, g: New(), size: map[string]int{}, bound: map[string]sets.Set[string]{}, ever: map[string]sets.Set[string]{}}
	for _, key := range []string{"g", "h"} {
		m.size[key] = rapid.IntRange(2, 4).Draw(t, "size of "+key)
		m.bound[key], m.ever[key] = sets.New[string](), sets.New[string]()
	}
	return m
}

// in returns the members of a group that have one of the properties, and their names.
func (m *model) in(key string, which ...func(*modelMember) bool) (members []*modelMember, names sets.Set[string]) {
	names = sets.New[string]()
	for _, x := range m.member {
		for _, has := range which {
			if x.group == key && has(x) {
				members = append(members, x)
				names.Insert(x.name)
				break
			}
		}
	}
	return members, names
}

// pick draws a member that has a property, and skips the step if there is none.
func (m *model) pick(t *rapid.T, which func(*modelMember) bool) *modelMember {
	var of []*modelMember
	for _, x := range m.member {
		if which(x) {
			of = append(of, x)
		}
	}
	if len(of) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(of).Draw(t, "member")
}

func uids(members []*modelMember) (out []types.UID) {
	for _, x := range members {
		out = append(out, x.uid)
	}
	return out
}

func (m *model) remove(gone ...*modelMember) {
	drop := sets.New(gone...)
	kept := m.member[:0:0]
	for _, x := range m.member {
		if !drop.Has(x) {
			kept = append(kept, x)
		}
	}
	m.member = kept
}

// join has a pod join that is new, is tried again, or replaces one of its name.
func (m *model) join(t *rapid.T) {
	key, name := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"), rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "name")
	x := &modelMember{group: key, name: name, uid: types.UID(fmt.Sprint(key, name, rapid.IntRange(0, 1).Draw(t, "uid")))}
	if sets.New(uids(m.member)...).Has(x.uid) {
		t.Skip("it is a member")
	}
	before, _ := m.in(key, waits)
	_, prepared := m.in(key, reserved)
	others := m.bound[key].Union(prepared)
	m.member = append(m.member, x)

	_, sure := m.in(key, waits, committed)
	_, unsure := m.in(key, open, failed)
	certain := sure.Union(others.Difference(unsure))
	_, possible := m.in(key, open)
	wantComplete := certain.Union(possible).Len() >= m.size[key]
	allowed, complete := m.g.Join(key, name, x.uid, others, m.size[key])
	require.Equal(t, wantComplete, complete, "complete: %v, possible: %v", certain, possible)
	if !complete {
		require.Empty(t, allowed)
		return
	}
	require.ElementsMatch(t, uids(before), allowed)
	bound := slices.Concat(before, []*modelMember{x})
	if certain.Len() < m.size[key] {
		with, _ := m.in(key, open)
		bound = append(bound, with...)
	}
	b := &modelBatch{size: len(bound)}
	for _, y := range bound {
		if y.batch = b; y.reserved {
			b.prepared++
		}
	}
}

// prepare has a member prepared, perhaps when its time is over.
func (m *model) prepare(t *rapid.T) {
	x := m.pick(t, func(x *modelMember) bool { return x.batch != nil && x.result == nil })
	ctx, cancel := context.WithCancelCause(m.ctx)
	x.result, x.cancel = make(chan error, 1), cancel
	if rapid.IntRange(0, 9).Draw(t, "over") == 0 {
		cancel(errOver)
		x.batch.fail(errOver)
	} else {
		x.reserved = true
		x.batch.prepared++
	}
	if b := x.batch; !b.decided && b.prepared == b.size {
		b.decided, b.committed = true, true
		_, names := m.in(x.group, committed)
		require.GreaterOrEqual(t, names.Union(m.ever[x.group]).Len(), m.size[x.group], "no group is bound in part")
	}
	m.running = append(m.running, x)
	go func() { x.result <- m.g.Prepared(ctx, x.group, x.uid, valid) }()
}

// expire ends the time of a member that waits for others to be prepared.
func (m *model) expire(t *rapid.T) {
	x := m.pick(t, func(x *modelMember) bool { return open(x) && x.result != nil })
	x.cancel(errOver)
	x.batch.fail(errOver)
}

// leave has any member leave, bound or not.
func (m *model) leave(t *rapid.T) {
	m.leaves(t, m.pick(t, func(*modelMember) bool { return true }))
}

func (m *model) leaves(t *rapid.T, x *modelMember) {
	m.remove(x)
	var with []*modelMember
	if x.batch == nil {
		with, _ = m.in(x.group, waits)
	} else {
		x.batch.fail(ErrAborted)
	}
	done, aborted := m.g.Leave(x.group, x.uid)
	require.Equal(t, committed(x), done)
	require.ElementsMatch(t, uids(with), aborted)
	m.remove(with...)
	if done {
		m.bound[x.group].Insert(x.name)
		m.ever[x.group].Insert(x.name)
	}
	for _, gone := range append(with, x) { // each calls it itself when it gives its node back, and may call it twice
		done, aborted = m.g.Leave(gone.group, gone.uid)
		require.False(t, done)
		require.Empty(t, aborted)
	}
}

// settle has a bound member of a group appear, or end.
func (m *model) settle(t *rapid.T) {
	key, name := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"), rapid.SampledFrom([]string{"a", "b", "y", "z"}).Draw(t, "name")
	if m.bound[key].Has(name) {
		m.bound[key].Delete(name)
		return
	}
	m.bound[key].Insert(name)
	m.ever[key].Insert(name)
}

// check requires that Prepared has returned where the batch is decided, and only there.
func (m *model) check(t *rapid.T) {
	synctest.Wait()
	var running []*modelMember
	for _, x := range m.running {
		select {
		case err := <-x.result:
			require.True(t, x.batch.decided, "pod %s: %v", x.uid, err)
			require.Equal(t, x.batch.err, err)
		default:
			require.False(t, x.batch.decided, "pod %s waits", x.uid)
			running = append(running, x)
		}
	}
	m.running = running
	keys := sets.New[string]()
	for _, x := range m.member {
		keys.Insert(x.group)
		require.Contains(t, m.g.of[x.group], x.uid)
		require.Equal(t, x.batch == nil || x.batch.size == 1, m.g.Alone(x.group, x.uid))
	}
	require.Equal(t, keys, sets.KeySet(m.g.of))
	count := 0
	for _, of := range m.g.of {
		count += len(of)
	}
	require.Len(t, m.member, count)
}

// A group is bound together or not at all, whatever its members do, and leaves nothing behind.
func TestGroupsAreAsTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// All properties are in one bubble, so that a failure is reduced; there the deadline of the test must not be read.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel() // what waits after a failure ends
			m := newModel(ctx, rt)
			rt.Repeat(map[string]func(*rapid.T){
				"join": m.join, "join another": m.join, "prepare": m.prepare, "prepare another": m.prepare,
				"expire": m.expire, "leave": m.leave, "settle": m.settle, "": m.check,
			})
			for len(m.member) > 0 {
				m.leaves(rt, m.member[0])
			}
			m.check(rt)
			require.Empty(rt, m.running)
			require.Empty(rt, m.g.of)
		})
	})
}

// crowd is the pods of a group, each in a goroutine of its own as in the scheduler.
type crowd struct {
	g    *Groups
	key  string
	size int

	mu sync.Mutex
	// allowed receives whether a pod that waits may continue.
	allowed map[types.UID]chan bool
	// prepared are the pods that are, without those that returned an error.
	prepared sets.Set[types.UID]
}

// tell answers pods as the framework does: a pod that has an answer gets no other, also if that was for an earlier attempt.
func (c *crowd) tell(pods []types.UID, allow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range pods {
		select {
		case c.allowed[uid] <- allow:
		default:
		}
	}
}

// try has a pod join, be prepared and leave, and fail in between on request. It returns whether the pod is bound.
func (c *crowd) try(ctx context.Context, t *testing.T, uid types.UID, fails string) bool {
	t.Helper()
	answer := make(chan bool, 1)
	c.mu.Lock()
	c.allowed[uid] = answer
	c.mu.Unlock()
	leave := func() bool {
		committed, aborted := c.g.Leave(c.key, uid)
		c.tell(aborted, false)
		return committed
	}
	allowed, complete := c.g.Join(c.key, string(uid), uid, nil, c.size)
	c.tell(allowed, true)
	if !complete && fails == "while waiting" {
		return leave()
	}
	if !complete && !<-answer || fails == "before it is prepared" {
		return leave()
	}
	c.mu.Lock()
	c.prepared.Insert(uid)
	c.mu.Unlock()
	if fails == "while it is prepared" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Microsecond)
		defer cancel()
	}
	err := c.g.Prepared(ctx, c.key, uid, valid)
	c.mu.Lock()
	if err == nil {
		assert.Len(t, c.prepared, c.size, "all of the group are prepared when one is bound")
	} else {
		c.prepared.Delete(uid)
	}
	c.mu.Unlock()
	assert.Equal(t, err == nil, leave())
	return err == nil
}

func TestManyGroupsAtOnce(t *testing.T) {
	t.Parallel()
	const groups, size = 20, 8
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g := New()
	var pods sync.WaitGroup
	for i := range groups {
		c := &crowd{g: g, key: fmt.Sprint("g", i), size: size, allowed: map[types.UID]chan bool{}, prepared: sets.New[types.UID]()}
		for j := range size {
			pods.Go(func() {
				uid := types.UID(fmt.Sprint(c.key, "-", j))
				for _, fails := range []string{"while waiting", "before it is prepared", "while it is prepared"} {
					if (i+j)%3 == 0 && c.try(ctx, t, uid, fails) {
						return
					}
				}
				for !c.try(ctx, t, uid, "") {
					if !assert.NoError(t, ctx.Err(), "the group is bound in time") {
						return
					}
				}
			})
		}
	}
	pods.Wait()
	assert.Empty(t, g.of)
}
