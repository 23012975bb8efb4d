// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/test/plugintest"
)

var byZone = []string{corev1.LabelTopologyZone}

// server keeps one ConfigMap as an API server does.
type server struct {
	*fake.Clientset
	object *corev1.ConfigMap
	// writes are those of data.
	writes, created, version int
	// onRead is called after the next read.
	onRead func()
	// refuse is the answer to the next writes, lost makes them take effect nevertheless.
	refuse error
	lost   bool
}

func newServer() *server {
	s := &server{Clientset: fake.NewClientset()}
	s.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if f := s.onRead; f != nil {
			s.onRead = nil
			defer f()
		}
		if s.object == nil {
			return true, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), "interruptions")
		}
		return true, s.object.DeepCopy(), nil
	})
	s.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if s.refuse != nil && !s.lost {
			return true, nil, s.refuse
		}
		var o corev1.ConfigMap
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &o); err != nil {
			return true, nil, err
		}
		if !s.apply(&o) {
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), "interruptions", nil)
		}
		return true, s.object.DeepCopy(), s.refuse
	})
	return s
}

// apply does as server-side apply does: without a version it has no precondition but the UID, and it keeps the data of others.
func (s *server) apply(o *corev1.ConfigMap) bool {
	before := s.object
	switch {
	case before == nil && o.UID != "", before != nil && o.UID != "" && o.UID != before.UID,
		before != nil && o.ResourceVersion != "" && o.ResourceVersion != before.ResourceVersion:
		return false
	case before == nil:
		s.created++
		before = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("uid-", s.created))}}
	}
	s.version++
	s.object = before.DeepCopy()
	s.object.ResourceVersion = fmt.Sprint(s.version)
	if o.Data != nil {
		s.object.Data = o.Data
		s.writes++
	}
	return true
}

// fixture is a controller of a cluster with six spot nodes in each of the zones a, b and c.
type fixture struct {
	*Controller
	server *server
	synced atomic.Bool
}

func newFixture(t *testing.T, s *server) *fixture {
	t.Helper()
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	f := &fixture{server: s}
	f.synced.Store(true)
	st := clusterstate.New(clusterstate.Options{
		Classifier: classifier, SpreadSpotOver: byZone,
		NodeLeft: func(d clusterstate.Departure) { f.NodeLeft(d) },
	})
	f.Controller = New(Options{
		State: st, Client: s, Clock: clock.RealClock{}, Synced: func() (string, bool) { return "", f.synced.Load() },
		ConfigMap: types.NamespacedName{Namespace: "berth-system", Name: "berth-controller-interruptions"}, Keys: byZone,
		Settings: interruptions.Settings{SharePercent: 20, Quarantine: 10 * time.Minute, Longest: time.Hour},
	})
	for _, zone := range []string{"a", "b", "c"} {
		for i := range 6 {
			st.SetNode(spot(zone, i))
		}
	}
	return f
}

// spot is a spot node of a zone.
func spot(zone string, i int, changes ...func(*corev1.Node)) *corev1.Node {
	n := plugintest.Node(fmt.Sprint(zone, i), "spot")
	n.UID, n.Labels[corev1.LabelTopologyZone] = types.UID(n.Name), zone
	for _, change := range changes {
		change(n)
	}
	return n
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

const notice = "aws-node-termination-handler/spot-itn"

// lead runs the controller as the leader until it has nothing to do, and returns how that ends.
func (f *fixture) lead(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, f.Start(ctx))
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

// read is the table in the ConfigMap.
func (s *server) read(t *testing.T) interruptions.Table {
	t.Helper()
	if s.object == nil {
		return interruptions.Table{Keys: byZone}
	}
	table, err := interruptions.Decode(s.object.Data[interruptions.DataKey], byZone, time.Now())
	require.NoError(t, err)
	return table
}

// count is how many interruptions the ConfigMap has of a zone.
func (s *server) count(t *testing.T, zone string) int {
	t.Helper()
	table := s.read(t)
	d := table.Find(zone)
	if d == nil {
		return 0
	}
	return int(d.Thousandths(time.Now())+500) / 1000
}

func TestANoticeOfTheProviderIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		require.Zero(t, testutil.CollectAndCount(f), "unknown is not 0")
		defer f.lead(t)()
		require.Zero(t, f.server.writes, "nothing was interrupted")
		before := testutil.ToFloat64(interrupted.WithLabelValues("aws-spot-interruption"))
		f.State.SetNode(spot("a", 0, tainted(notice)))
		synctest.Wait()
		assert.Equal(t, 1, f.server.count(t, "a"))
		assert.Zero(t, testutil.ToFloat64(f), "1 of 6")
		f.State.SetNode(spot("a", 1, tainted(notice)))
		synctest.Wait()
		assert.Equal(t, 2, f.server.count(t, "a"))
		assert.InDelta(t, 1, testutil.ToFloat64(f), 0, "2 of 6")
		assert.InDelta(t, before+2, testutil.ToFloat64(interrupted.WithLabelValues("aws-spot-interruption")), 0)
		time.Sleep(17 * time.Minute)
		assert.Zero(t, testutil.ToFloat64(f), "it is over")
		assert.Equal(t, 2, f.server.writes, "a write for each interruption, and none for the time")
	})
}

func TestTheQuarantineIsThatOfTheConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		assert.Nil(t, f.Quarantine(t.Context()), "nothing was read")
		defer f.lead(t)()
		reads := func() (n int) {
			for _, a := range f.server.Actions() {
				if a.GetVerb() == "get" {
					n++
				}
			}
			return n
		}
		before := reads()
		assert.Nil(t, f.Quarantine(t.Context()))
		assert.Equal(t, before, reads(), "nothing is read for no quarantine")
		f.State.SetNode(spot("a", 0, tainted(notice)))
		f.State.SetNode(spot("a", 1, tainted(notice)))
		synctest.Wait()
		q := f.Quarantine(t.Context())
		require.NotNil(t, q)
		_, refused := q.Refuse(spot("a", 2).Labels)
		assert.True(t, refused)
		_, refused = q.Refuse(spot("b", 2).Labels)
		assert.False(t, refused)

		whole := f.server.object
		f.server.object = nil
		assert.Nil(t, f.Quarantine(t.Context()), "who deletes it ends all quarantines")
		f.server.object = whole
		f.server.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("away")
		})
		assert.NotNil(t, f.Quarantine(t.Context()), "what was counted applies")
		time.Sleep(time.Hour)
		assert.Nil(t, f.Quarantine(t.Context()), "it is over")
	})
}

func TestWhatOthersTakeAwayIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		defer f.lead(t)()
		cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
		f.State.SetNode(spot("a", 0, tainted("ToBeDeletedByClusterAutoscaler")))
		f.State.SetNode(spot("a", 1, tainted("karpenter.sh/disrupted")))
		f.State.SetNode(spot("a", 2, cordon))
		f.State.DeleteNode("a2")
		f.State.DeleteNode("a3")
		drained := func(n *corev1.Node) {
			cordon(n)
			n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] = "aws-node-termination-handler"
		}
		f.State.SetNode(spot("b", 0, drained)) // for the scale-in of its group, or for an interruption
		f.State.DeleteNode("b0")
		f.State.SetNode(spot("b", 1, drained))
		f.State.SetNode(spot("b", 1, drained, func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }))
		f.State.SetNode(spot("a", 4, tainted(corev1.TaintNodeOutOfService)))
		f.State.SetNode(spot("a", 5, cordon, func(n *corev1.Node) { n.Annotations = map[string]string{"berth.dev/drain": ""} }))
		onDemand := plugintest.Node("o", "on-demand")
		f.State.SetNode(onDemand)
		tainted(notice)(onDemand)
		f.State.SetNode(onDemand)
		nowhere := plugintest.Node("n", "spot")
		delete(nowhere.Labels, corev1.LabelTopologyZone)
		f.State.SetNode(nowhere)
		nowhere = nowhere.DeepCopy()
		tainted(notice)(nowhere)
		f.State.SetNode(nowhere)
		synctest.Wait()
		assert.Zero(t, f.server.writes, "%v", f.server.object)
	})
}

