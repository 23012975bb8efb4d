// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/policy"
)

const (
	slotKey = v1alpha1.SlotAnnotation
	typeKey = v1alpha1.CapacityTypeAnnotation
	mixKey  = v1alpha1.MixAnnotation
	costKey = v1alpha1.PodDeletionCostAnnotation
)

func TestStale(t *testing.T) {
	good := func() map[string]string {
		return map[string]string{slotKey: "2", typeKey: "spot", mixKey: "capacitymix/web", costKey: "-2"}
	}
	tests := map[string]struct {
		change func(have map[string]string, s *fleet.Seat)
		want   map[string]string
	}{
		"all is well": {func(map[string]string, *fleet.Seat) {}, map[string]string{}},
		"an older pod holds the same slot": {
			func(have map[string]string, _ *fleet.Seat) { have[slotKey], have[costKey] = "1", "-1" },
			map[string]string{slotKey: "2", costKey: "-2"},
		},
		"the slot is wrong and the cost is the user's": {
			func(have map[string]string, _ *fleet.Seat) { have[slotKey], have[costKey] = "1", "-100" },
			map[string]string{slotKey: "2"},
		},
		"the slot is wrong and there is no cost": {
			func(have map[string]string, _ *fleet.Seat) { have[slotKey] = "1"; delete(have, costKey) },
			map[string]string{slotKey: "2"},
		},
		"it was let go without a slot": {
			func(have map[string]string, _ *fleet.Seat) {
				clear(have)
				have[v1alpha1.GateOpenedAnnotation] = v1alpha1.GateOpenedNoLeader
			},
			map[string]string{slotKey: "2", typeKey: "spot", mixKey: "capacitymix/web", costKey: "-2"},
		},
		"it was let go without a slot and the cost is the user's": {
			func(have map[string]string, _ *fleet.Seat) {
				clear(have)
				have[v1alpha1.GateOpenedAnnotation], have[costKey] = v1alpha1.GateOpenedNoLeader, "7"
			},
			map[string]string{slotKey: "2", typeKey: "spot", mixKey: "capacitymix/web"},
		},
		"it was let go since it has no mix of its own": {
			func(have map[string]string, _ *fleet.Seat) {
				clear(have)
				have[v1alpha1.GateOpenedAnnotation] = v1alpha1.GateOpenedPinned
			},
			nil,
		},
		"only the cost differs, so it is the user's": {func(have map[string]string, _ *fleet.Seat) { have[costKey] = "5" }, map[string]string{}},
		"the mix changed the type of the slot":       {func(have map[string]string, _ *fleet.Seat) { have[typeKey] = "on-demand" }, map[string]string{typeKey: "spot"}},
		"another mix governs by now":                 {func(have map[string]string, _ *fleet.Seat) { have[mixKey] = "default" }, map[string]string{mixKey: "capacitymix/web"}},
		"the pod carries no slot of ours":            {func(have map[string]string, _ *fleet.Seat) { clear(have); have[costKey] = "-1" }, nil},
		"the pod is about to go":                     {func(have map[string]string, s *fleet.Seat) { have[slotKey] = "9"; s.Place = fleet.Departing }, nil},
		"the pod has no node yet":                    {func(have map[string]string, s *fleet.Seat) { have[slotKey] = "9"; s.Place = fleet.Pending }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := exact("web")
			have := good()
			e.Group.Seats[2].Pod.Annotations = have
			tc.change(have, &e.Group.Seats[2])
			if got := stale(&e.Group, e.Group.Seats[2]); len(tc.want) > 0 {
				assert.Equal(t, tc.want, got)
			} else {
				assert.Empty(t, got)
			}
		})
	}
}

func staleEntry() board.Entry {
	e := exact("web")
	for i, s := range e.Group.Seats {
		s.Pod.Annotations = map[string]string{slotKey: "9", typeKey: s.Wants.String(), mixKey: "capacitymix/web", costKey: "-9"}
		if i > 2 {
			s.Pod.Annotations = nil
		}
	}
	return e
}

