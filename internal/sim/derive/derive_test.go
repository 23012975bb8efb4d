// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/snapshot"
)

var update = flag.Bool("update", false, "write the golden files again")

var now = time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC)

var options = Options{Duration: 24 * time.Hour, Now: now}

func TestTheScenarioOfACluster(t *testing.T) {
	s, err := snapshot.Load("testdata/cluster.yaml")
	require.NoError(t, err)
	d, err := Derive(s, options)
	require.NoError(t, err)
	got, err := d.YAML()
	require.NoError(t, err)
	const golden = "testdata/scenario.yaml"
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func mix(m *v1alpha1.CapacityMixSpec) string {
	text, _ := json.Marshal(m) // it is of values only
	return string(text)
}

// shapes are the workloads and the pools of a scenario without their names, in an order that does not depend on these.
func shapes(s *scenario.Scenario) (list []string) {
	for _, w := range s.Workloads {
		list = append(list, fmt.Sprint(w.Replicas, w.CPU.String(), w.Memory.String(), w.StartupSeconds, w.MaxUnavailable.String(), mix(w.Mix)))
	}
	for _, p := range s.NodePools {
		price, rate := -1.0, -1.0
		if p.DollarsPerHour != nil {
			price = *p.DollarsPerHour
		}
		if p.Availability != nil {
			rate = *p.Availability.MonthlyInterruptionPercent
		}
		list = append(list, fmt.Sprint(p.CapacityType, p.InstanceType, p.Zone, p.CPU.String(), p.Memory.String(), p.Pods, p.Nodes, price, rate))
	}
	slices.Sort(list)
	return list
}

func TestPseudonymsChangeNamesOnly(t *testing.T) {
	s, err := snapshot.Load("testdata/cluster.yaml")
	require.NoError(t, err)
	s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Namespace == "games" }) // kinds of operators have pseudonyms, too
	d, err := Derive(s, options)
	require.NoError(t, err)
	anonymous, err := s.Anonymise("seed")
	require.NoError(t, err)
	of, err := Derive(anonymous, options)
	require.NoError(t, err)
	assert.Equal(t, shapes(&d.Scenario), shapes(&of.Scenario))
	text, err := of.YAML()
	require.NoError(t, err)
	assert.NotContains(t, string(text), "search")
	assert.Contains(t, string(text), "with pseudonyms")
}

// An eviction is allowed in the simulation where it is in the cluster, at the replicas of the snapshot.
func TestPropertyABudgetAllowsWhatItDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, number := rapid.Int32Range(1, 40).Draw(t, "replicas"), rapid.IntRange(0, 100).Draw(t, "number")
		limit := intstr.FromInt(number)
		if rapid.Bool().Draw(t, "percent") {
			limit = intstr.FromString(fmt.Sprintf("%d%%", number))
		}
		scaled, err := intstr.GetScaledValueFromIntOrPercent(&limit, int(n), true)
		require.NoError(t, err)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		missing := min(scaled, int(n))
		if rapid.Bool().Draw(t, "minAvailable") {
			b.Spec.MinAvailable, missing = &limit, int(n)-missing
		} else {
			b.Spec.MaxUnavailable = &limit
		}
		c := newCluster(t)
		c.add(node("node", "spot"), b)
		c.add(app("shop", "web", n)...)
		_, s := c.derive()
		got, err := intstr.GetScaledValueFromIntOrPercent(s.Workloads[0].MaxUnavailable, int(n), true)
		require.NoError(t, err)
		require.Equal(t, missing, min(got, int(n)))
	})
}

func TestTheStartupTimeIsTheMedianOfPodsThatStayedReady(t *testing.T) {
	c := newCluster(t)
	c.add(node("node", "spot"))
	pods := app("shop", "web", 5) // Ready after 10, 20, 30, 40 and 50 seconds
	for i, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1}}
		},
		func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(48 * time.Hour))
		},
	} {
		change(pods[2+i].(*corev1.Pod)) // behind the Deployment and the ReplicaSet
	}
	c.add(pods...)
	_, s := c.derive()
	assert.EqualValues(t, 40, s.Workloads[0].StartupSeconds)
}