// The notice may come while nobody leads, and the node may be gone when somebody does.
func TestANodeIsCountedOnceByLeadersThatFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first, second := newFixture(t, s), newFixture(t, s)
		both := func(n *corev1.Node) {
			first.State.SetNode(n)
			second.State.SetNode(n)
		}
		end := first.lead(t)
		both(spot("a", 0, tainted(notice)))
		synctest.Wait()
		end()
		both(spot("a", 1, tainted(notice)))
		both(spot("a", 2, tainted(notice)))
		second.State.DeleteNode("a2")
		end = second.lead(t)
		assert.Equal(t, 3, s.count(t, "a"))
		end()
		third := newFixture(t, s) // lists the nodes that depart
		for i := range 2 {
			third.State.DeleteNode(fmt.Sprint("a", i))
			third.State.SetNode(spot("a", i, tainted(notice)))
		}
		third.State.DeleteNode("b0")
		third.State.SetNode(spot("b", 0, tainted(notice)))
		third.waiting = nil
		end = third.lead(t)
		defer end()
		assert.Equal(t, 3, s.count(t, "a"), "they were counted")
		assert.Equal(t, 1, s.count(t, "b"), "nobody counted it")
	})
}

func TestAWriteThatFailsIsRepeated(t *testing.T) {
	for name, lost := range map[string]bool{"it had no effect": false, "its answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, newServer())
				defer f.lead(t)()
				f.server.refuse, f.server.lost = errors.New("no answer"), lost
				f.State.SetNode(spot("a", 0, tainted(notice)))
				synctest.Wait()
				f.server.refuse = nil
				f.State.SetNode(spot("a", 1, tainted(notice)))
				time.Sleep(2 * retryAfter)
				synctest.Wait()
				assert.Equal(t, 2, f.server.count(t, "a"))
			})
		})
	}
}

// A leader that another one has followed must not undo what that one counted.
func TestWhatAnotherLeaderCountedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		old, current := newFixture(t, s), newFixture(t, s)
		defer old.lead(t)()
		old.State.SetNode(spot("a", 0, tainted(notice)))
		synctest.Wait()
		defer current.lead(t)()
		current.State.SetNode(spot("b", 0, tainted(notice)))
		synctest.Wait()
		old.State.SetNode(spot("c", 0, tainted(notice)))
		time.Sleep(2 * retryAfter)
		synctest.Wait()
		for _, zone := range []string{"a", "b", "c"} {
			assert.Equal(t, 1, s.count(t, zone), zone)
		}
	})
}

func TestATableThatCannotBeReadIsWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Data: map[string]string{interruptions.DataKey: "{"}}
		f := newFixture(t, s)
		defer f.lead(t)()
		f.State.SetNode(spot("a", 0, tainted(notice)))
		synctest.Wait()
		assert.Equal(t, 1, s.count(t, "a"))
	})
}

func TestNothingIsCountedBeforeTheStateIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		f.synced.Store(false)
		f.State.SetNode(spot("a", 0, tainted(notice)))
		defer f.lead(t)()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, f.server.writes)
		f.synced.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 1, f.server.count(t, "a"))
	})
}

func TestStandbysKeepFewNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		for i := range 2 * maxWaiting {
			f.NodeLeft(clusterstate.Departure{UID: types.UID(fmt.Sprint(i)), Type: capacity.Spot, Notice: "x", Domain: "a"})
		}
		assert.Len(t, f.waiting, maxWaiting)
		time.Sleep(maxAge + time.Second)
		f.NodeLeft(clusterstate.Departure{UID: "last", Type: capacity.Spot, Notice: "x", Domain: "a"})
		assert.Len(t, f.waiting, 1)
	})
}

func TestTheTableThatWasDeletedDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		f := newFixture(t, s)
		defer f.lead(t)()
		f.State.SetNode(spot("a", 0, tainted(notice)))
		synctest.Wait()
		require.Equal(t, 1, s.count(t, "a"))
		s.object = nil // an administrator ends all quarantines
		f.State.SetNode(spot("b", 0, tainted(notice)))
		time.Sleep(2 * retryAfter)
		synctest.Wait()
		assert.Zero(t, s.count(t, "a"))
		assert.Equal(t, 1, s.count(t, "b"))
	})
}