func reconciler(perMinute int) (*Reconciler, *fake.Clientset) {
	kube := fake.NewClientset()
	for _, s := range staleEntry().Group.Seats {
		_ = kube.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: s.Pod.Name, UID: s.Pod.UID}})
	}
	b := board.New()
	b.Put(staleEntry())
	r := New(Options{Kube: kube, Board: b, RepairsPerMinute: perMinute, Clock: clocktesting.NewFakePassiveClock(noon)})
	r.note(board.Decision{Namespace: "shop", Groups: []policy.GroupKey{staleEntry().Group.Key, exact("fine").Group.Key}})
	return r, kube
}

func patches(kube *fake.Clientset) (list []map[string]any) {
	for _, a := range kube.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			var body map[string]any
			_ = json.Unmarshal(p.GetPatch(), &body)
			list = append(list, body)
		}
	}
	return list
}

func TestRepairMendsByPatchOfThePodThatItKnows(t *testing.T) {
	r, kube := reconciler(1000)
	assert.Zero(t, r.repair(t.Context(), "shop"))
	got := patches(kube)
	require.Len(t, got, 3)
	assert.Equal(t, map[string]any{"metadata": map[string]any{"uid": "web-0", "annotations": map[string]any{slotKey: "0", costKey: "-0"}}}, got[0])
	assert.Zero(t, r.repair(t.Context(), "elsewhere"))
	assert.Len(t, patches(kube), 3)
}

func TestRepairsAreTurnedOffAndOnAgain(t *testing.T) {
	r, kube := reconciler(1000)
	r.SetRepairs(0)
	assert.Zero(t, r.repair(t.Context(), "shop"), "nothing is asked for again")
	assert.Empty(t, patches(kube))
	decided := board.Decision{Namespace: "shop", Groups: []policy.GroupKey{staleEntry().Group.Key}}
	assert.False(t, r.note(decided))

	r.SetRepairs(1000)
	assert.True(t, r.note(decided))
	r.repair(t.Context(), "shop")
	assert.NotEmpty(t, patches(kube))
}

func TestRepairIsBounded(t *testing.T) {
	r, kube := reconciler(0)
	assert.Zero(t, r.repair(t.Context(), "shop"))
	assert.Empty(t, patches(kube))
	r, kube = reconciler(10)
	assert.Equal(t, soon, r.repair(t.Context(), "shop"), "the rest follows")
	assert.Len(t, patches(kube), 1)
	assert.Equal(t, soon, r.repair(t.Context(), "shop"), "it is not forgotten")
}

func TestRepairLeavesAPodThatIsGoneAlone(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"it is gone":              {apierrors.NewNotFound(pods, "x"), 0},
		"it is another one":       {apierrors.NewConflict(pods, "x", nil), 0},
		"the API server is away":  {apierrors.NewInternalError(assert.AnError), soon},
		"the controller must not": {apierrors.NewForbidden(pods, "x", nil), soon},
	} {
		t.Run(name, func(t *testing.T) {
			r, kube := reconciler(1000)
			kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			assert.Equal(t, tc.want, r.repair(t.Context(), "shop"))
		})
	}
}

func TestMetricsShowTheBoard(t *testing.T) {
	b := board.New()
	c := &Collector{Board: b, Clock: clocktesting.NewFakePassiveClock(noon)}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	const storm = `
# HELP berth_rebalance_spot_storm 1 while many spot nodes are going away and nothing is moved.
# TYPE berth_rebalance_spot_storm gauge
berth_rebalance_spot_storm `
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(storm+"0\n")), "nothing else")

	moving := outOfMix("moving")
	moving.Moves = make([]board.Move, 2)
	moving.Placeholders = make([]board.Placeholder, 1)
	other := entry("other", od, sp, capacity.Unknown)
	other.Mix = ""
	other.Group.Seats[0].Place, other.Group.Seats[1].Place = fleet.Departing, fleet.Pending
	other.Group.Policy = &policy.Policy{Source: policy.SourceDefault, Mix: other.Group.Policy.Mix}
	b.Put(exact("a"))
	b.Put(outOfMix("b"))
	b.Put(moving)
	b.Put(other)
	b.SetStorm(true)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP berth_mix_pods Replicas that have a node and are not going away, by the capacity type they run on: spot, on-demand or unknown.