// What the parts of a mix that a scenario does not have determine is noted.
func TestMixesAreThoseThatGovernThePods(t *testing.T) {
	c := newCluster(t)
	c.add(node("node", "spot"))
	leader := mixed("shop", "leader", v1alpha1.CapacityMixSpec{SpotPercent: 90, MinOnDemand: 3, Roles: []v1alpha1.MixRole{
		{Name: "leader", CapacityType: "on-demand", Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "leader"}}},
	}})
	unit := mixed("shop", "unit", v1alpha1.CapacityMixSpec{SpotPercent: 50, Unit: &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}})
	old := mixed("shop", "old", v1alpha1.CapacityMixSpec{SpotPercent: 50, WhenSpotUnavailable: "Never"})
	broken := mixed("shop", "broken", v1alpha1.CapacityMixSpec{SpotPercent: 101})
	c.add(leader, unit, old, broken)
	for _, name := range []string{"leader", "unit", "old", "broken", "plain"} {
		c.add(app("shop", name, 4)...)
	}
	c.add(app("shop", "annotated", 4, func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "25", v1alpha1.MinOnDemandAnnotation: "1"}
	})...)
	for _, o := range c.Snapshot().Pods {
		if strings.HasPrefix(o.Name, "annotated") {
			o.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "25", v1alpha1.MinOnDemandAnnotation: "1"}
		}
	}
	d, s := c.derive()
	got := map[string][]int32{}
	for _, w := range s.Workloads {
		if w.Mix != nil {
			got[w.Name] = []int32{w.Mix.SpotPercent, w.Mix.MinOnDemand}
		}
	}
	assert.Equal(t, map[string][]int32{"leader": {0, 0}, "unit": {50, 0}, "annotated": {25, 1}}, got)
	for _, note := range []string{
		"2 CapacityMixes, not valid: shop/broken, shop/old", "1 workload, with the mix of the role: shop/leader",
		"1 workload with units of several pods, as if each pod had a slot: shop/unit",
	} {
		assert.Contains(t, d.noted(), note)
	}
}

// Pods whose ReplicaSet was not read are not another workload beside their Deployment.
func TestNoReplicaCountsTwice(t *testing.T) {
	for _, missing := range []string{"", "replicaSets", "deployments", "replicaSets deployments"} {
		c := newCluster(t)
		c.add(node("node", "spot"))
		c.add(app("shop", "web", 4)...)
		for list := range strings.FieldsSeq(missing) {
			c.Remove(list)
			c.Missing(list, snapshot.Forbidden)
		}
		d, s := c.derive()
		require.Len(t, s.Workloads, 1, missing)
		assert.EqualValues(t, 4, s.Workloads[0].Replicas, missing)
		for list := range strings.FieldsSeq(missing) {
			assert.Contains(t, d.noted(), list+", which could not be read when the snapshot was taken (Forbidden)")
		}
	}
}

func TestNodesThatNoWorkloadMayUseAreLeftOut(t *testing.T) {
	tainted := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
	}
	tolerates := func(key string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
		}
	}
	c := newCluster(t)
	c.add(
		node("a", "spot"), node("control", "on-demand", tainted(controlPlaneKeys[0])), node("gpu", "on-demand", tainted("gpu")),
		node("team", "on-demand", tainted("team")), node("leaving", "spot", tainted("karpenter.sh/disrupted")),
		node("spot", "spot", tainted("spot")),
	)
	c.add(app("shop", "agent", 1, tolerates(""))...) // an add-on tolerates each taint
	c.add(app("shop", "dns", 1, tolerates(controlPlaneKeys[0]))...)
	c.add(app("shop", "team", 1, tolerates("team"))...)
	c.add(app("shop", "web", 1)...)
	c.add(mixed("shop", "web", v1alpha1.CapacityMixSpec{SpotPercent: 50, Tolerations: &v1alpha1.TolerationsByType{
		Spot: []v1alpha1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
	}}))
	d, s := c.derive()
	for _, note := range []string{
		"1 node of the control plane: control", "1 node, about to be removed: leaving",
		"1 node, with taints that no workload tolerates by their keys: gpu", "2 nodes, without taints: any workload may run there (spot, team)",
	} {
		assert.Contains(t, d.noted(), note)
	}
	require.Len(t, s.NodePools, 2)
	assert.EqualValues(t, 1, s.NodePools[0].Nodes, "on-demand: team")
	assert.EqualValues(t, 2, s.NodePools[1].Nodes, "spot: a, spot")
}

