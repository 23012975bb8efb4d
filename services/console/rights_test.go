// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pages "berth.dev/berth/internal/console"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/services/server"
)

func TestUsersWithTheSameRightsShareAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namespace := rapid.SampledFrom([]string{"", "shop"}).Draw(t, "namespace")
		defaults := rapid.SampledFrom([][]string{nil, {"limits"}, {"limits", "shop"}}).Draw(t, "defaults")
		all := listingsOf(namespace, defaults)
		granted := map[string]map[listing]bool{"alice": {}, "bob": {}}
		for name, of := range granted {
			for i, l := range all {
				of[l] = rapid.Bool().Draw(t, fmt.Sprint(name, i))
			}
		}
		r := newReviewer(func(_ context.Context, u user.Info, a server.Access) (bool, error) {
			require.Equal(t, "list", a.Verb)
			for _, l := range all {
				if l.kind.resource == a.Resource && l.kind.group == a.Group && l.namespace == a.Namespace {
					return granted[u.GetName()][l], nil
				}
			}
			require.Fail(t, "it is not listed", "%v", a)
			return false, nil
		}, defaults, testingclock.NewFakePassiveClock(epoch))
		of := map[string]rights{}
		for name := range granted {
			var err error
			of[name], err = r.of(context.Background(), named(name), namespace)
			require.NoError(t, err)
			for l, is := range granted[name] {
				require.Equal(t, is, of[name].of(all)[l])
			}
		}
		same := true
		for _, l := range all {
			same = same && granted["alice"][l] == granted["bob"][l]
		}
		require.Equal(t, same, of["alice"] == of["bob"])
	})
}

func TestRightsCountForAMomentOnly(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	var reviews atomic.Int32
	answer := errors.New("the API server is away")
	r := newReviewer(func(context.Context, user.Info, server.Access) (bool, error) {
		reviews.Add(1)
		return true, answer
	}, nil, clock)
	_, err := r.of(t.Context(), named("alice"), "shop")
	require.ErrorIs(t, err, answer)
	answer = nil
	for range 10 {
		_, err := r.of(t.Context(), named("alice"), "shop")
		require.NoError(t, err, "no error is cached")
	}
	n := reviews.Load()
	_, err = r.of(t.Context(), &user.DefaultInfo{Name: "alice", Groups: []string{"ops"}}, "shop")
	require.NoError(t, err)
	assert.Greater(t, reviews.Load(), n, "in other groups, she is another user")
	n = reviews.Load()
	clock.SetTime(epoch.Add(rightsTTL + time.Millisecond))
	_, err = r.of(t.Context(), named("alice"), "shop")
	require.NoError(t, err)
	assert.Greater(t, reviews.Load(), n)
	assert.LessOrEqual(t, rightsTTL+followInterval, 4*time.Second, "a change shows within 5 s")
}

// objectsOf lists pods, as the cache of controller-runtime does.
type objectsOf []corev1.Pod

func (o objectsOf) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.ErrUnsupported
}

func (o objectsOf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	given := (&client.ListOptions{}).ApplyOptions(options)
	pods := list.(*corev1.PodList)
	for i := range o {
		if given.Limit > 0 && len(pods.Items) == int(given.Limit) {
			break
		}
		pods.Items = append(pods.Items, o[i])
	}
	pods.Continue = "continue-not-supported"
	return nil
}

func TestAReaderListsWhatIsGrantedAndAllOfIt(t *testing.T) {
	pods := kindOf(&corev1.PodList{})
	r := &reader{objects: make(objectsOf, 1200), granted: map[listing]bool{{pods, "shop"}: true}}
	var list corev1.PodList
	require.NoError(t, r.List(t.Context(), &list, client.InNamespace("shop"), client.Limit(500)))
	assert.Len(t, list.Items, 1200)
	assert.Empty(t, list.Continue, "who lists page by page would never end")

	err := r.List(t.Context(), &corev1.PodList{})
	assert.True(t, apierrors.IsForbidden(err))
	assert.ErrorContains(t, err, `pods is forbidden: cannot list resource "pods" in API group "" at the cluster scope`)
	err = r.List(t.Context(), &corev1.PodList{}, client.InNamespace("bank"))
	assert.ErrorContains(t, err, `in the namespace "bank"`)
	assert.True(t, apierrors.IsForbidden(r.List(t.Context(), &corev1.NodeList{}, client.InNamespace("shop"))))
	assert.True(t, apierrors.IsForbidden(r.List(t.Context(), &corev1.SecretList{}, client.InNamespace("shop"))), "a kind that no page shows")
	assert.True(t, apierrors.IsForbidden(r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &corev1.Pod{})))
	assert.NoError(t, r.List(t.Context(), &policyv1.PodDisruptionBudgetList{}), "none are needed")
}

