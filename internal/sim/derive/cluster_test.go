// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/snapshot"
)

// cluster is a snapshot that a test makes.
type cluster struct {
	t require.TestingT
	*snapshot.Builder
}

func newCluster(t require.TestingT) *cluster {
	return &cluster{t, snapshot.NewBuilder(snapshot.Header{Time: metav1.NewTime(now)})}
}

func (c *cluster) add(objects ...snapshot.Object) {
	for _, o := range objects {
		require.NoError(c.t, c.Add(o))
	}
}

// derive returns the scenario, as it is read from the file.
func (c *cluster) derive() (*Derived, *scenario.Scenario) {
	d, err := Derive(c.Snapshot(), options)
	require.NoError(c.t, err)
	text, err := d.YAML()
	require.NoError(c.t, err)
	s, err := scenario.Parse("derived", text, nil)
	require.NoError(c.t, err)
	return d, s
}

// noted returns the texts of the notes.
func (d *Derived) noted() (texts []string) {
	for _, n := range d.Notes {
		texts = append(texts, n.Text)
	}
	return texts
}

func listOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func node(name, capacityType string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"karpenter.sh/capacity-type": capacityType, corev1.LabelInstanceTypeStable: "m5.4xlarge",
		corev1.LabelTopologyRegion: "us-east-1", corev1.LabelTopologyZone: "us-east-1a",
	}}}
	n.Status.Capacity, n.Status.Allocatable = listOf("16", "64Gi"), listOf("15800m", "62Gi")
	for _, f := range change {
		f(n)
	}
	return n
}

// app is a Deployment with its ReplicaSet and as many pods as it has replicas, the first of which became Ready after 10 seconds, the next
// one after 20 seconds, and so on.
func app(namespace, name string, replicas int32, change ...func(*corev1.PodTemplateSpec)) (objects []snapshot.Object) {
	var template corev1.PodTemplateSpec
	template.Labels = map[string]string{"app": name}
	template.Spec.SchedulerName = scheduler
	template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: listOf("500m", "1Gi")}}}
	for _, f := range change {
		f(&template)
	}
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name + suffix, UID: types.UID(namespace + name + suffix)}
	}
	d := &appsv1.Deployment{ObjectMeta: meta("")}
	d.Spec.Replicas, d.Spec.Template, d.Spec.Selector = &replicas, template, &metav1.LabelSelector{MatchLabels: template.Labels}
	r := &appsv1.ReplicaSet{ObjectMeta: meta("-1")}
	r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind.WithVersion("v1"))}
	r.Spec.Replicas, r.Spec.Template = &replicas, template
	objects = append(objects, d, r)
	for i := range replicas {
		p := &corev1.Pod{ObjectMeta: meta(fmt.Sprint("-1-", i)), Spec: *template.Spec.DeepCopy()}
		p.Labels, p.OwnerReferences = template.Labels, []metav1.OwnerReference{*metav1.NewControllerRef(r, replicaSetKind.WithVersion("v1"))}
		p.Spec.NodeName = "node"
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, new(metav1.NewTime(now))
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(time.Duration(i+1) * 10 * time.Second)),
		}}
		objects = append(objects, p)
	}
	return objects
}

func mixed(namespace, name string, spec v1alpha1.CapacityMixSpec) *v1alpha1.CapacityMix {
	spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": name}
	return &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// large is a cluster of many workloads with ten pods each, of so many kinds.
func large(tb testing.TB, workloads, kinds int) *cluster {
	tb.Helper()
	c := newCluster(tb)
	for i := range workloads / 2 {
		c.add(node(fmt.Sprint("node-", i), []string{"spot", "on-demand"}[i%2]))
	}
	for i := range workloads {
		namespace, name := fmt.Sprintf("team-%03d", i%100), fmt.Sprintf("workload-%05d", i)
		c.add(app(namespace, name, 10, func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Resources.Requests = listOf(fmt.Sprintf("%dm", 100+i/100%kinds), "512Mi")
		})...)
		c.add(mixed(namespace, name, v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2}))
	}
	return c
}

// BenchmarkDerive has a cluster of 100,000 pods of 10,000 workloads:
//
//	go test ./internal/sim/derive -run ^$ -bench . -benchtime 1x
func BenchmarkDerive(b *testing.B) {
	s := large(b, 10_000, 50).Snapshot()
	for b.Loop() {
		d, err := Derive(s, options)
		require.NoError(b, err)
		text, err := d.YAML()
		require.NoError(b, err)
		b.ReportMetric(float64(len(text))/1e6, "file-MB")
	}
}
