// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const hashKey = "pod-template-hash"

func releasablePod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "u1", ResourceVersion: "7", Labels: map[string]string{"app": "web", hashKey: "1"},
		Annotations:     map[string]string{v1alpha1.SlotAnnotation: "3", v1alpha1.PodDeletionCostAnnotation: "-3", "mine": "stays"},
		OwnerReferences: []metav1.OwnerReference{*ownerOf("rs"), {APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"}},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("1")}}}}
	return p
}

func claimed(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

func claimOf(mode corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	return []corev1.PersistentVolumeClaim{c}
}

func serviceOf(selector map[string]string) []corev1.Service {
	return []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "canary"}, Spec: corev1.ServiceSpec{Selector: selector}}}
}

func autoscalerOf(name string, targets ...autoscalingv2.MetricTargetType) []autoscalingv2.HorizontalPodAutoscaler {
	h := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "hpa"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: name}
	for _, target := range targets {
		h.Spec.Metrics = append(h.Spec.Metrics,
			autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{Type: target}}},
			autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Target: autoscalingv2.MetricTarget{Type: target}}})
	}
	return []autoscalingv2.HorizontalPodAutoscaler{h}
}

func spreadBy(whenUnsatisfiable corev1.UnsatisfiableConstraintAction) func(*corev1.Pod, *rebalance.Neighbours) {
	return func(p *corev1.Pod, _ *rebalance.Neighbours) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{TopologyKey: "zone", WhenUnsatisfiable: whenUnsatisfiable, MatchLabelKeys: []string{hashKey}},
		}
	}
}

