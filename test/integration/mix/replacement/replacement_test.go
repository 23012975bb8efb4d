// SPDX-License-Identifier: Apache-2.0

// Package replacement_test has the real controller judge replicas whose owners would create another pod than the one that
// runs, or none.
package replacement_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
	group    = "test.example.com"

	// letGo bounds the time from the moment when a move becomes possible until all are made: a replica whose replacement was
	// refused rests for half a minute.
	letGo = 100 * time.Second
)

// change is how a template becomes one whose pod is not moved, and what is then reported.
type change struct {
	name   string
	to     func(*corev1.PodTemplateSpec)
	reason string
	words  []string
}

var changes = []change{
	{"large", builders.CPU("20"), "InsufficientCapacity", []string{"Insufficient cpu", "which is created from spec.template of"}},
	{"elsewhere", builders.SchedulerName("other"), "OtherScheduler", []string{"spec.schedulerName", "created from spec.template of", "is other"}},
	{"pinned", builders.OnNodesWith(cluster.CapacityTypeLabel, spot), "Pinned", []string{"spec.nodeSelector", "created from spec.template of"}},
}

// judged is a workload of four on on-demand, of which half belongs on spot.
type judged struct {
	name   string
	create func(w *testenv.World, lane testenv.Lane)
	// spoil makes it one whose replacement is not what runs.
	spoil  func(w *testenv.World, lane testenv.Lane)
	reason string
	words  []string
}

// kind is one of owner, whose pods and whose template differ.
type kind struct {
	name   string
	create func(w *testenv.World, lane testenv.Lane)
	spoil  func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec))
}

func kinds() []kind {
	return []kind{
		{
			"rs", func(w *testenv.World, lane testenv.Lane) { w.Create(builders.ReplicaSet(string(lane), 4, lane.Pods)) },
			func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec)) {
				testenv.Patch(w, testenv.Read(w, string(lane), &appsv1.ReplicaSet{}), func(o *appsv1.ReplicaSet) { to(&o.Spec.Template) })
			},
		},
		{
			"sts", func(w *testenv.World, lane testenv.Lane) {
				s := builders.StatefulSet(string(lane), 4, appsv1.ParallelPodManagement, lane.Pods)
				s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
				w.Create(s)
			},
			func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec)) {
				testenv.Patch(w, testenv.Read(w, string(lane), &appsv1.StatefulSet{}), func(o *appsv1.StatefulSet) { to(&o.Spec.Template) })
			},
		},
		{
			"rc", func(w *testenv.World, lane testenv.Lane) {
				t := builders.PodTemplate(string(lane), lane.Pods)
				w.Create(&corev1.ReplicationController{
					ObjectMeta: metav1.ObjectMeta{Name: string(lane)},
					Spec:       corev1.ReplicationControllerSpec{Replicas: new(int32(4)), Selector: builders.Labels(string(lane)), Template: &t},
				})
			},
			func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec)) {
				testenv.Patch(w, testenv.Read(w, string(lane), &corev1.ReplicationController{}),
					func(o *corev1.ReplicationController) { to(o.Spec.Template) })
			},
		},
		{
			"rollout", func(w *testenv.World, lane testenv.Lane) {
				rs := builders.ReplicaSet(string(lane), 4, lane.Pods)
				rs.OwnerReferences = []metav1.OwnerReference{own(w, "argoproj.io/v1alpha1", "Rollout", string(lane), nil)}
				w.Create(rs)
			},
			func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec)) {
				testenv.Patch(w, testenv.Read(w, string(lane), &appsv1.ReplicaSet{}), func(o *appsv1.ReplicaSet) { to(&o.Spec.Template) })
			},
		},
		{
			"custom", func(w *testenv.World, lane testenv.Lane) {
				t := builders.PodTemplate(string(lane), lane.Pods)
				fourOwned(w, lane, own(w, group+"/v1", "Set", string(lane), &t))
			},
			func(w *testenv.World, lane testenv.Lane, to func(*corev1.PodTemplateSpec)) {
				o := &unstructured.Unstructured{}
				o.SetAPIVersion(group + "/v1")
				o.SetKind("Set")
				t := builders.PodTemplate(string(lane), lane.Pods, to)
				testenv.Patch(w, testenv.Read(w, string(lane), o), func(o *unstructured.Unstructured) { setTemplate(w, o, &t) })
			},
		},
	}
}

