// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// runner is a workload of one pod, whose owner is of a kind that has one pod.
func runner(name string) rebalance.Entry {
	e := entry(name, od)
	e.Group.Owners, e.Group.Governing.Mix = 1, split.New(70, 0)
	e.Group.Workload.APIVersion, e.Group.Workload.Kind, e.Group.Workload.Revision = "example.com/v1", "Runner", ""
	e.Group.Assignments[0].Pod.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Runner", Name: name, UID: types.UID(name)}
	return e
}

func TestGroupsOfOneAreReportedWithARemedy(t *testing.T) {
	cm := mixOf()
	cm.Status = composeOf(cm, []rebalance.Entry{runner("a"), runner("b"), runner("c"), exact("web")}, noon)
	c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionGroupsOfOne)
	require.NotNil(t, c)
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Equal(t, v1alpha1.ReasonAlwaysOnDemand, c.Reason)
	assert.Equal(t, "3 groups of kind Runner have one replica each, which the mix gives no spot slot: "+
		"set spec.group: Selector, or add the kind to onePodKinds", c.Message)
	cm.Status = composeOf(cm, []rebalance.Entry{runner("a"), exact("web")}, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionGroupsOfOne), "it is absent where the mix has an effect")
}

func TestPodsThatNameTheirTypeAreReportedWithTheirWriter(t *testing.T) {
	pin := func(e rebalance.Entry, slots int, labels map[string]string) rebalance.Entry {
		for i := range slots {
			e.Group.Assignments[i].Pod.Pinned = true
			maps.Copy(e.Group.Assignments[i].Pod.Labels, labels)
		}
		return e
	}
	queued := map[string]string{"kueue.x-k8s.io/queue-name": "batch"}
	type want struct{ reason, message string }
	for name, tc := range map[string]struct {
		mine []rebalance.Entry
		want want
	}{
		"some by Kueue": {
			[]rebalance.Entry{pin(exact("a"), 2, queued), pin(exact("b"), 1, nil)},
			want{v1alpha1.ReasonPinnedByPods, "pods that name a capacity type themselves: 3 of 10, of which Kueue manages 2: the flavor of their quota decides " +
				"their type; the mix counts them and decides the type of the other 7"},
		},
		"all by Kueue": {
			[]rebalance.Entry{pin(exact("a"), 5, queued)},
			want{v1alpha1.ReasonPinnedByKueue, "pods that name a capacity type themselves: 5 of 5, of which Kueue manages 5: the flavor of their quota decides " +
				"their type; the mix counts them and decides nothing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cm := mixOf()
			cm.Status = composeOf(cm, tc.mine, noon)
			c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionPinned)
			require.NotNil(t, c)
			assert.Equal(t, metav1.ConditionTrue, c.Status)
			assert.Equal(t, tc.want, want{c.Reason, c.Message})
			cm.Status = composeOf(cm, []rebalance.Entry{exact("a")}, noon)
			assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionPinned))
		})
	}
}

func TestTheStatusOfAWorkloadHasItsParts(t *testing.T) {
	e := outOfMix("app")
	e.Group.Governing.RoleName, e.Group.Owners, e.Group.Units = "driver", 3, true
	for i := range e.Group.Assignments {
		a := &e.Group.Assignments[i]
		a.Unit, a.Pods = a.ID, []*clusterstate.Pod{a.Pod, {Name: "worker"}}
	}
	e.Group.Assignments[4].Unit, e.Group.Assignments[4].Pods = "", nil // a pod without the label is a unit
	s := composeOf(mixOf(), []rebalance.Entry{e, exact("web")}, noon)
	w := s.Workloads[0]
	assert.Equal(t, v1alpha1.WorkloadMix{Role: "driver", Owners: 3, Units: 5, Pods: 9, Replicas: 5},
		v1alpha1.WorkloadMix{Role: w.Role, Owners: w.Owners, Units: w.Units, Pods: w.Pods, Replicas: w.Replicas})
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSatisfied)
	assert.True(t, strings.HasPrefix(c.Message, "1 of 2 workloads: Deployment app (app-7d) role driver has "), c.Message)
	plain := s.Workloads[1]
	assert.Zero(t, v1alpha1.WorkloadMix{Role: plain.Role, Owners: plain.Owners, Units: plain.Units, Pods: plain.Pods})
}

// The API server refuses a status with more conditions than the CRD allows.
func TestAllConditionsTogetherFitIntoTheStatus(t *testing.T) {
	e, pinned := gatedEntry("a"), runner("b")
	e.Group.SpreadByType, pinned.Group.Assignments[0].Pod.Pinned = true, true
	s := compose(mixOf(), nil, []rebalance.Entry{e, overwritten("c"), pinned, runner("d")}, nil, &karpenter, nil, noon)
	assert.Len(t, s.Conditions, 9)
	assert.LessOrEqual(t, len(s.Conditions), v1alpha1.MaxStatusConditions)
}

// A cluster has more runners and units than a database of metrics has room for.
func TestTheMetricsOfGroupsHaveTheLabelsOfTheirMix(t *testing.T) {
	b := workloads.NewStore()
	for i := range 20 {
		e := runner(fmt.Sprint("runner-", i))
		e.Group.Governing.RoleName = fmt.Sprint("role-", i%3)
		e.Group.Assignments[0].Unit = fmt.Sprint("unit-", i)
		b.Put(e)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&Collector{Workloads: b, Clock: clocktesting.NewFakePassiveClock(noon)})
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for _, f := range families {
		assert.LessOrEqual(t, len(f.GetMetric()), 3, f.GetName())
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				assert.NotRegexp(t, "runner|role|unit", l.GetValue(), f.GetName())
			}
		}
	}
}