func readings(t *testing.T, most int) (*hubs, *testingclock.FakePassiveClock) {
	clock := testingclock.NewFakePassiveClock(epoch)
	return &hubs{ctx: t.Context(), most: server.NewLimit("console.limits.readings", most), clock: clock, all: map[key]*hub{}, make: func(key) *pages.Console {
		return pages.New(pages.Options{Source: nothing{}, Interval: time.Hour})
	}}, clock
}

type nothing struct{}

func (nothing) Read(context.Context) (*overview.Reading, error) { return nil, errors.ErrUnsupported }

func TestReadingsAreBounded(t *testing.T) {
	h, clock := readings(t, 2)
	running := h.ctx
	h.ctx = nil
	_, _, err := h.take(key{"a", 1}, "alice")
	require.ErrorIs(t, err, errNotRunning)
	h.ctx = running
	take := func(k key, user string) (*pages.Console, func()) {
		found, release, err := h.take(k, user)
		require.NoError(t, err)
		return found, release
	}
	one, release := take(key{"a", 1}, "alice")
	again, releaseAgain := take(key{"a", 1}, "bob")
	assert.Same(t, one, again, "users with the same rights share it")
	other, releaseOther := take(key{"a", 2}, "carol")
	assert.NotSame(t, one, other)
	_, _, err = h.take(key{"b", 1}, "dora")
	require.ErrorContains(t, err, "console.limits.readings is 2")
	release()
	_, _, err = h.take(key{"b", 1}, "dora")
	require.Error(t, err, "one is still used")
	releaseAgain()
	_, releaseB := take(key{"b", 1}, "dora")
	require.Contains(t, h.all, key{"a", 2})
	require.NotContains(t, h.all, key{"a", 1})
	releaseOther()
	releaseB()
	clock.SetTime(epoch.Add(keepReading + time.Second))
	h.sweep()
	assert.Empty(t, h.all)
}

// A user who names namespaces that do not exist, or many that do, leaves readings for the others.
func TestAUserHasAShareOfTheReadings(t *testing.T) {
	h, _ := readings(t, 16)
	for i := range 80 { // 8 sessions with 10 pages each
		_, release, err := h.take(key{fmt.Sprint("none-", i), 0}, "mallory")
		require.NoError(t, err)
		defer release()
	}
	assert.Empty(t, h.all, "what shows nothing is not kept")
	for i := range 80 {
		_, release, err := h.take(key{fmt.Sprint("some-", i), 1}, "mallory")
		if i < 4 {
			require.NoError(t, err)
			defer release()
			continue
		}
		require.ErrorContains(t, err, "readings of one user")
	}
	for i := range 12 {
		_, release, err := h.take(key{fmt.Sprint("team-", i), 1}, fmt.Sprint("user-", i))
		require.NoError(t, err)
		defer release()
	}
}

func TestAReadingOfAUserGivesWayToTheNextOfThatUser(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, clock := readings(t, 8)
		_, keep, err := h.take(key{"kept", 1}, "alice")
		require.NoError(rt, err)
		keep()
		for i := range rapid.IntRange(0, 40).Draw(rt, "visits") {
			clock.SetTime(clock.Now().Add(time.Second))
			_, release, err := h.take(key{fmt.Sprint("ns-", rapid.IntRange(0, 9).Draw(rt, "namespace")), 1}, "mallory")
			require.NoError(rt, err, "visit %d", i)
			release()
			require.LessOrEqual(rt, h.count("mallory"), h.perUser())
			require.Contains(rt, h.all, key{"kept", 1}, "another user's reading stays")
		}
		for k := range h.all {
			h.drop(k)
		}
	})
}