func TestTheFirstWriteKeepsWhatAnotherLeaderWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		table := interruptions.Table{Keys: byZone}
		table, _ = table.Observe(interruptions.Interruption{Node: "x", Domain: "a"}, time.Now(), interruptions.Settings{})
		text, err := table.Encode()
		require.NoError(t, err)
		s.onRead = func() { s.apply(&corev1.ConfigMap{Data: map[string]string{interruptions.DataKey: text}}) }
		f := newFixture(t, s)
		f.State.SetNode(spot("b", 0, tainted(notice)))
		defer f.lead(t)()
		time.Sleep(2 * retryAfter)
		synctest.Wait()
		assert.Equal(t, 1, s.count(t, "a"))
		assert.Equal(t, 1, s.count(t, "b"))
	})
}

func TestALeaderKeepsWhatItCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		defer f.lead(t)()
		f.server.refuse = errors.New("no answer")
		f.State.SetNode(spot("a", 0, tainted(notice)))
		time.Sleep(2 * maxAge)
		synctest.Wait()
		f.server.refuse = nil
		f.State.SetNode(spot("a", 1, tainted(notice)))
		time.Sleep(maxRetryAfter)
		synctest.Wait()
		table := f.server.read(t)
		require.NotNil(t, table.Find("a"))
		assert.InDelta(t, 1900, table.Find("a").Thousandths(time.Now()), 50, "the first one counts less: it was ten minutes ago")
	})
}

func TestADryRunCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		f.SetDryRun(true)
		defer f.lead(t)()
		f.State.SetNode(spot("a", 0, tainted(notice)))
		time.Sleep(2 * maxAge)
		f.State.SetNode(spot("b", 0, tainted(notice)))
		synctest.Wait()
		require.Zero(t, f.server.writes)
		assert.Zero(t, testutil.ToFloat64(f), "what is in quarantine is known")
		f.SetDryRun(false)
		synctest.Wait()
		assert.Equal(t, 1, f.server.count(t, "b"), "it has just begun")
		assert.Zero(t, f.server.count(t, "a"), "it was ten minutes ago")
		f.SetDryRun(true)
		f.State.SetNode(spot("b", 1, tainted(notice)))
		synctest.Wait()
		assert.Equal(t, 1, f.server.writes)
	})
}

func TestANewLeaderCountsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newServer())
		f.State.SetNode(spot("a", 0, tainted(notice)))
		f.State.DeleteNode("a0")
		time.Sleep(maxAge + time.Second)
		defer f.lead(t)()
		assert.Zero(t, f.server.writes, "the leader at the time counted it")
	})
}

func TestQuarantinesEndByTheSettingsOfTheNextLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		quarantine, longest, after time.Duration
		writes                     int
	}{
		"the same": {10 * time.Minute, time.Hour, time.Hour, 1},
		"shorter":  {10 * time.Minute, time.Minute, time.Minute, 2},
		"none":     {0, time.Hour, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				first, second := newFixture(t, s), newFixture(t, s)
				end := first.lead(t)
				first.NodeLeft(clusterstate.Departure{UID: "x", Type: capacity.Spot, Notice: "x", Domain: "nowhere"})
				synctest.Wait()
				end()
				second.Settings.Quarantine, second.Settings.Longest = tc.quarantine, tc.longest
				defer second.lead(t)()
				table := s.read(t)
				names, until := table.Quarantined(time.Now())
				assert.Equal(t, tc.after > 0, len(names) == 1)
				if tc.after > 0 {
					assert.LessOrEqual(t, time.Until(until), tc.after)
				}
				assert.Equal(t, tc.writes, s.writes)
			})
		})
	}
}

func TestAnErrorIsLoggedOnce(t *testing.T) {
	logged := 0
	ctx := log.IntoContext(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
	var f failures
	var waits []time.Duration
	for range 6 {
		waits = append(waits, f.after(ctx, errors.New("no answer")))
	}
	assert.Equal(t, 1, logged)
	assert.Equal(t, []time.Duration{retryAfter, 2 * retryAfter, 4 * retryAfter, 8 * retryAfter, maxRetryAfter, maxRetryAfter}, waits)
	assert.Zero(t, f.after(ctx, nil))
	assert.Equal(t, retryAfter, f.after(ctx, errors.New("no answer")))
	assert.Equal(t, 2, logged)

	s := store{Options: &Options{}}
	for _, err := range []error{errors.New("bad"), errors.New("bad"), nil, errors.New("bad")} {
		s.report(ctx, err)
	}
	assert.Equal(t, 4, logged, "again after a success")
}