// own creates an owner of a kind that Kubernetes does not have, and returns the reference of what it controls.
func own(w *testenv.World, apiVersion, kind, name string, t *corev1.PodTemplateSpec) metav1.OwnerReference {
	w.T.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(4)}}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	if t != nil {
		setTemplate(w, o, t)
	}
	w.Create(o)
	return *metav1.NewControllerRef(o, o.GroupVersionKind())
}

func setTemplate(w *testenv.World, o *unstructured.Unstructured, t *corev1.PodTemplateSpec) {
	w.T.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t)
	require.NoError(w.T, err)
	require.NoError(w.T, unstructured.SetNestedMap(o.Object, raw, "spec", "template"))
}

// fourOwned creates the pods that an operator of another project would.
func fourOwned(w *testenv.World, lane testenv.Lane, owner metav1.OwnerReference) {
	w.T.Helper()
	for i := range 4 {
		w.Create(builders.Pod(string(lane), fmt.Sprintf("%s-%d", lane, i), lane.Pods, builders.OwnedBy(owner)))
	}
}

// shrink resizes all pods in place to 100m.
func shrink(w *testenv.World, lane testenv.Lane) {
	w.T.Helper()
	for _, p := range w.Live(string(lane)) {
		p.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: p.Spec.Containers[0].Resources.Requests}
		p.Status.ContainerStatuses[0].AllocatedResources = p.Spec.Containers[0].Resources.Requests
		_, err := w.Kube.CoreV1().Pods(w.Namespace).UpdateStatus(w.Ctx, &p, metav1.UpdateOptions{})
		require.NoError(w.T, err)
		now := testenv.Read(w, p.Name, &corev1.Pod{})
		now.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
		_, err = w.Kube.CoreV1().Pods(w.Namespace).UpdateResize(w.Ctx, p.Name, now, metav1.UpdateOptions{})
		require.NoError(w.T, err)
	}
}

