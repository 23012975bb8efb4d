// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

func TestOnlyFalseIsNoPause(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": true, "yes": true, "": true, "false": false} {
		o := &metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.PausedAnnotation: value}}
		assert.Equal(t, want, rebalance.IsPaused(o), "%q", value)
	}
	assert.False(t, rebalance.IsPaused(&metav1.ObjectMeta{}))
}

func TestAPauseHasWhoPausedAndWhen(t *testing.T) {
	written := metav1.NewTime(noon.Add(-2 * time.Hour))
	writer := func(manager, fields string, at *metav1.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	annotated := writer("kubectl-annotate", `{"f:metadata":{"f:annotations":{"f:berth.dev/paused":{}}}}`, &written)
	for name, x := range map[string]struct {
		scope  rebalance.PauseScope
		notes  map[string]string
		fields []metav1.ManagedFieldsEntry
		want   string
	}{
		"by the command": {
			rebalance.PausedNamespace,
			map[string]string{
				v1alpha1.PausedByAnnotation: "alice", v1alpha1.PausedAtAnnotation: "2026-06-01T11:00:00Z",
				v1alpha1.PausedReasonAnnotation: "incident\n 4711",
			},
			[]metav1.ManagedFieldsEntry{annotated},
			"namespace shop, by alice since 2026-06-01T11:00:00Z: incident 4711",
		},
		"by kubectl annotate": {
			rebalance.PausedNamespace, nil, []metav1.ManagedFieldsEntry{
				writer("other", `{"f:metadata":{"f:annotations":{"f:berth.dev/paused-by":{}}}}`, new(metav1.NewTime(noon))), annotated,
			}, "namespace shop, by kubectl-annotate since 2026-06-01T10:00:00Z",
		},
		"by an edited mix": {
			rebalance.PausedMix, nil, []metav1.ManagedFieldsEntry{
				writer("kubectl-edit", `{"f:spec":{"f:rebalance":{"f:paused":{}}}}`, &written), annotated,
			}, "mix shop, by kubectl-edit since 2026-06-01T10:00:00Z",
		},
		"by someone, at no time": {rebalance.PausedMix, map[string]string{v1alpha1.PausedAtAnnotation: "yesterday"}, nil, "mix shop"},
	} {
		t.Run(name, func(t *testing.T) {
			p := rebalance.PauseOf(x.scope, "shop", &metav1.ObjectMeta{Annotations: x.notes, ManagedFields: x.fields})
			assert.Equal(t, x.want, p.String())
			kept := &metav1.ObjectMeta{Annotations: x.notes}
			kept.ManagedFields = rebalance.WritersOfPause(x.scope, &metav1.ObjectMeta{ManagedFields: x.fields})
			assert.Equal(t, p, rebalance.PauseOf(x.scope, "shop", kept), "what a cache keeps is enough")
		})
	}
}

// Whoever may annotate a namespace may write anything.
func TestATextAboutAPauseIsBoundedAndOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		notes := map[string]string{}
		for _, key := range []string{v1alpha1.PausedByAnnotation, v1alpha1.PausedAtAnnotation, v1alpha1.PausedReasonAnnotation} {
			notes[key] = rapid.String().Draw(t, key) + strings.Repeat("ü", rapid.IntRange(0, 400).Draw(t, "more"))
		}
		p := rebalance.PauseOf(rebalance.PausedNamespace, "shop", &metav1.ObjectMeta{Annotations: notes})
		text := p.String()
		require.LessOrEqual(t, len(text), 420)
		require.NotContains(t, text, "\n")
		require.Equal(t, strings.ToValidUTF8(text, ""), text)
	})
}

func TestAMixIsPausedByItsSpec(t *testing.T) {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{v1alpha1.PausedAnnotation: "true"}}}
	cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{}
	s, err := rebalance.Settings{}.For(&governing.Mix{}, cm)
	require.NoError(t, err)
	assert.Nil(t, s.Paused, "an annotation of a mix is no pause: the spec has a field")
	cm.Spec.Rebalance.Paused = true
	s, err = rebalance.Settings{}.For(&governing.Mix{}, cm)
	require.NoError(t, err)
	assert.Equal(t, &rebalance.Pause{Scope: rebalance.PausedMix, Name: "web"}, s.Paused)
}

// A controller that starts with placeholders of an earlier leader has not read the Namespaces yet.
func TestAnUnknownPauseMovesNothingAndDropsNoPlaceholder(t *testing.T) {
	in := outOfMix()
	in.Settings.Provisioning = rebalance.WithPlaceholder
	in.Cluster.Pauses = []rebalance.Pause{{Unknown: true}}
	v := decide(in)
	assert.Equal(t, rebalance.ReasonStartupGrace, v.Reason)
	assert.True(t, v.RetryAt.After(noon))
	holder := rebalance.Holder{Target: capacity.Spot, Created: noon, Running: true}
	step, _ := in.Next("web-4", holder, time.Hour)
	assert.Equal(t, rebalance.StepWait, step)

	in.Cluster.Pauses[0].Unknown = false
	step, v = in.Next("web-4", holder, time.Hour)
	assert.Equal(t, rebalance.StepDrop, step, "a pause may last for days, and the node would be paid for nothing")
	assert.Equal(t, rebalance.ReasonPaused, v.Reason)
}

// What was evicted comes back, and is judged as ever.
func TestAPauseEndsNoMoveThatIsUnderWay(t *testing.T) {
	in := outOfMix()
	limits := rebalance.Limits{Backoff: time.Minute, MaxBackoff: time.Hour, Timeout: 10 * time.Minute}
	move := rebalance.Move{UID: "gone", Name: "gone", Started: noon.Add(-time.Minute), Target: capacity.Spot, Slot: 4}
	before := rebalance.Entry{Group: in.Group, Moves: []rebalance.Move{move}, WrongSince: noon.Add(-time.Hour), Settings: in.Settings}
	w := rebalance.Begin(before, before, in.Group, nil, false, noon, limits)
	w.Settings = in.Settings
	cluster := in.Cluster
	cluster.Pauses = []rebalance.Pause{{Scope: rebalance.PausedNamespace, Name: "shop"}}
	plan := rebalance.Plan(w.Input(cluster, 0, func(capacity.Type, *clusterstate.Pod) bool { return true }))
	require.Len(t, plan, 1)
	assert.Equal(t, rebalance.StepRest, plan[0].Step)
	assert.Equal(t, rebalance.ReasonPaused, plan[0].Verdict.Reason)
	w.Apply(plan[0], rebalance.Result{})
	judged := len(w.Moves) + len(w.Ended)
	assert.Equal(t, 1, judged, "the move goes on, or it is over")
}