# TYPE berth_mix_pods gauge
berth_mix_pods{mix="",namespace="shop",type="on-demand"} 0
berth_mix_pods{mix="",namespace="shop",type="spot"} 0
berth_mix_pods{mix="",namespace="shop",type="unknown"} 1
berth_mix_pods{mix="web",namespace="shop",type="on-demand"} 8
berth_mix_pods{mix="web",namespace="shop",type="spot"} 7
berth_mix_pods{mix="web",namespace="shop",type="unknown"} 0
# HELP berth_mix_desired_pods Replicas that the mix wants on a capacity type.
# TYPE berth_mix_desired_pods gauge
berth_mix_desired_pods{mix="",namespace="shop",type="on-demand"} 2
berth_mix_desired_pods{mix="",namespace="shop",type="spot"} 1
berth_mix_desired_pods{mix="web",namespace="shop",type="on-demand"} 6
berth_mix_desired_pods{mix="web",namespace="shop",type="spot"} 9
# HELP berth_mix_pending_pods Replicas without a node.
# TYPE berth_mix_pending_pods gauge
berth_mix_pending_pods{mix="",namespace="shop"} 1
berth_mix_pending_pods{mix="web",namespace="shop"} 0
# HELP berth_mix_departing_pods Replicas on nodes that are going away.
# TYPE berth_mix_departing_pods gauge
berth_mix_departing_pods{mix="",namespace="shop"} 1
berth_mix_departing_pods{mix="web",namespace="shop"} 0
# HELP berth_mix_deviation_pods Replicas that would have to move for every workload to have its mix.
# TYPE berth_mix_deviation_pods gauge
berth_mix_deviation_pods{mix="",namespace="shop"} 1
berth_mix_deviation_pods{mix="web",namespace="shop"} 2
# HELP berth_mix_out_of_mix_seconds How long the workload that is out of its mix for the longest time has been so; 0 if none is.
# TYPE berth_mix_out_of_mix_seconds gauge
berth_mix_out_of_mix_seconds{mix="",namespace="shop"} 0
berth_mix_out_of_mix_seconds{mix="web",namespace="shop"} 60
# HELP berth_rebalance_blocked_workloads Workloads out of their mix of which no replica is moved, by reason.
# TYPE berth_rebalance_blocked_workloads gauge
berth_rebalance_blocked_workloads{mix="web",namespace="shop",reason="NoRoom"} 1
# HELP berth_rebalance_moving_pods Replicas on the move: evicted, and their replacement not Ready yet.
# TYPE berth_rebalance_moving_pods gauge
berth_rebalance_moving_pods{mix="",namespace="shop"} 0
berth_rebalance_moving_pods{mix="web",namespace="shop"} 2
# HELP berth_rebalance_placeholder_pods Placeholder pods that hold room for replicas on the wrong capacity type, or ask for it.
# TYPE berth_rebalance_placeholder_pods gauge
berth_rebalance_placeholder_pods{mix="",namespace="shop"} 0
berth_rebalance_placeholder_pods{mix="web",namespace="shop"} 1
`+storm+"1\n")))

	for _, e := range b.All() {
		if e.Group.Key != other.Group.Key {
			b.Drop(e.Group.Key)
		}
	}
	n, err := testutil.GatherAndCount(registry, "berth_mix_pods")
	require.NoError(t, err)
	assert.Equal(t, 3, n, "the series of what is gone are gone")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}
