// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/clitest"
)

func TestAPauseIsWrittenAndEnded(t *testing.T) {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"own": "kept"}}}
	mix.Spec.SpotPercent = 70
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	cluster := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: live.PauseConfigMap}}
	for _, x := range []struct {
		scope  rebalance.PauseScope
		object client.Object
		text   string
	}{
		{rebalance.PausedMix, mix, "mix web"},
		{rebalance.PausedNamespace, namespace, "namespace shop"},
		{rebalance.PausedCluster, cluster, "the cluster"},
	} {
		for name, there := range map[string]bool{"there": true, "absent": false} {
			if !there && x.scope != rebalance.PausedCluster {
				continue
			}
			t.Run(string(x.scope)+" "+name, func(t *testing.T) {
				c := clitest.Client(t, interceptor.Funcs{})
				if there {
					require.NoError(t, c.Create(t.Context(), x.object.DeepCopyObject().(client.Object)))
				}
				read := func() *pausable {
					p := &pausable{scope: x.scope, object: x.object.DeepCopyObject().(client.Object)}
					err := c.Get(t.Context(), client.ObjectKeyFromObject(p.object), p.object)
					require.NoError(t, client.IgnoreNotFound(err))
					p.there = err == nil
					return p
				}
				p := read()
				require.Nil(t, p.pause())
				with := &rebalance.Pause{By: "alice", Why: "incident 4711", Since: clitest.Now.Truncate(time.Second)}
				require.NoError(t, p.set(t.Context(), command.Writer(c, command.DryRunClient, pauseOwner), with))
				require.Nil(t, read().pause(), "a dry run")
				require.NoError(t, read().set(t.Context(), command.Writer(c, command.DryRunNone, pauseOwner), with))
				p = read()
				require.NotNil(t, p.pause())
				assert.Equal(t, x.text+", by alice since "+clitest.Now.UTC().Format(time.RFC3339)+": incident 4711", p.pause().String())

				require.NoError(t, p.set(t.Context(), command.Writer(c, command.DryRunNone, pauseOwner), nil))
				p = read()
				assert.Nil(t, p.pause())
				assert.True(t, p.there)
				for key := range p.object.GetAnnotations() {
					assert.NotContains(t, key, "berth.dev/paused")
				}
				if x.scope == rebalance.PausedMix {
					assert.Equal(t, "kept", p.object.GetAnnotations()["own"])
					assert.Equal(t, int32(70), p.object.(*v1alpha1.CapacityMix).Spec.SpotPercent)
				}
			})
		}
	}
}

func TestResumeNamesWhatRemainsPaused(t *testing.T) {
	notes := map[string]string{v1alpha1.PausedAnnotation: "true", v1alpha1.PausedByAnnotation: "bob"}
	mix := func(namespace, name string) *v1alpha1.CapacityMix {
		m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		m.Spec.Rebalance = &v1alpha1.RebalanceSpec{Paused: true}
		return m
	}
	c := clitest.Client(t, interceptor.Funcs{},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: live.PauseConfigMap, Annotations: notes}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: notes}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		mix("shop", "web"), mix("free", "api"), &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "moving"}})
	u := &live.User{Installation: live.Installation{SystemNamespace: "berth-system"}, Client: c}
	for _, x := range []struct {
		r    PauseResult
		want string
	}{
		{
			PauseResult{Scope: rebalance.PausedMix, Namespace: "shop", Name: "web", Changed: true},
			"capacitymix.berth.dev/web resumed\nstill paused: the cluster, by bob\nstill paused: namespace shop, by bob\n",
		},
		{
			PauseResult{Scope: rebalance.PausedNamespace, Name: "shop"},
			"namespace/shop was not paused\nstill paused: the cluster, by bob\nstill paused: mix shop/web\n",
		},
		{
			PauseResult{Scope: rebalance.PausedCluster, Changed: true},
			"cluster resumed\nstill paused: namespace shop, by bob\nstill paused: mix free/api\nstill paused: mix shop/web\n",
		},
	} {
		x.r.addOthers(t.Context(), u)
		out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showPause(o, &pauseFlags{}, &x.r) })
		assert.Equal(t, x.want, out)
		assert.Empty(t, errOut)
	}
	out, _ := clitest.Printed(t, printers.YAML, func(o *command.Options) error {
		return showPause(o, &pauseFlags{}, &PauseResult{Scope: rebalance.PausedMix, Name: "web", Others: []OtherPause{{Scope: rebalance.PausedCluster}}})
	})
	assert.Contains(t, out, "paused: false\n")
	assert.Contains(t, out, "others:\n- scope: cluster\n")
}
