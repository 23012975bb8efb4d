// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/test/plugintest"
)

var byZone = []string{corev1.LabelTopologyZone}

// quarantineOf is a Quarantine of a ledger with one spot node for each zone, which has the name of its node.
func quarantineOf(t *testing.T, zones ...string) *Quarantine {
	t.Helper()
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	l := ledger.New(classifier, byZone)
	for _, zone := range zones {
		l.SetNode(plugintest.Node(zone, "spot"))
	}
	return NewQuarantine(l, byZone, clock.RealClock{}, klog.Background())
}

// quarantined are the nodes that the ledger avoids.
func quarantined(q *Quarantine) (names []string) {
	for n := range q.ledger.Nodes() {
		if n.Quarantined {
			names = append(names, n.Name())
		}
	}
	return names
}

// interrupted is the text of a table in which the only node of each zone was interrupted, with a quarantine of so many minutes.
func interrupted(t *testing.T, minutes map[string]int) string {
	t.Helper()
	table := interruptions.Table{Keys: byZone}
	for zone, m := range minutes {
		table, _ = table.Observe(interruptions.Interruption{Node: zone, Domain: zone}, time.Now(), interruptions.Settings{
			SharePercent: 20, Quarantine: time.Duration(m) * time.Minute, Longest: time.Hour,
		})
	}
	text, err := table.Encode()
	require.NoError(t, err)
	return text
}

func TestTheLedgerAvoidsADomainUntilTheEndOfItsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quarantineOf(t, "a", "b", "c")
		q.Set(interrupted(t, map[string]int{"a": 10, "b": 20}))
		assert.ElementsMatch(t, []string{"a", "b"}, quarantined(q))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"b"}, quarantined(q))
		q.Set(interrupted(t, map[string]int{"b": 30})) // longer than before
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"b"}, quarantined(q))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		assert.Empty(t, quarantined(q))
	})
}

// The scheduling queue has no event for the beginning and the end of a quarantine.
func TestPodsThatAQuarantineRefusedAreWokenAtItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quarantineOf(t, "a", "b", "c")
		var woken []string
		q.Wake = func(namespace string) { woken = append(woken, namespace) }
		expect := func(namespaces ...string) {
			t.Helper()
			synctest.Wait()
			assert.ElementsMatch(t, namespaces, woken)
			woken = nil
		}
		q.Set(interrupted(t, map[string]int{"a": 10}))
		q.Refused("shop", q.ledger.QuarantineChanges(), false)
		q.Refused("shop", q.ledger.QuarantineChanges(), false)
		q.Refused("bank", q.ledger.QuarantineChanges(), false)
		q.Set(interrupted(t, map[string]int{"a": 10}))
		expect()
		time.Sleep(time.Minute)
		q.Set(interrupted(t, map[string]int{"a": 10}))
		expect() // it ends later, and refuses the same nodes
		before := q.ledger.QuarantineChanges()
		q.Set(interrupted(t, map[string]int{"a": 10, "b": 20}))
		expect("bank", "shop")
		q.Refused("late", before, false)
		expect("late")
		q.Refused("shop", q.ledger.QuarantineChanges(), false)
		time.Sleep(10*time.Minute + time.Second)
		expect("shop")
		time.Sleep(10 * time.Minute)
		expect()
	})
}

