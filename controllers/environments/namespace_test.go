// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

// The level of Pod Security in the namespace of an author may be raised after an environment was made, or that of the environment lowered.
func TestTheLabelsOfANamespaceFollowThoseOfItsAuthor(t *testing.T) {
	const enforce = "pod-security.kubernetes.io/enforce"
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "1"}}
	env.Status.Namespace = "env-shop"
	author := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "env-shop", Labels: render.Labels(env)}}
	ns.Labels["mine"], ns.Labels[enforce] = "kept", "privileged"
	c := reconciler(t, types.NamespacedName{}, interceptor.Funcs{}, author, ns)
	clock := testclock.NewFakePassiveClock(c.Clock.Now())
	c.Clock, c.NamespaceLabels, c.CopiedLabels = clock, map[string]string{enforce: "baseline"}, []string{enforce}
	level := func() string {
		require.NoError(t, c.keepLabels(t.Context(), env))
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
		assert.Equal(t, "kept", ns.Labels["mine"])
		return ns.Labels[enforce]
	}
	assert.Equal(t, "baseline", level())
	author.Labels = map[string]string{enforce: "restricted"}
	require.NoError(t, c.Client.Update(t.Context(), author))
	clock.SetTime(clock.Now().Add(time.Second))
	assert.Equal(t, "baseline", level(), "it is compared at each resync only")
	clock.SetTime(clock.Now().Add(resyncInterval))
	assert.Equal(t, "restricted", level())

	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{enforce: "privileged"}}}
	require.NoError(t, c.Client.Create(t.Context(), foreign))
	env.Name, env.Status.Namespace = "other", "theirs"
	require.NoError(t, c.keepLabels(t.Context(), env))
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	assert.Equal(t, "privileged", foreign.Labels[enforce], "it was not made for an environment")
}
