// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

// Live returns the pods of an app that are not terminating or finished, oldest first.
func (w *World) Live(app string) []corev1.Pod {
	w.T.Helper()
	pods := slices.DeleteFunc(w.Pods(client.MatchingLabels(builders.Labels(app))), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods
}

// Where returns those of some pods that are so.
func Where(pods []corev1.Pod, is func(*corev1.Pod) bool) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !is(&p) })
}

// NodesOf counts pods by their node.
func NodesOf(pods []corev1.Pod) map[string]int {
	nodes := map[string]int{}
	for _, p := range pods {
		nodes[p.Spec.NodeName]++
	}
	return nodes
}

// PodCondition returns a condition of a pod, an empty one if there is none.
func PodCondition(p *corev1.Pod, name corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return corev1.PodCondition{}
}

// UIDs returns the names of the test's pods by UID: which ones they are.
func (w *World) UIDs() map[types.UID]string {
	w.T.Helper()
	all := map[types.UID]string{}
	for _, p := range w.Pods() {
		all[p.UID] = p.Name
	}
	return all
}

// Types returns the capacity type of every node, by the test cluster's label.
func (w *World) Types() map[string]capacity.Type {
	w.T.Helper()
	types := map[string]capacity.Type{}
	for _, n := range List(w, &corev1.NodeList{}).Items {
		types[n.Name], _ = capacity.ParseType(n.Labels[cluster.CapacityTypeLabel])
	}
	return types
}

// Split is where the live pods of a workload are.
type Split struct{ Spot, OnDemand, Unknown, Pending int }

// SplitBy is where n pods of a mix are once all are bound.
func SplitBy(m split.Mix, n int) Split { return Split{Spot: m.Spot(n), OnDemand: m.OnDemand(n)} }

func (s Split) String() string {
	return fmt.Sprintf("%d spot, %d on-demand, %d unknown, %d pending", s.Spot, s.OnDemand, s.Unknown, s.Pending)
}

// SplitOf counts pods by the type they run on.
func (w *World) SplitOf(pods []corev1.Pod) Split {
	w.T.Helper()
	types := w.Types()
	var s Split
	for _, p := range pods {
		switch {
		case p.Spec.NodeName == "":
			s.Pending++
		case types[p.Spec.NodeName] == capacity.Spot:
			s.Spot++
		case types[p.Spec.NodeName] == capacity.OnDemand:
			s.OnDemand++
		default:
			s.Unknown++
		}
	}
	return s
}

// Split counts the live pods of an app by the type they run on.
func (w *World) Split(app string) Split {
	w.T.Helper()
	return w.SplitOf(w.Live(app))
}

// WaitSplit waits until the live pods of an app are where they are wanted.
func (w *World) WaitSplit(app, what string, want Split) {
	w.T.Helper()
	Becomes(w, app+": "+what, want, func() Split { return w.Split(app) })
}

// StaysSplit checks for a while that the live pods of an app are where they are wanted.
func (w *World) StaysSplit(during time.Duration, app, what string, want Split) {
	w.T.Helper()
	Stays(w, during, app+": "+what, want, func() Split { return w.Split(app) })
}

// WaitBound waits until an app has n live pods and all are bound, and returns them.
func (w *World) WaitBound(app string, n int) []corev1.Pod {
	w.T.Helper()
	return w.waitPods(app, n, "bound", Bound)
}

// WaitReady waits until an app has n live pods and all are Ready, and returns them.
func (w *World) WaitReady(app string, n int) []corev1.Pod {
	w.T.Helper()
	return w.waitPods(app, n, "Ready", Ready)
}

func (w *World) waitPods(app string, n int, state string, is func(*corev1.Pod) bool) (pods []corev1.Pod) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%s has %d pods, all %s", app, n, state), func() (bool, string) {
		pods = w.Live(app)
		there := len(Where(pods, is))
		return len(pods) == n && there == n, fmt.Sprintf("%d pods, %d %s, %s", len(pods), there, state, w.SplitOf(pods))
	})
	return pods
}

// Bound reports whether a pod has a node.
func Bound(p *corev1.Pod) bool { return p.Spec.NodeName != "" }

// Ready reports whether a pod is Ready.
func Ready(p *corev1.Pod) bool {
	return PodCondition(p, corev1.PodReady).Status == corev1.ConditionTrue
}

// RequireExact waits until an app has n pods, all bound, and then demands the
// exact split of the mix, at once: every pod on the type of its slot, slots
// 0 to n-1 held once each.
func (w *World) RequireExact(app string, m split.Mix, n int) []corev1.Pod {
	w.T.Helper()
	pods := w.WaitBound(app, n)
	w.RequireExactPods(pods, m)
	return pods
}

// RequireExactPods demands the exact split of one group of bound pods.
func (w *World) RequireExactPods(pods []corev1.Pod, m split.Mix) {
	w.T.Helper()
	n := len(pods)
	require.Equal(w.T, SplitBy(m, n), w.SplitOf(pods), "where %d pods at %s are", n, m)
	slots := w.Slots(pods)
	for slot := range n {
		require.Contains(w.T, slots, slot, "slot %d of %d is held", slot, n)
	}
}

