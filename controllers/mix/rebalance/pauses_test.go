// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// pausesOf are pauses that were read, of a controller that they have reconcile.
func pausesOf(p *fixture) *Pauses {
	yes := func() bool { return true }
	q := NewPauses(nil, types.NamespacedName{Namespace: "berth-system", Name: "berth-controller-pause"}, p.Changed)
	q.listed[0], q.listed[1] = yes, yes
	p.Pauses = q
	return q
}

func pausedObject(o client.Object, name string) client.Object {
	o.SetName(name)
	o.SetAnnotations(map[string]string{v1alpha1.PausedAnnotation: "true", v1alpha1.PausedByAnnotation: "alice", "other": "x"})
	return o
}

func TestAPauseThatBeginsAndEndsHasItsWorkloadsReconciled(t *testing.T) {
	for name, set := range map[string]func(q *Pauses, gone bool){
		"namespace": func(q *Pauses, gone bool) { q.setNamespace(pausedObject(&corev1.Namespace{}, "shop"), gone) },
		"cluster":   func(q *Pauses, gone bool) { q.setCluster(pausedObject(&corev1.ConfigMap{}, "any"), gone) },
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := journaled(t, 3)
			q := pausesOf(p)
			set(q, false)
			p.reconcile(t, "shop")
			require.Empty(t, s.evicted)
			assert.Equal(t, rebalance.ReasonPaused, p.reasonOf(t, ""))
			set(q, false)
			assert.Equal(t, name == "cluster", p.queue.Busy(), "a namespace that is as before is nothing new")
			p.drain(t)
			set(q, true)
			p.drain(t)
			assert.NotEmpty(t, s.evicted)
		})
	}
}

func TestAnotherNamespaceIsNotPaused(t *testing.T) {
	p, s, _ := journaled(t, 3)
	q := pausesOf(p)
	q.setNamespace(pausedObject(&corev1.Namespace{}, "other"), false)
	p.reconcile(t, "shop")
	assert.NotEmpty(t, s.evicted)
}

func TestNothingIsMovedBeforeThePausesWereRead(t *testing.T) {
	p, s, _ := journaled(t, 3)
	q := pausesOf(p)
	q.listed[1] = nil
	p.reconcile(t, "shop")
	require.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonStartupGrace, p.reasonOf(t, ""))
	q.listed[1] = q.listed[0]
	q.changed(governing.GroupKey{})
	p.drain(t)
	assert.NotEmpty(t, s.evicted)
}

// A watch that broke may be behind by half a minute.
func TestAPauseThatTheWatchHasNotShownHoldsTheEviction(t *testing.T) {
	for name, x := range map[string]struct {
		kind   string
		failed error
		want   *rebalance.Reason
		words  string
	}{
		"the namespace":                {"Namespace", nil, rebalance.ReasonPaused, "moves are paused for namespace shop, by alice"},
		"the cluster":                  {"ConfigMap", nil, rebalance.ReasonPaused, "moves are paused for the cluster, by alice"},
		"the API server has no answer": {"", errors.New("away"), rebalance.ReasonCapacityUnproven, "away"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := journaled(t, 2)
			pausesOf(p)
			var read []string
			p.api.metadata = func(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
				read = append(read, kind.Kind+" "+namespace+"/"+name)
				o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
				switch kind.Kind {
				case "CapacityMix":
					cm, err := mixNamed(context.Background(), p.Reader, namespace, name)
					o.UID, o.Generation = cm.UID, cm.Generation
					return o, err
				case x.kind:
					pausedObject(o, name)
				}
				return o, x.failed
			}
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			e, _ := p.Workloads.Get(strayKey)
			require.NotEmpty(t, e.Held)
			for _, h := range e.Held {
				assert.Equal(t, x.want, h.Verdict.Reason)
				assert.Contains(t, h.Verdict.Message, x.words)
			}
			assert.Contains(t, read, "ConfigMap berth-system/berth-controller-pause")
		})
	}
}

func TestACacheKeepsOfANamespaceOnlyItsPause(t *testing.T) {
	for _, o := range []client.Object{&corev1.Namespace{}, &corev1.ConfigMap{}} {
		kept, err := keepPause(pausedObject(o, "shop"))
		require.NoError(t, err)
		assert.Equal(t, map[string]string{v1alpha1.PausedAnnotation: "true", v1alpha1.PausedByAnnotation: "alice"}, kept.(client.Object).GetAnnotations())
		o.SetAnnotations(map[string]string{v1alpha1.PausedAnnotation: strings.Repeat("x", 1<<18)})
		kept, err = keepPause(o)
		require.NoError(t, err)
		assert.Len(t, kept.(client.Object).GetAnnotations()[v1alpha1.PausedAnnotation], maxKept)
		o.SetAnnotations(map[string]string{v1alpha1.PausedAnnotation: "false", v1alpha1.PausedByAnnotation: "alice"})
		kept, err = keepPause(o)
		require.NoError(t, err)
		assert.Empty(t, kept.(client.Object).GetAnnotations())
	}
}

func TestPausesAreCountedByScope(t *testing.T) {
	p, _ := strayController(t, 1)
	expect := func(want string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(p.Controller, strings.NewReader(want), "berth_mix_paused"))
	}
	const head = `# HELP berth_mix_paused Pauses of moves, by scope: cluster (0 or 1), namespace or mix. Nothing is moved within a pause.
# TYPE berth_mix_paused gauge
`
	q := pausesOf(p)
	q.setNamespace(pausedObject(&corev1.Namespace{}, "shop"), false)
	q.setNamespace(pausedObject(&corev1.Namespace{}, "other"), false)
	expect(head + "berth_mix_paused{scope=\"cluster\"} 0\nberth_mix_paused{scope=\"mix\"} 0\nberth_mix_paused{scope=\"namespace\"} 2\n")
	q.listed[0] = nil
	expect(head + "berth_mix_paused{scope=\"mix\"} 0\n")
}
