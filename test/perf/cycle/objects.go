// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
)

const (
	typeLabel = "karpenter.sh/capacity-type"
	// spreadLabel has five values, one for on-demand and four for spot: with
	// maxSkew 1 that is how 80 % spot is written as a topology spread.
	spreadLabel = "example.com/capacity-spread"
	namespace   = "shop"
	zones       = 3
	machines    = 4 // instance types
)

// cluster are the objects that the API has when the scheduler starts.
type cluster struct {
	scenario Scenario
	nodes    []corev1.Node
	sets     []appsv1.ReplicaSet
	jobs     []batchv1.Job
	existing []corev1.Pod
	// pods are to be placed, in this order.
	pods []corev1.Pod
	// types of the nodes by name.
	types map[string]capacity.Type
}

func newCluster(s Scenario, peer string) *cluster {
	c := &cluster{scenario: s, types: map[string]capacity.Type{}}
	var byType [3][]string
	for i := range s.Nodes {
		n := s.node(i)
		t := s.typeOf(i)
		c.nodes, c.types[n.Name] = append(c.nodes, n), t
		byType[t] = append(byType[t], n.Name)
	}
	for g := range s.Groups {
		c.sets, c.jobs = append(c.sets, set(g)), append(c.jobs, batch(g))
	}
	perGroup := make([]int, s.Groups)
	for i := range s.Existing {
		g := i % s.Groups
		t := rule.TypeOf(perGroup[g])
		p := s.pod(g, perGroup[g], i)
		p.Spec.NodeName = byType[t][i%len(byType[t])]
		if !s.Ungoverned {
			p.Annotations[v1alpha1.SlotAnnotation] = strconv.Itoa(perGroup[g])
		}
		perGroup[g]++
		c.existing = append(c.existing, p)
	}
	if s.Full {
		for _, name := range byType[capacity.OnDemand] {
			c.existing = append(c.existing, filler(name))
		}
	}
	for i := range s.Pods {
		g := i % s.Groups
		if s.Block {
			g = i * s.Groups / s.Pods
		}
		p := s.pod(g, perGroup[g], s.Existing+i)
		dress(&p, peer, rule.TypeOf(perGroup[g]))
		perGroup[g]++
		c.pods = append(c.pods, p)
	}
	return c
}

// dress gives a pod what a peer's users write to come near to a mix.
func dress(p *corev1.Pod, peer string, wants capacity.Type) {
	spread := func(when corev1.UnsatisfiableConstraintAction) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: spreadLabel, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	switch peer {
	case HardSpread:
		spread(corev1.DoNotSchedule)
	case SoftSpread:
		spread(corev1.ScheduleAnyway)
	case Affinity:
		t := corev1.PodTemplateSpec{Spec: p.Spec}
		builders.RequireNodeLabel(typeLabel, corev1.NodeSelectorOpIn, wants.String())(&t)
		p.Spec = t.Spec
	}
}

func (s Scenario) typeOf(i int) capacity.Type {
	// Spread evenly over the numbers: on-demand where the share takes a step.
	if (i+1)*s.OnDemandPerMille/1000 > i*s.OnDemandPerMille/1000 {
		return capacity.OnDemand
	}
	return capacity.Spot
}

func (s Scenario) node(i int) corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i>>16, i>>8&255, i&255)
	t := s.typeOf(i)
	spread := "on-demand"
	if t == capacity.Spot {
		spread = fmt.Sprintf("spot-%d", i%4)
	}
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(i + 1),
		Labels: map[string]string{
			typeLabel: t.String(), spreadLabel: spread, corev1.LabelHostname: name, corev1.LabelArchStable: "amd64",
			corev1.LabelOSStable: "linux",
			// Each zone has all instance types.
			corev1.LabelTopologyZone: fmt.Sprintf("eu-central-1%c",
				'a'+i%zones), corev1.LabelInstanceTypeStable: fmt.Sprintf("m%d.4xlarge", 5+i/zones%machines),
		},
	}}
	n.Status.Allocatable = builders.Requests("16", "64Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func app(g int) string { return fmt.Sprintf("service-%04d", g) }

func set(g int) appsv1.ReplicaSet {
	return appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app(g), UID: types.UID(app(g)), ResourceVersion: "1"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](100_000),
			Selector: &metav1.LabelSelector{MatchLabels: builders.Labels(app(g))},
		},
	}
}

func batch(g int) batchv1.Job {
	return batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app(g), UID: types.UID(app(g)), ResourceVersion: "1"},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To[int32](100_000)},
	}
}

// sizes are what varied pods request.
var sizes = []string{"100m", "250m", "250m", "500m", "1"}

// pod is the n-th pod of a group, and the i-th of all.
func (s Scenario) pod(g, n, i int) corev1.Pod {
	p := builders.Pod(app(g), fmt.Sprintf("%s-%05d", app(g), n))
	p.Namespace, p.UID, p.ResourceVersion = namespace, types.UID(fmt.Sprintf("%08x-0000-4c6d-9a3e-%012x", g, n)), strconv.Itoa(i+1)
	p.Labels["pod-template-hash"] = "7dd8c6474c"
	if !s.Ungoverned {
		p.Labels["mixed"] = "true"
	}
	if s.Limits > 0 {
		p.Labels[v1alpha1.ResourceLimitLabel] = limit(i % s.Limits)
	}
	if s.Varied {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(sizes[i*7919%len(sizes)])
	}
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: app(g), UID: types.UID(app(g)), Controller: new(true)}
	if s.Replicated {
		owner.APIVersion, owner.Kind = "apps/v1", "ReplicaSet"
	}
	p.OwnerReferences = []metav1.OwnerReference{owner}
	return *p
}

// filler takes all the CPU of a node.
func filler(node string) corev1.Pod {
	p := builders.Pod("filler", "filler-"+node, builders.CPU("16"))
	p.Namespace, p.UID, p.ResourceVersion, p.Spec.NodeName = "kube-system", types.UID(p.Name), "1", node
	return *p
}

func limit(i int) string { return fmt.Sprintf("size-%d", i) }

// mixes are the CapacityMixes: one selects all pods that have one.
func mixes(group v1alpha1.PodGrouping) v1alpha1.CapacityMixList {
	m := builders.CapacityMix("mixed", rule.SpotPercent, rule.MinOnDemand)
	m.Namespace, m.UID, m.ResourceVersion, m.Generation = namespace, "mixed", "1", 1
	m.Spec.Selector.MatchLabels = map[string]string{"mixed": "true"}
	m.Spec.WhenOnDemandUnavailable, m.Spec.Group = v1alpha1.WhenOnDemandUnavailableSpot, group
	return v1alpha1.CapacityMixList{Items: []v1alpha1.CapacityMix{*m}}
}

func (s Scenario) limits() (list v1alpha1.ResourceLimitList) {
	for i := range s.Limits {
		l := builders.ResourceLimit(limit(i), builders.SizeCPU("100m", "2"))
		l.Namespace, l.UID, l.ResourceVersion, l.Generation = namespace, types.UID(limit(i)), "1", 1
		list.Items = append(list.Items, *l)
	}
	return list
}

// policy governs all pods of a namespace.
func policy(namespace string, score *v1alpha1.ScoreRules, tie *v1alpha1.SelectRules) v1alpha1.SchedulingPolicy {
	p := v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "all", UID: types.UID(namespace + "-policy"), Generation: 1,
	}}
	p.Spec.Score, p.Spec.Select = score, tie
	return p
}