func TestWhatPreventsARelease(t *testing.T) {
	type change = func(*corev1.Pod, *rebalance.Neighbours)
	for name, tc := range map[string]struct {
		change change
		want   string
		flees  string
	}{
		"nothing": {func(*corev1.Pod, *rebalance.Neighbours) {}, "", ""},
		"a Service by the label": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				n.Services = serviceOf(map[string]string{"app": "web", hashKey: "1"})
			},
			`Service "canary" selects pod web-1 by label pod-template-hash`, `Service "canary" selects pod web-1 by label pod-template-hash`,
		},
		"a Service without the label": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) { n.Services = serviceOf(map[string]string{"app": "web"}) }, "", "",
		},
		"a Service of another revision": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) { n.Services = serviceOf(map[string]string{hashKey: "2"}) }, "", "",
		},
		"a budget by the label": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				b, err := rebalance.FromPDB(pdb(func(p *policyv1.PodDisruptionBudget) { p.Spec.Selector.MatchLabels[hashKey] = "1" }))
				if err != nil {
					panic(err)
				}
				n.Budgets = []rebalance.DisruptionBudget{b}
			}, `PodDisruptionBudget "web" selects pod web-1 by label pod-template-hash`, `PodDisruptionBudget "web" selects pod web-1 by label pod-template-hash`,
		},
		"a budget of all revisions": {func(_ *corev1.Pod, n *rebalance.Neighbours) { n.Budgets = budgetOf(0) }, "", ""},
		"an autoscaler by CPU": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) { n.Autoscalers = autoscalerOf("web") },
			`HorizontalPodAutoscaler "hpa" counts the pods of Deployment web by their labels, and would count one more`, "",
		},
		"an autoscaler by an external metric": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				n.Autoscalers = autoscalerOf("web", autoscalingv2.AverageValueMetricType)
			}, "", "",
		},
		"an autoscaler by an external value": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				n.Autoscalers = autoscalerOf("web", autoscalingv2.ValueMetricType)
			},
			`HorizontalPodAutoscaler "hpa" counts the pods of Deployment web by their labels, and would count one more`, "",
		},
		"an autoscaler of another workload": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) { n.Autoscalers = autoscalerOf("db") }, "", "",
		},
		"a claim for one node": {
			func(p *corev1.Pod, n *rebalance.Neighbours) {
				claimed(p, "data")
				n.Claims = claimOf(corev1.ReadWriteOnce)
			},
			"pod web-1 uses claim data, whose access modes do not allow its replacement on another node",
			"pod web-1 uses claim data, whose access modes do not allow its replacement on another node",
		},
		"a claim that is not there": {
			func(p *corev1.Pod, _ *rebalance.Neighbours) { claimed(p, "data") },
			"pod web-1 uses claim data, whose access modes do not allow its replacement on another node",
			"pod web-1 uses claim data, whose access modes do not allow its replacement on another node",
		},
		"a claim for many": {
			func(p *corev1.Pod, n *rebalance.Neighbours) {
				claimed(p, "data")
				n.Claims = claimOf(corev1.ReadWriteMany)
			}, "", "",
		},
		"a hard spread by the label": {
			spreadBy(corev1.DoNotSchedule), "the topology spread of pod web-1 over zone counts pods by label pod-template-hash",
			"the topology spread of pod web-1 over zone counts pods by label pod-template-hash",
		},
		"a soft spread by the label": {spreadBy(corev1.ScheduleAnyway), "", ""},
		"anti-affinity by the label": {
			func(p *corev1.Pod, _ *rebalance.Neighbours) {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: "host", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{hashKey: "1"}}},
					},
				}}
			}, "the anti-affinity of pod web-1 over host selects pods by label pod-template-hash",
			"the anti-affinity of pod web-1 over host selects pods by label pod-template-hash",
		},
		"a quota of pods that end": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}}
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
				q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: quantity("0")}
				n.Bounds.Quotas = []corev1.ResourceQuota{q}
			}, `ResourceQuota "jobs", which covers pods that end by themselves, has no place for pod web-1`,
			`ResourceQuota "jobs", which covers pods that end by themselves, has no place for pod web-1`,
		},
		"a quota that is used up": {
			func(_ *corev1.Pod, n *rebalance.Neighbours) {
				q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tight"}}
				q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: quantity("2")}
				q.Status.Used = corev1.ResourceList{corev1.ResourcePods: quantity("2")}
				n.Bounds.Quotas = []corev1.ResourceQuota{q}
			}, `ResourceQuota "tight" does not allow a replacement beside pod web-1`, `ResourceQuota "tight" does not allow a replacement beside pod web-1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, n := releasablePod(), &rebalance.Neighbours{}
			tc.change(p, n)
			w := clusterstate.Workload{Kind: "Deployment", Name: "web"}
			assert.Equal(t, tc.want, n.Unreleasable(p, w, hashKey, false))
			assert.Equal(t, tc.flees, n.Unreleasable(p, w, hashKey, true))
		})
	}
}

// The patch is applied as the API server applies a merge patch.
func TestAReleasedPodHasNoControllerAndNoSlot(t *testing.T) {
	p := releasablePod()
	p.Status.StartTime = &metav1.Time{Time: noon.Add(-time.Minute)}
	g := &clusterstate.Group{
		Key: governing.GroupKey{Namespace: "shop", ID: "rs"}, Workload: clusterstate.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"},
	}
	patch, err := rebalance.ReleasePatch(p, g, hashKey, time.Hour, noon)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(patch, &fields))
	assert.Equal(t, "7", fields["metadata"].(map[string]any)["resourceVersion"], "one that changed meanwhile is not released")
	after := applied(t, p, patch)
	assert.Equal(t, map[string]string{"app": "web"}, after.Labels)
	assert.NotContains(t, after.Annotations, v1alpha1.SlotAnnotation)
	assert.NotContains(t, after.Annotations, v1alpha1.PodDeletionCostAnnotation)
	assert.Equal(t, "stays", after.Annotations["mine"])
	assert.Equal(t, "true", after.Annotations[pods.SafeToEvict])
	from, is := pods.ReleasedFrom(after)
	assert.True(t, is)
	assert.Equal(t, pods.Release{ReplicaSet: "rs", Group: "rs"}, from)
	assert.True(t, pods.Leaves(after))
	require.Len(t, after.OwnerReferences, 3, "it is deleted with its ReplicaSet and its Deployment")
	assert.Equal(t, "Deployment", metav1.GetControllerOf(after).Kind, "drains and budgets count it")
	require.NotNil(t, after.Spec.ActiveDeadlineSeconds)
	assert.EqualValues(t, 3660, *after.Spec.ActiveDeadlineSeconds, "from its start on")

	p.Spec.ActiveDeadlineSeconds = new(int64(90))
	patch, err = rebalance.ReleasePatch(p, g, hashKey, time.Hour, noon)
	require.NoError(t, err)
	assert.EqualValues(t, 90, *applied(t, p, patch).Spec.ActiveDeadlineSeconds, "the API server refuses a later end")
}

func applied(t *testing.T, p *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(p)
	require.NoError(t, err)
	text, err := jsonpatch.MergePatch(before, patch)
	require.NoError(t, err)
	after := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(text, after))
	return after
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
