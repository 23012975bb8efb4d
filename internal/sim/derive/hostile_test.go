// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/snapshot"
)

// Texts and numbers of files that users write, or others send them.
var (
	drawnNames = []string{
		"web", "web-2", "a.b", "Web_1", "-", "ü", "yes", "123", "1e3", "null", "~", "x\n- y: z", "a # b", strings.Repeat("long", 60), "{}", "0x1f",
	}
	drawnKinds   = []string{"Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Node", "Rollout", "GameServer", "x\n# y", ""}
	drawnAmounts = []string{"0", "-1", "100m", "1", "1.5", "512Mi", "4Gi", "15800m", "62Gi", "100k", "9E", "1n", "1000000000000000000000"}
	drawnTypes   = []string{"spot", "spot", "on-demand", "on-demand", "reserved", "other"}
	drawnTexts   = []string{"", "a", "us-east-1a", "m5.xlarge", "not a label!", "x\ny"}
	drawnLimits  = []intstr.IntOrString{
		intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(-3), intstr.FromInt32(math.MaxInt32), intstr.FromString("0%"),
		intstr.FromString("33%"), intstr.FromString("100%"), intstr.FromString("300%"), intstr.FromString("-5%"), intstr.FromString("x"),
		intstr.FromString("99999999999999999999%"),
	}
)

func one[T any](t *rapid.T, name string, of []T) T { return rapid.SampledFrom(of).Draw(t, name) }

// drawList draws an amount of each resource, in most cases one that nodes and pods have.
func drawList(t *rapid.T, usual string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if rapid.IntRange(0, 3).Draw(t, "unusual") > 0 {
		return corev1.ResourceList{"cpu": resource.MustParse(usual), "memory": resource.MustParse(usual + "Gi")}
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "example.com/gpu"} {
		if rapid.IntRange(0, 3).Draw(t, "has") > 0 {
			out[name] = resource.MustParse(one(t, string(name), drawnAmounts))
		}
	}
	return out
}

func drawLabels(t *rapid.T) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"app", "agones.dev/fleet", "", "x y"}), rapid.SampledFrom(drawnNames), 0, 2).Draw(t, "labels")
}

func drawMeta(t *rapid.T, name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: one(t, "namespace", []string{"shop", "Shop_1", "x\ny"}), Name: name, Labels: drawLabels(t), UID: types.UID(name)}
	if rapid.Bool().Draw(t, "annotated") {
		m.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: one(t, "percent", []string{"50", "x", "-1"})}
	}
	return m
}

func drawNode(t *rapid.T, i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{
		"karpenter.sh/capacity-type": one(t, "type", drawnTypes), "karpenter.sh/nodepool": one(t, "pool", drawnNames),
		corev1.LabelTopologyZone: one(t, "zone", drawnTexts), corev1.LabelInstanceTypeStable: one(t, "instance type", drawnTexts),
		corev1.LabelTopologyRegion: "us-east-1",
	}}}
	n.Spec.Taints = rapid.SliceOfN(rapid.SampledFrom([]corev1.Taint{
		{Key: "team", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
	}), 0, 1).Draw(t, "taints")
	n.Status.Capacity, n.Status.Allocatable = drawList(t, "64"), drawList(t, "60")
	return n
}

func drawTemplate(t *rapid.T) corev1.PodTemplateSpec {
	out := corev1.PodTemplateSpec{}
	out.Labels = drawLabels(t)
	for range rapid.IntRange(0, 2).Draw(t, "containers") {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: drawList(t, "1")}})
	}
	if rapid.IntRange(0, 7).Draw(t, "overhead") == 0 {
		out.Spec.Overhead = drawList(t, "0")
	}
	out.Spec.Tolerations = []corev1.Toleration{{Key: one(t, "tolerated", []string{"", "team"}), Operator: corev1.TolerationOpExists}}
	return out
}

func drawReplicas(t *rapid.T) *int32 {
	if rapid.IntRange(0, 9).Draw(t, "unusual") > 0 {
		return new(rapid.Int32Range(0, 9).Draw(t, "replicas"))
	}
	return one(t, "replicas", []*int32{nil, new(int32(-1)), new(int32(200_000)), new(int32(math.MaxInt32))})
}

func drawRef(t *rapid.T) []metav1.OwnerReference {
	kind, name := one(t, "kind", drawnKinds), one(t, "owner", drawnNames)
	version := one(t, "version", []string{"apps/v1", "agones.dev/v1", "x y/z"})
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
}

