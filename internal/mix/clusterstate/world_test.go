// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// epoch is when the oldest pod of these tests was made.
var epoch = time.Unix(1_700_000_000, 0)

const (
	namespaceName = "shop"
	scheduler     = "berth-scheduler"
)

// options are those of a cluster state whose default mix is 70 % spot, at least 2 on on-demand.
func options() Options {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	if err != nil {
		panic(err)
	}
	return Options{
		Classifier: classifier, SpreadSpotOver: []string{"rack"},
		Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth, governing.PrefixSpotalis}}, Mixes: governing.NewRegistry(),
		Defaults: map[string]*governing.Mix{scheduler: {Source: governing.SourceDefault, Mix: split.New(70, 2), BorrowOnDemand: true}},
	}
}

func newClusterState() *State { return New(options()) }

// a changes an object of a test.
type a[T any] func(T)

func podNamed(name string, changes ...a[*corev1.Pod]) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceName, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(epoch),
		Labels: map[string]string{"app": "web"},
	}}
	p.Spec.SchedulerName = scheduler
	for _, change := range changes {
		change(p)
	}
	return p
}

func on(node string) a[*corev1.Pod] {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

func slot(n int) a[*corev1.Pod] { return annotated(v1alpha1.SlotAnnotation, fmt.Sprint(n)) }

func annotated(key, value string) a[*corev1.Pod] {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func made(seconds int) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
	}
}

func owned(o metav1.Object) a[*corev1.Pod] {
	apiVersion, kind := "apps/v1", "ReplicaSet"
	switch o.(type) {
	case *appsv1.StatefulSet:
		kind = "StatefulSet"
	case *appsv1.Deployment:
		kind = "Deployment"
	case *batchv1.Job:
		apiVersion, kind = "batch/v1", "Job"
	}
	return ownedBy(apiVersion, kind, o.GetName(), o.GetUID())
}

func ownedBy(apiVersion, kind, name string, uid types.UID) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
}

func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
}

// limitedTo is what the scheduler's patch leaves of the gate.
func limitedTo(t capacity.Type) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Spec.SchedulingGates = nil
		annotated(v1alpha1.ClaimAnnotation, gate.ClaimOf(p, t))(p)
		gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}.Limit(&p.Spec, t)
	}
}

func ready(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)})
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }

func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func asks(cpu, memory string) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: requestsOf(cpu, memory)}})
	}
}

func requestsOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func nodeOf(name string, t capacity.Type, changes ...a[*corev1.Node]) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if t != capacity.Unknown {
		n.Labels = map[string]string{"karpenter.sh/capacity-type": t.String()}
	}
	n.Status.Allocatable = requestsOf("4", "8Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
	for _, change := range changes {
		change(n)
	}
	return n
}

func departing(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
}

func replicaSet(name string, replicas int32, changes ...a[*appsv1.ReplicaSet]) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName, Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
	rs.Spec.Replicas = &replicas
	rs.Status.Replicas = replicas
	for _, change := range changes {
		change(rs)
	}
	return rs
}

func under(d *appsv1.Deployment) a[*appsv1.ReplicaSet] {
	return func(rs *appsv1.ReplicaSet) {
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}}
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName, Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
	d.Spec.Replicas = &replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: replicas, UpdatedReplicas: replicas}
	return d
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName, Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
	s.Spec.Replicas = &replicas
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: replicas, UpdatedReplicas: replicas, CurrentRevision: "a", UpdateRevision: "a"}
	return s
}

func job(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName, Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
}

// fill puts objects of any kind into a cluster state.
func fill(f *State, objects ...metav1.Object) *State {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Pod:
			f.SetPod(o)
		case *corev1.Node:
			f.SetNode(o)
		default:
			f.SetOwner(o)
		}
	}
	return f
}