// The last node that a pod could use may be lost, and the domains in quarantine are what is left to it then.
func TestPodsThatAQuarantineRefusedAreWokenAtTheLossOfANode(t *testing.T) {
	q := quarantineOf(t, "a", "b", "c")
	var woken []string
	q.Wake = func(namespace string) { woken = append(woken, namespace) }
	s := &State{Ledger: q.ledger, Quarantine: q}
	q.Set(interrupted(t, map[string]int{"a": 10}))
	before := q.ledger.QuarantineChanges()
	q.Refused("shop", before, false)
	s.NodeHandler().OnDelete(plugintest.Node("a", "spot"))
	s.NodeHandler().OnAdd(plugintest.Node("d", "spot"), false)
	assert.Empty(t, woken, "a node in quarantine, and a new one")
	s.NodeHandler().OnDelete(plugintest.Node("b", "spot"))
	assert.Equal(t, []string{"shop"}, woken)
	cordoned := plugintest.Node("c", "spot")
	cordoned.Spec.Unschedulable = true
	q.Refused("bank", q.ledger.QuarantineChanges(), false)
	s.NodeHandler().OnUpdate(plugintest.Node("c", "spot"), cordoned)
	assert.Equal(t, []string{"shop", "bank"}, woken)
	q.Refused("late", before, false)
	assert.Equal(t, []string{"shop", "bank", "late"}, woken, "it was tried before")
}

func TestATextThatCannotBeReadEndsAllQuarantines(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "no JSON": "{", "too long": fmt.Sprintf("%300000d", 1)} {
		t.Run(name, func(t *testing.T) {
			q := quarantineOf(t, "a", "b")
			q.Set(interrupted(t, map[string]int{"a": 10}))
			require.NotEmpty(t, quarantined(q))
			q.Set(text)
			assert.Empty(t, quarantined(q))
		})
	}
}

func TestTheConfigMapOfTheControllerIsWatched(t *testing.T) {
	q := quarantineOf(t, "a", "b")
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: interruptions.ConfigMap},
		Data:       map[string]string{interruptions.DataKey: interrupted(t, map[string]int{"a": 10})},
	}
	client := fake.NewClientset(cm)
	metrics.QuarantinedDomains.Reset()
	require.NoError(t, q.Watch(t.Context(), client, "berth-system"))
	require.Eventually(t, func() bool { return len(quarantined(q)) == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, client.CoreV1().ConfigMaps("berth-system").Delete(t.Context(), cm.Name, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return len(quarantined(q)) == 0 }, 10*time.Second, time.Millisecond)
}

// What others put into the object is not kept.
func TestOnlyTheTableIsKept(t *testing.T) {
	kept, err := keepInterruptions(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Data:       map[string]string{interruptions.DataKey: "text", "other": "large"},
		BinaryData: map[string][]byte{"large": nil},
	})
	require.NoError(t, err)
	assert.Equal(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{interruptions.DataKey: "text"},
	}, kept)
}

func TestTheMetricIsAbsentUntilTheInterruptionsWereRead(t *testing.T) {
	metrics.Register()
	series := func() (n int) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "berth_scheduler_quarantined_domains" {
				n = len(f.GetMetric())
			}
		}
		return n
	}
	metrics.QuarantinedDomains.Reset()
	client := fake.NewClientset()
	refused := true
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), interruptions.ConfigMap, nil)
	})
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, quarantineOf(t, "a").Watch(ctx, client, "berth-system"))
	require.Eventually(t, func() bool { return len(client.Actions()) > 0 }, 10*time.Second, time.Millisecond)
	assert.Zero(t, series(), "unknown is not 0")
	cancel()

	require.NoError(t, quarantineOf(t, "a").Watch(t.Context(), fake.NewClientset(), "berth-system"))
	require.Eventually(t, func() bool { return series() == 1 }, 10*time.Second, time.Millisecond, "there is no object")
}

func TestAnErrorIsLoggedAgainAfterASuccess(t *testing.T) {
	q := quarantineOf(t, "a")
	logged := 0
	q.logger = funcr.New(func(string, string) { logged++ }, funcr.Options{})
	for _, text := range []string{"{", "{", interrupted(t, map[string]int{"a": 10}), "{"} {
		q.Set(text)
	}
	assert.Equal(t, 2, logged)
	q.keys = []string{corev1.LabelInstanceTypeStable}
	q.Set(interrupted(t, map[string]int{"a": 10}))
	assert.Equal(t, 3, logged, "the controller has other keys")
	assert.Empty(t, quarantined(q))
}