func TestASnapshotWithoutWhatAScenarioNeedsIsRefused(t *testing.T) {
	for want, objects := range map[string][]snapshot.Object{
		"the snapshot has no nodes": app("shop", "web", 2),
		"the snapshot has no node for workloads. Left out: 1 node, of unknown capacity type (docs/node-types.md): a": append(
			app("shop", "web", 2), node("a", "")),
		"the snapshot has no workload with replicas that fit on its nodes": {node("a", "spot")},
		"the snapshot has no workload with replicas that fit on its nodes. Left out: 1 workload without replicas: shop/web": append(
			app("shop", "web", 0), node("a", "spot")),
	} {
		c := newCluster(t)
		c.add(objects...)
		_, err := Derive(c.Snapshot(), options)
		assert.EqualError(t, err, want)
	}
	c := newCluster(t)
	objects := app("shop", "web", 1)
	c.add(append(objects, node("a", "spot"))...)
	c.Snapshot().Deployments[0].Spec.Replicas = new(int32(300_000))
	_, err := Derive(c.Snapshot(), options)
	require.EqualError(t, err, "the workloads have 300000 replicas, more than the 200000 of a scenario: take the snapshot of one namespace")
	o := options
	o.Duration = 0
	_, err = Derive(c.Snapshot(), o)
	require.EqualError(t, err, "duration: 0s: must be more than 0 and at most 8784h0m0s")
}

// Each workload has its name, unless that is more than a scenario may have. The notes have a bounded length.
func TestEqualWorkloadsAreMergedWhereTheyMust(t *testing.T) {
	few, scenarioOfFew := large(t, 400, 4).derive()
	assert.Len(t, scenarioOfFew.Workloads, 400)
	assert.NotContains(t, strings.Join(few.noted(), "\n"), "merged")

	c := newCluster(t)
	c.add(node("node", "spot"))
	long := v1alpha1.CapacityMixSpec{
		MinOnDemand: 1, MaxSpot: new(int32(5)), WhenSpotUnavailable: "Wait", WhenDomainInterrupted: "DoNotSchedule", ProtectFloor: true,
		SpreadSpotOver: []string{"a", "b", "c", "d"}, DeletionCost: "Respect", WhenOnDemandUnavailable: "Spot",
		Rebalance: &v1alpha1.RebalanceSpec{MaxConcurrent: new(int32(3)), MaxMovesPerHour: new(int32(3)), Strategy: "Surge", Mode: "Evict"},
	}
	for i := range 10_000 {
		namespace, name := fmt.Sprintf("team-%03d", i%100), fmt.Sprintf("workload-%05d", i)
		objects := app(namespace, name, 3)
		c.add(objects[:2]...)
		long.SpotPercent = int32(i / 100 % 5)
		c.add(mixed(namespace, name, long))
	}
	d, s := c.derive()
	assert.Len(t, s.Workloads, 500)
	assert.Contains(t, strings.Join(d.noted(), "\n"), "9500 workloads, merged with equal ones")
	replicas := int32(0)
	for _, w := range s.Workloads {
		replicas += w.Replicas * w.Copies
	}
	assert.EqualValues(t, 30_000, replicas)
	assert.Less(t, strings.Count(d.comment(), "\n"), 60)
}