func rows() (all []judged) {
	for _, k := range kinds() {
		for _, c := range changes {
			all = append(all, judged{
				name: k.name + "-" + c.name, create: k.create, reason: c.reason, words: c.words,
				spoil: func(w *testenv.World, lane testenv.Lane) { k.spoil(w, lane, c.to) },
			})
		}
	}
	large := builders.CPU("4")
	return append(all,
		judged{
			name: "deployment-resized", spoil: shrink, reason: "InsufficientCapacity", words: []string{"Insufficient cpu", "spec.template of ReplicaSet"},
			create: func(w *testenv.World, lane testenv.Lane) {
				w.Create(builders.Deployment(string(lane), 4, lane.Pods, large))
			},
		},
		judged{ // below its partition, pods come of the old revision, whatever the template is
			name: "partition-resized", reason: "InsufficientCapacity", words: []string{"Insufficient cpu", "ControllerRevision partition-resized-"},
			create: func(w *testenv.World, lane testenv.Lane) {
				s := builders.StatefulSet(string(lane), 4, appsv1.ParallelPodManagement, lane.Pods, large)
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(4))}
				w.Create(s)
			},
			spoil: func(w *testenv.World, lane testenv.Lane) {
				shrink(w, lane)
				testenv.Patch(w, testenv.Read(w, string(lane), &appsv1.StatefulSet{}),
					func(o *appsv1.StatefulSet) { builders.CPU("100m")(&o.Spec.Template) })
			},
		},
		judged{ // no parameters: no partition
			name: "rolling-resized", spoil: shrink, reason: "InsufficientCapacity", words: []string{"Insufficient cpu", "spec.template of StatefulSet rolling-resized"},
			create: func(w *testenv.World, lane testenv.Lane) {
				s := builders.StatefulSet(string(lane), 4, appsv1.ParallelPodManagement, lane.Pods, large)
				s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
				w.Create(s)
			},
		},
		judged{ // an update by a partition, which keeps some pods
			name: "custom-updating", reason: "ReplacementUnknown",
			words: []string{"Set custom-updating may create the next pod from another template", "new and old of the label controller-revision-hash"},
			create: func(w *testenv.World, lane testenv.Lane) {
				t := builders.PodTemplate(string(lane), lane.Pods)
				owner := own(w, group+"/v1", "Set", string(lane), &t)
				for i := range 4 {
					w.Create(builders.Pod(string(lane), fmt.Sprintf("%s-%d", lane, i), lane.Pods, builders.OwnedBy(owner), func(p *corev1.PodTemplateSpec) {
						p.Labels[appsv1.ControllerRevisionHashLabelKey] = []string{"old", "new"}[i/3]
					}))
				}
			},
		},
		judged{ // an update by a partition, which keeps all pods
			name: "custom-kept", reason: "ReplacementUnknown", words: []string{"status.updateRevision is kept-2, and status.currentRevision is kept-1"},
			create: func(w *testenv.World, lane testenv.Lane) {
				t := builders.PodTemplate(string(lane), lane.Pods)
				fourOwned(w, lane, own(w, group+"/v1", "Set", string(lane), &t))
			},
			spoil: func(w *testenv.World, lane testenv.Lane) {
				o := &unstructured.Unstructured{}
				o.SetAPIVersion(group + "/v1")
				o.SetKind("Set")
				testenv.Patch(w, testenv.Read(w, string(lane), o), func(o *unstructured.Unstructured) {
					o.Object["status"] = map[string]any{"currentRevision": "kept-1", "updateRevision": "kept-2"}
				})
			},
		},
		judged{
			name: "custom-plain", reason: "ReplacementUnknown", words: []string{"Set custom-plain has no spec.template"},
			create: func(w *testenv.World, lane testenv.Lane) {
				fourOwned(w, lane, own(w, group+"/v1", "Set", string(lane), nil))
			},
		},
		judged{
			name: "custom-closed", reason: "ReplacementUnknown", words: []string{"spec.template of Closed custom-closed", "forbidden", "the verb get"},
			create: func(w *testenv.World, lane testenv.Lane) {
				t := builders.PodTemplate(string(lane), lane.Pods)
				fourOwned(w, lane, own(w, group+"/v1", "Closed", string(lane), &t))
			},
		},
		judged{
			name: "custom-gone", reason: "ReplacementUnknown", words: []string{"spec.template of Absent owner", "does not exist"},
			create: func(w *testenv.World, lane testenv.Lane) {
				fourOwned(w, lane, metav1.OwnerReference{APIVersion: group + "/v1", Kind: "Absent", Name: "owner", UID: "absent"})
			},
		},
		judged{
			name: "deployment-direct", reason: "ReplacementUnknown", words: []string{"the controller of the pods is Deployment direct"},
			create: func(w *testenv.World, lane testenv.Lane) {
				d := builders.Deployment("direct", 0)
				w.Create(d)
				fourOwned(w, lane, *metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")))
			},
		},
	)
}

// newWorld serves kinds that Kubernetes does not have. The controller may read Sets.
func newWorld(t *testing.T) *testenv.World {
	t.Helper()
	w := testenv.New(t)
	for _, one := range [][2]string{{group, "Set"}, {group, "Closed"}} {
		require.NoError(t, w.Cluster.Apply(w.Ctx, builders.CRD(one[0], "v1", one[1], "")))
	}
	require.NoError(t, w.Cluster.Apply(w.Ctx, builders.CRD("argoproj.io", "v1alpha1", "Rollout", "")))
	w.Create(builders.Grant("sets", builders.User(cluster.BerthControllerUser), builders.Rule(group, []string{"sets"}, "get"))...)
	return w
}

func TestAReplacementThatWouldNotFitIsProvenAndNothingIsEvicted(t *testing.T) {
	w := newWorld(t)
	all := rows()
	var first, later []cluster.NodeSpec
	for _, j := range all {
		lane := testenv.Lane(j.name)
		first, later = append(first, lane.Node(onDemand, onDemand, "32")), append(later, lane.Node(spot, spot, "3"))
	}
	w.AddNodes(first...)
	for _, j := range all {
		w.Create(builders.CapacityMix(j.name, 50, 1))
		j.create(w, testenv.Lane(j.name))
	}
	for _, j := range all {
		w.WaitReady(j.name, 4)
		if j.spoil != nil {
			j.spoil(w, testenv.Lane(j.name))
		}
	}
	w.AddNodes(later...)
	before := w.UIDs()
	w.Controller(testenv.Impatient)
	for _, j := range all {
		message := w.WaitBlocked(j.name, j.reason, j.words...)
		t.Logf("%s: %s: %s", j.name, j.reason, message)
	}
	testenv.Stays(w, testenv.Holds, "nothing is evicted", 0, w.Evicted)
	assert.Equal(t, before, w.UIDs())
}
