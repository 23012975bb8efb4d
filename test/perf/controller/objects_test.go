// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

const podsPerWorkload = 10

var (
	began = time.Unix(1_750_000_000, 0)
	rule  = split.New(70, 2)
)

// size is a cluster: every workload has 10 pods and a CapacityMix of its own.
type size struct {
	name                         string
	workloads, namespaces, nodes int
}

var (
	small = size{"pods=10000", 1_000, 100, 500}
	large = size{"pods=100000", 10_000, 1_000, 5_000}
	// crowded is the worst case for what is looked at per namespace.
	crowded = size{"one-namespace", 1_000, 1, 500}
)

func app(w int) string { return fmt.Sprintf("service-%05d", w) }

func (s size) namespace(w int) string { return fmt.Sprintf("team-%04d", w%s.namespaces) }

// node: every fifth is on-demand.
func node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{"karpenter.sh/capacity-type": nodeType(i).String()}}}
	n.Status.Allocatable = builders.Requests("16", "64Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return n
}

func nodeType(i int) capacity.Type {
	if i%5 == 0 {
		return capacity.OnDemand
	}
	return capacity.Spot
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
}

func nodeFor(s size, t capacity.Type, i int) string {
	i = 5 * (i % (s.nodes / 5))
	if t == capacity.Spot {
		i += 1 + i/5%4
	}
	return nodeName(i)
}

func controllersOf(s size, w int) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	d := builders.Deployment(app(w), podsPerWorkload)
	d.Namespace, d.UID, d.Generation = s.namespace(w), uid(1, w, 0), 1
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: podsPerWorkload, UpdatedReplicas: podsPerWorkload}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: app(w) + "-7dd8c6474c", UID: uid(2, w, 0), Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}},
	}}
	rs.Spec.Replicas, rs.Status.Replicas = d.Spec.Replicas, podsPerWorkload
	return d, rs
}

func uid(kind, w, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4c6d-9a3e-%012x", w, kind, i))
}

// pod is a bound, Ready pod as the scheduler leaves it. One workload in ten has
// its highest spot slot borrowed.
func pod(s size, w, i int) *corev1.Pod {
	on := rule.TypeOf(i)
	if w%10 == 0 && i == podsPerWorkload-1 {
		on = capacity.OnDemand
	}
	rs := app(w) + "-7dd8c6474c"
	p := builders.Pod(app(w), fmt.Sprintf("%s-%05d", rs, i*7919%100_000))
	p.Namespace, p.UID, p.CreationTimestamp = s.namespace(w), uid(3, w, i), metav1.NewTime(began.Add(time.Duration(w*podsPerWorkload+i)*time.Millisecond))
	p.Labels = map[string]string{
		"app": app(w), "app.kubernetes.io/name": app(w), "app.kubernetes.io/instance": app(w), "app.kubernetes.io/part-of": "shop",
		"app.kubernetes.io/managed-by": "Helm", "pod-template-hash": "7dd8c6474c",
	}
	p.Annotations = map[string]string{
		v1alpha1.SlotAnnotation: strconv.Itoa(i), v1alpha1.CapacityTypeAnnotation: rule.TypeOf(i).String(),
		v1alpha1.MixAnnotation: "capacitymix/" + app(w), v1alpha1.PodDeletionCostAnnotation: "-" + strconv.Itoa(i),
		"prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef",
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs, UID: uid(2, w, 0), Controller: new(true)}}
	p.Spec.NodeName = nodeFor(s, on, w*podsPerWorkload+i)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	return p
}