// Slots returns the pods by the slot on their annotation and fails the test if
// one is missing or held twice.
func (w *World) Slots(pods []corev1.Pod) map[int]*corev1.Pod {
	w.T.Helper()
	slots := map[int]*corev1.Pod{}
	for i := range pods {
		slot, ok := governing.ClaimedSlot(&pods[i])
		require.True(w.T, ok, "pod %s has a slot: %v", pods[i].Name, pods[i].Annotations)
		if other := slots[slot]; other != nil {
			assert.Fail(w.T, "a slot is held twice", "slot %d by %s and %s", slot, other.Name, pods[i].Name)
		}
		slots[slot] = &pods[i]
	}
	return slots
}

// Scale sets the replicas of a Deployment.
func (w *World) Scale(d *appsv1.Deployment, replicas int32) {
	w.T.Helper()
	Patch(w, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

// ScaleExactly scales a Deployment, and waits until it has so many Ready pods, exactly in their mix.
func (w *World) ScaleExactly(d *appsv1.Deployment, m split.Mix, replicas int32) []corev1.Pod {
	w.T.Helper()
	w.Scale(d, replicas)
	w.WaitReady(d.Name, int(replicas))
	return w.RequireExact(d.Name, m, int(replicas))
}

// SetPhase writes the phase of a pod, as its kubelet would. A pod that is bound runs first: KWOK, which starts it when it sees it, would
// else write Running over the phase.
func (w *World) SetPhase(pod string, phase corev1.PodPhase) error {
	w.T.Helper()
	w.Eventually("a bound pod has started", func() (bool, string) {
		p := &corev1.Pod{}
		err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: pod}, p)
		started := err == nil && (p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending)
		return started || apierrors.IsNotFound(err), fmt.Sprint(err, p.Status.Phase)
	})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: pod}}
	return w.Client.Status().Patch(w.Ctx, p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)))
}

// Roomy returns nodes of both types with more capacity than a test needs.
func Roomy() []cluster.NodeSpec {
	return append(cluster.Nodes("spot", 6), cluster.Nodes("on-demand", 4)...)
}

// Quota sets how much of a resource the test's namespace may have, and waits
// until that is in force.
func (w *World) Quota(resourceName corev1.ResourceName, limit int64) {
	w.T.Helper()
	hard := corev1.ResourceList{resourceName: *resource.NewQuantity(limit, resource.DecimalSI)}
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
	if err := w.Client.Create(w.Ctx, q); apierrors.IsAlreadyExists(err) {
		Patch(w, q, func(q *corev1.ResourceQuota) { q.Spec.Hard = hard })
	} else {
		require.NoError(w.T, err)
	}
	WaitFor(w, q.Name, "it is in force", func(q *corev1.ResourceQuota) bool {
		now, known := q.Status.Hard[resourceName]
		return known && now.Value() == limit
	})
}

// Unschedulable returns why a pod is unschedulable by its PodScheduled
// condition; empty if it is not.
func Unschedulable(p *corev1.Pod) string {
	if c := PodCondition(p, corev1.PodScheduled); c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c.Message
	}
	return ""
}

// WaitUnschedulable waits until n pods of an app have been found unschedulable
// and returns them.
func (w *World) WaitUnschedulable(app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s are unschedulable", n, app), func() (bool, string) {
		live := w.Live(app)
		pods = Where(live, func(p *corev1.Pod) bool { return !Bound(p) && Unschedulable(p) != "" })
		return len(pods) == n, fmt.Sprintf("%d unschedulable, %s", len(pods), w.SplitOf(live))
	})
	return pods
}

// Fill takes so many CPUs of a node with pods of one CPU each, which belong to
// no mix, and waits until they run there. It returns their app.
func (w *World) Fill(node string, cpus int, template ...func(*corev1.PodTemplateSpec)) (app string) {
	w.T.Helper()
	app = "fill-" + node
	changes := append([]func(*corev1.PodTemplateSpec){builders.CPU("1"), builders.OnNode(node)}, template...)
	for i := range cpus {
		w.Create(builders.Pod(app, fmt.Sprintf("%s-%d", app, i), changes...))
	}
	w.WaitBound(app, cpus)
	return app
}

// BerthEvents returns the events about an object that the scheduler records and
// the stock scheduler would not.
func (w *World) BerthEvents(name string) []corev1.Event {
	w.T.Helper()
	stock := []string{"Scheduled", "FailedScheduling", "Preempted"}
	return slices.DeleteFunc(w.Events(name), func(e corev1.Event) bool {
		return e.ReportingController != builders.Scheduler || slices.Contains(stock, e.Reason)
	})
}

// Resize changes in place what a pod requests of CPU, as a user or an autoscaler of pods does.
func (w *World) Resize(pod, cpu string) {
	w.T.Helper()
	p := Read(w, pod, &corev1.Pod{})
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	_, err := w.Kube.CoreV1().Pods(w.Namespace).UpdateResize(w.Ctx, pod, p, metav1.UpdateOptions{})
	require.NoError(w.T, err, "resize pod %s to %s", pod, cpu)
}

// ReportResources writes what a running pod has, as its kubelet does once a resize is done. KWOK reports no resources, and without
// them the API server refuses to resize the pod.
func (w *World) ReportResources(pod string) {
	w.T.Helper()
	p := WaitFor(w, pod, "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	before, has := p.DeepCopy(), p.Spec.Containers[0].Resources
	p.Status.ContainerStatuses[0].AllocatedResources, p.Status.ContainerStatuses[0].Resources = has.Requests, &has
	require.NoError(w.T, w.Client.Status().Patch(w.Ctx, p, client.MergeFrom(before)), "report the resources of pod %s", pod)
}
