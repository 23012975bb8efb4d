// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/clitest"
)

// A drain waits for what the controller releases, wherever the mix and its strategy come from.
func TestADrainWaitsForEveryReplicaThatIsReleased(t *testing.T) {
	mixOf := func(strategy v1alpha1.RebalanceStrategy) *v1alpha1.CapacityMix {
		m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		m.Spec.Selector = v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
		if strategy != "" {
			m.Spec.Rebalance = &v1alpha1.RebalanceSpec{Strategy: strategy}
		}
		return m
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "o", UID: "o", Annotations: map[string]string{"berth.dev/spot-percent": "50"},
	}}
	other := rs.DeepCopy()
	other.UID = "of the same name"
	for name, tc := range map[string]struct {
		// shipped is the strategy of the controller's configuration.
		shipped  v1alpha1.RebalanceStrategy
		mix      *v1alpha1.CapacityMix
		owner    *appsv1.ReplicaSet
		fallback bool
		want     string
	}{
		"the mix releases":                        {mix: mixOf("Surge"), want: "mix web"},
		"the mix releases what it can":            {mix: mixOf("SurgeOrEvict"), want: "mix web"},
		"the mix evicts":                          {shipped: "Surge", mix: mixOf("Evict")},
		"the controller releases":                 {shipped: "Surge", mix: mixOf(""), want: "mix web"},
		"the controller evicts":                   {mix: mixOf("")},
		"no mix":                                  {shipped: "Surge"},
		"a mix in annotations":                    {shipped: "Surge", owner: rs, want: "the mix in the annotations of its controller"},
		"annotations of another one of that name": {shipped: "Surge", owner: other},
		"the default mix":                         {shipped: "Surge", fallback: true, want: "the scheduler's default mix"},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := live.Defaults()
			require.NoError(t, err)
			if tc.shipped != "" {
				settings.Controller.Mix.Rebalance.Strategy = tc.shipped
			}
			if tc.fallback {
				settings.Defaults = map[string]*governing.Mix{"berth": {Source: governing.SourceDefault, Mix: split.New(50, 0)}}
			}
			settings.ControllerSource = "a ConfigMap"
			o, _, _ := clitest.Screen("")
			d := &drainer{Options: o, client: clitest.Client(t, interceptor.Funcs{}), settings: settings, owners: owners{}}
			if tc.mix != nil {
				require.NoError(t, d.client.Create(t.Context(), tc.mix))
			}
			if tc.owner != nil {
				require.NoError(t, d.client.Create(t.Context(), tc.owner.DeepCopy()))
			}
			pod := podNamed("web-1", web, func(p *corev1.Pod) { p.Spec.SchedulerName = "berth" })
			releases, err := d.releasers(t.Context(), []corev1.Pod{pod})
			require.NoError(t, err)
			got, is := releases(&pod)
			assert.Equal(t, tc.want != "", is)
			if is {
				assert.Equal(t, tc.want, got)
			}
		})
	}
}

// What is not known is not taken for the strategy Evict in silence.
func TestADrainNamesTheStrategyThatItAssumes(t *testing.T) {
	settings, err := live.Defaults()
	require.NoError(t, err)
	o, _, errOut := clitest.Screen("")
	d := &drainer{Options: o, client: clitest.Client(t, interceptor.Funcs{}), settings: settings, owners: owners{}}
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	m.Spec.Selector = v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	require.NoError(t, d.client.Create(t.Context(), m))
	for range 2 {
		pod := podNamed("web-1", web)
		releases, err := d.releasers(t.Context(), []corev1.Pod{pod})
		require.NoError(t, err)
		_, is := releases(&pod)
		assert.False(t, is)
	}
	assert.Equal(t, 1, strings.Count(errOut.String(), "mix web has no rebalance.strategy, and is taken to have Evict"), errOut.String())
}

// A pod whose ReplicaSet cannot be read is not one that no mix releases: the next reading may have its annotations.
func TestADrainReadsAReplicaSetAgainThatItCouldNot(t *testing.T) {
	settings, err := live.Defaults()
	require.NoError(t, err)
	fails := true
	d := &drainer{settings: settings, owners: owners{}, client: clitest.Client(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
			if fails {
				return errors.New("down")
			}
			return c.Get(ctx, key, into, o...)
		},
	})}
	_, err = d.releasers(t.Context(), []corev1.Pod{podNamed("web-1", web)})
	require.ErrorContains(t, err, "read the ReplicaSet of pod shop/web-1: down")
	fails = false
	_, err = d.releasers(t.Context(), []corev1.Pod{podNamed("web-1", web)})
	require.NoError(t, err)
}
