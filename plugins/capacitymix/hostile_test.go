// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/plugintest"
)

// What one input may take: far above what it takes on a busy machine, and far
// below what an unbounded number or text takes.
const (
	hostileTime = 5 * time.Second
	hostileHeap = 16 << 20
)

var (
	hostileNumbers = rapid.OneOf(
		rapid.SampledFrom([]string{"", "0", "-1", "-0", "007", "1e9", "NaN", "50%", "1048575", "1048576", "2147483647", "2147483648", "9223372036854775808", strings.Repeat("9", 300)}),
		rapid.Map(rapid.Int(), strconv.Itoa),
	)
	hostileTexts = rapid.OneOf(
		rapid.SampledFrom([]string{"", "web", "a/b", "\x00", "\xff\xfe", "uid/spot", strings.Repeat("x", 300), strings.Repeat("ä", 128<<10)}),
		rapid.String(),
	)
	hostileValues = rapid.OneOf(hostileNumbers, hostileTexts)
	hostileInts   = rapid.OneOf(rapid.SampledFrom([]int32{0, 1, -1, 50, 100, 101, math.MaxInt32, math.MinInt32}), rapid.Int32())
)

// hostilePod is a pod in which everything that a tenant writes is anything.
func hostilePod(t *rapid.T, i int) *corev1.Pod {
	pod := plugintest.Pod("web", i)
	pod.ResourceVersion = rapid.SampledFrom([]string{"", "1", "x", "18446744073709551616"}).Draw(t, "version")
	pod.OwnerReferences[0] = metav1.OwnerReference{
		APIVersion: rapid.SampledFrom([]string{"apps/v1", "batch/v1", "v1", "", "a/b/c", "example.com/v1"}).Draw(t, "api"),
		Kind:       rapid.SampledFrom([]string{"ReplicaSet", "StatefulSet", "Job", "Deployment", "DaemonSet", "Node", "Set", ""}).Draw(t, "kind"),
		Name:       hostileTexts.Draw(t, "owner"), UID: types.UID(hostileTexts.Draw(t, "uid")), Controller: new(rapid.Bool().Draw(t, "controller")),
	}
	pod.Annotations = map[string]string{}
	for _, key := range []string{
		v1alpha1.SpotPercentAnnotation, v1alpha1.MinOnDemandAnnotation, v1alpha1.SlotAnnotation, v1alpha1.ClaimAnnotation, v1alpha1.FallbackAnnotation,
		v1alpha1.UngateReasonAnnotation, v1alpha1.PodDeletionCostAnnotation, batchv1.JobCompletionIndexAnnotation, "deployment.kubernetes.io/desired-replicas",
	} {
		if rapid.IntRange(0, 3).Draw(t, "has") == 0 {
			pod.Annotations[key] = hostileValues.Draw(t, key)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "claimed") == 0 {
		pod.Annotations[v1alpha1.ClaimAnnotation] = string(pod.UID) + "/" + rapid.SampledFrom([]string{"spot", "on-demand", "x"}).Draw(t, "type")
	}
	for name := range pod.Spec.Containers[0].Resources.Requests {
		pod.Spec.Containers[0].Resources.Requests[name] = *resource.NewQuantity(rapid.Int64Range(0, math.MaxInt64).Draw(t, "request"), resource.DecimalSI)
	}
	for range rapid.IntRange(0, 3).Draw(t, "selectors") {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[rapid.SampledFrom([]string{"karpenter.sh/capacity-type", "disk", ""}).Draw(t, "key")] = hostileTexts.Draw(t, "value")
	}
	pod.Status.NominatedNodeName = rapid.SampledFrom([]string{"", "", "s", "o", "none"}).Draw(t, "nominated")
	if rapid.Bool().Draw(t, "condition") {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message:            hostileTexts.Draw(t, "before") + "spot" + stages.HadNoCapacity + hostileTexts.Draw(t, "time"),
			LastTransitionTime: metav1.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "since"), 0),
		}}
	}
	return pod
}

func hostileMix(t *rapid.T) *v1alpha1.CapacityMix {
	return plugintest.CapacityMix("web", hostileInts.Draw(t, "percent"), hostileInts.Draw(t, "floor"), func(cm *v1alpha1.CapacityMix) {
		cm.Generation = rapid.Int64().Draw(t, "generation")
		cm.Spec.MaxSpot = rapid.Ptr(hostileInts, true).Draw(t, "maxSpot")
		cm.Spec.SpotWaitSeconds = rapid.Ptr(hostileInts, true).Draw(t, "wait")
		cm.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailable(rapid.SampledFrom([]string{"", "Wait", "OnDemand", "x"}).Draw(t, "unavailable"))
	})
}

// hostileCluster is the plugin that all inputs are given to, one after the other.
func hostileCluster(t testing.TB) *fixture {
	f := newFixture(t, plugintest.Args(), twoNodes)
	f.plugin.Events = events.NewRecorder(func() clientevents.EventRecorder { return &clientevents.FakeRecorder{} })
	return f
}

// schedule runs a pod through everything that it runs through until it is deleted.
func (f *fixture) schedule(pod *corev1.Pod) {
	f.addPod(pod)
	f.plugin.PreEnqueue(f.ctx, pod)
	for range 6 {
		state := framework.NewCycleState()
		if _, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos); !status.IsSuccess() {
			continue
		}
		for _, info := range f.infos {
			f.plugin.Filter(f.ctx, state, pod, info)
		}
		f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
		f.plugin.PreScore(f.ctx, state, pod, f.infos)
		f.plugin.Reserve(f.ctx, state, pod, "s")
		f.plugin.Unreserve(f.ctx, state, pod, "s")
	}
	gated := pod.DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	_, _, _ = f.ungater.Patch(gated)
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "s"
	f.addPod(bound)
}

func (f *fixture) survives(t *rapid.T) {
	before, began := builders.Heap(), bench.ProcessorTime()
	f.plugin.MixHandler().OnAdd(hostileMix(t), false)
	var pods []*corev1.Pod
	for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
		pod := hostilePod(t, i)
		f.cluster.SetPods(t, pod)
		pods = append(pods, pod)
		f.schedule(pod)
	}
	assert.Less(t, bench.ProcessorTime()-began, hostileTime)
	assert.Less(t, int64(builders.Heap())-int64(before), int64(hostileHeap))
	for _, pod := range pods {
		f.cluster.DeletePod(t, pod)
		f.deletePod(pod)
	}
	groups, records := f.plugin.Ledger.Size()
	assert.Zero(t, groups+records, "nothing stays of pods that are gone")
	assert.Zero(t, f.plugin.Timers.Len())
}

func TestNoPodAndNoMixTakesMuchTimeOrMemory(t *testing.T) {
	f := hostileCluster(t)
	rapid.Check(t, f.survives)
}

func FuzzHostilePods(f *testing.F) {
	cluster := hostileCluster(f)
	f.Fuzz(rapid.MakeFuzz(cluster.survives))
}
