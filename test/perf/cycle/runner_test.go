// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/reservation"
	"berth.dev/berth/plugins/schedulingpolicy"
	"berth.dev/berth/plugins/topologyspread"
)

// The cases measure what their names say: every peer places the pods, Berth by the mix.
func TestEveryPeerPlacesThePods(t *testing.T) {
	for _, peer := range everybody {
		t.Run(peer, func(t *testing.T) {
			r, err := newRunner(t.Context(), peer, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 3, Existing: 30, Pods: 60, Replicated: true})
			require.NoError(t, err)
			v, err := r.turn(60, time.Minute)
			require.NoError(t, err)
			assert.InDelta(t, 60, v["pods"], 0)
			assert.Zero(t, v["pods_without_node"])
			assert.InDelta(t, 1, v["attempts_per_pod"], 0)
			good := r.quality()
			assert.InDelta(t, 60, good["pods"], 0)
			if _, ours := samples[peer]; ours || peer == Affinity {
				assert.Zero(t, good["mix_error_pods"])
			}
			if peer == Floor {
				assert.Positive(t, good["mix_error_pods"], "a scheduler without a mix is off, or nothing is measured")
			}
		})
	}
}

// Peers without a plugin do not have it at any extension point, and the others do.
func TestPeersWithoutAPluginHaveNoneOfIt(t *testing.T) {
	for peer, without := range map[string]string{BerthNoPolicies: schedulingpolicy.Name, BerthNoReservations: reservation.Name} {
		r, err := newRunner(t.Context(), peer, Scenario{Nodes: 10, OnDemandPerMille: 200, Groups: 1, Pods: 5})
		require.NoError(t, err)
		assert.NotContains(t, r.framework.ListPlugins().Names(), without, peer)
		assert.Contains(t, r.framework.ListPlugins().Names(), capacitymix.Name, peer)
		v, err := r.turn(5, time.Minute)
		require.NoError(t, err)
		assert.Zero(t, v["pods_without_node"])
	}
}

// One group has the exact mix over all owners, which have one pod each: groups of their own would all be on on-demand.
func TestThePeerWithASelectorHasOneGroup(t *testing.T) {
	onDemand := map[string]int{}
	for _, peer := range []string{Berth16, BerthSelector} {
		r, err := newRunner(t.Context(), peer, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 20, Pods: 20})
		require.NoError(t, err)
		_, err = r.turn(20, time.Minute)
		require.NoError(t, err)
		assert.Zero(t, r.quality()["mix_error_pods"], peer)
		for _, node := range r.placed {
			if r.cluster.types[node] == capacity.OnDemand {
				onDemand[peer]++
			}
		}
	}
	assert.Equal(t, map[string]int{Berth16: 20, BerthSelector: 4}, onDemand)
}

func TestAPodOfAFullSideBorrows(t *testing.T) {
	for peer, waiting := range map[string]float64{Berth16: 0, Affinity: 4} {
		r, err := newRunner(t.Context(), peer, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 1, Pods: 20, Full: true})
		require.NoError(t, err)
		v, err := r.turn(20, time.Minute)
		require.NoError(t, err)
		assert.InDelta(t, waiting, v["pods_without_node"], 0, peer)
	}
}

// The default constraints of PodTopologySpread are left out for pods with a mix, and for no others.
func TestSiblingsOfPodsWithAMixAreNotSearched(t *testing.T) {
	own := []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{}}}
	for name, test := range map[string]struct {
		ungoverned  bool
		constraints []corev1.TopologySpreadConstraint
		want        bool // left out
	}{
		"with a mix":                         {want: true},
		"with a mix, and constraints":        {constraints: own},
		"without a mix, as kube-scheduler":   {ungoverned: true},
		"without a mix, but own constraints": {ungoverned: true, constraints: own},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRunner(t.Context(), Berth16, Scenario{Nodes: 250, OnDemandPerMille: 200, Groups: 1, Existing: 10, Pods: 1, Replicated: true, Ungoverned: test.ungoverned})
			require.NoError(t, err)
			pod := r.cluster.pods[0].DeepCopy()
			pod.Spec.TopologySpreadConstraints = test.constraints
			state := framework.NewCycleState()
			_, err = Schedule(r.ctx, r.scheduler, r.framework, state, Queued(pod))
			require.NoError(t, err)
			require.False(t, state.GetSkipScorePlugins().Has("NodeResourcesFit"), "nodes were scored")
			assert.Equal(t, test.want, state.GetSkipScorePlugins().Has(topologyspread.Name))
			assert.False(t, state.GetSkipScorePlugins().Has("PodTopologySpread"), "it does not score")
		})
	}
}