func drawMix(t *rapid.T, name string) *v1alpha1.CapacityMix {
	m := &v1alpha1.CapacityMix{ObjectMeta: drawMeta(t, name)}
	number := func(what string) int32 {
		return one(t, what, []int32{0, 1, 50, 100, 101, -1, math.MaxInt32})
	}
	m.Spec = v1alpha1.CapacityMixSpec{
		SpotPercent: number("spot"), MinOnDemand: number("floor"), WhenSpotUnavailable: one(t, "when", []v1alpha1.WhenSpotUnavailable{"", "Wait", "x"}),
		Group: one(t, "group", []v1alpha1.PodGrouping{"", "Selector", "Top", "x"}), SpreadSpotOver: rapid.SliceOfN(rapid.SampledFrom(drawnTexts), 0, 2).Draw(t, "spread"),
		Unit: one(t, "unit", []*v1alpha1.PodUnit{nil, {Type: v1alpha1.PodUnitLabel, LabelKey: "a"}}),
	}
	if rapid.Bool().Draw(t, "rebalance") {
		m.Spec.Rebalance = &v1alpha1.RebalanceSpec{MaxConcurrent: new(number("concurrent")), Windows: []v1alpha1.RebalanceWindow{{Schedule: "x"}}}
	}
	if rapid.Bool().Draw(t, "role") {
		m.Spec.Roles = []v1alpha1.MixRole{{Name: "r", CapacityType: one(t, "role type", []string{"spot", "on-demand", "x"})}}
	}
	return m
}

func drawPod(t *rapid.T, name string) *corev1.Pod {
	template := drawTemplate(t)
	p := &corev1.Pod{ObjectMeta: drawMeta(t, name), Spec: template.Spec}
	if rapid.IntRange(0, 4).Draw(t, "owned") > 0 {
		p.OwnerReferences = drawRef(t)
	}
	p.Spec.NodeName = fmt.Sprint("node-", rapid.IntRange(0, 4).Draw(t, "node"))
	p.Status.Phase = one(t, "phase", []corev1.PodPhase{"Running", "Pending", "Succeeded"})
	p.Status.StartTime = new(metav1.Unix(1000, 0))
	ready := metav1.Unix(one(t, "ready", []int64{-1, 0, 1000, 1030, 1 << 40}), 0)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ready}}
	return p
}

func drawSnapshot(t *rapid.T) *snapshot.Snapshot {
	b := snapshot.NewBuilder(snapshot.Header{Time: metav1.NewTime(now), ServerVersion: one(t, "server", drawnNames)})
	add := func(o snapshot.Object) { require.NoError(t, b.Add(o)) }
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		add(drawNode(t, i))
	}
	names := func(what string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(drawnNames), 0, 4, rapid.ID).Draw(t, what)
	}
	for _, name := range names("deployments") {
		o := &appsv1.Deployment{ObjectMeta: drawMeta(t, name)}
		o.Spec.Replicas, o.Spec.Template = drawReplicas(t), drawTemplate(t)
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: drawLabels(t)}
		add(o)
	}
	for _, name := range names("replica sets") {
		o := &appsv1.ReplicaSet{ObjectMeta: drawMeta(t, name)}
		o.Spec.Replicas, o.Spec.Template, o.OwnerReferences = drawReplicas(t), drawTemplate(t), drawRef(t)
		add(o)
	}
	for _, name := range names("stateful sets") {
		o := &appsv1.StatefulSet{ObjectMeta: drawMeta(t, name)}
		o.Spec.Replicas, o.Spec.Template = drawReplicas(t), drawTemplate(t)
		add(o)
	}
	for _, name := range names("mixes") {
		add(drawMix(t, name))
	}
	for _, name := range names("budgets") {
		o := &policyv1.PodDisruptionBudget{ObjectMeta: drawMeta(t, name)}
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: drawLabels(t)}
		if limit := one(t, "limit", drawnLimits); rapid.Bool().Draw(t, "most") {
			o.Spec.MaxUnavailable = &limit
		} else {
			o.Spec.MinAvailable = &limit
		}
		add(o)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		add(drawPod(t, fmt.Sprint("pod-", i)))
	}
	return b.Snapshot()
}

// refusals are why a snapshot gives no scenario.
var refusals = regexp.MustCompile(`^the snapshot has no (nodes|node for workloads|workload with replicas that fit on its nodes)|` +
	`^the workloads have \d+ replicas, more than the 200000 of a scenario`)

// Whatever is in a snapshot, the scenario is valid, or the snapshot is refused with what it lacks.
func TestPropertyEachScenarioIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d, err := Derive(s, options)
		if err != nil {
			require.Regexp(t, refusals, err.Error())
			return
		}
		text, err := d.YAML()
		require.NoError(t, err)
		again, err := scenario.Parse("derived", text, nil)
		require.NoError(t, err)
		require.Len(t, again.Workloads, len(d.Scenario.Workloads))
		for i := range again.Workloads {
			require.Equal(t, d.Scenario.Workloads[i].Name, again.Workloads[i].Name)
			require.Equal(t, d.Scenario.Workloads[i].Replicas, again.Workloads[i].Replicas)
		}
		require.Equal(t, 24*time.Hour, again.Duration.Duration)
		for line := range strings.Lines(d.comment()) { // no name ends the comment
			require.Regexp(t, `^(#.*)?\n$`, line)
		}
	})
}
