// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The labels of LeaderWorkerSet.
const (
	setName     = "leaderworkerset.sigs.k8s.io/name"
	groupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	groupKey    = "leaderworkerset.sigs.k8s.io/group-key"
	workerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
)

// leaderWorkers is a LeaderWorkerSet with the restart policy RecreateGroupOnPodRestart, which is its default.
type leaderWorkers struct {
	*testenv.World
	app  string
	size int
	set  *unstructured.Unstructured
}

// newLeaderWorkers makes a LeaderWorkerSet without groups, each of which will have so many pods.
func newLeaderWorkers(w *testenv.World, app string, size int, template ...func(*corev1.PodTemplateSpec)) *leaderWorkers {
	w.T.Helper()
	w.Operator(cluster.LWS)
	pods, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(builders.PodTemplate(app, template...)))
	require.NoError(w.T, err)
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(0),
		"leaderWorkerTemplate": map[string]any{
			"size": int64(size), "workerTemplate": pods, "restartPolicy": "RecreateGroupOnPodRestart",
		},
	}}}
	set.SetGroupVersionKind(leaderWorkerSet)
	set.SetName(app)
	w.Create(set)
	return &leaderWorkers{World: w, app: app, size: size, set: set}
}

// change sets a field of the spec.
func (o *leaderWorkers) change(value any, path ...string) {
	o.T.Helper()
	testenv.Patch(o.World, o.set, func(s *unstructured.Unstructured) {
		require.NoError(o.T, unstructured.SetNestedField(s.Object, value, append([]string{"spec"}, path...)...))
	})
}

// scale sets the number of groups.
func (o *leaderWorkers) scale(groups int) {
	o.T.Helper()
	o.change(int64(groups), "replicas")
}

// scaleTo scales a LeaderWorkerSet, and waits until it has so many groups whose pods are all bound, each whole on its type.
func (o *leaderWorkers) scaleTo(groups int, m split.Mix) map[int]string {
	o.T.Helper()
	o.scale(groups)
	return o.waitUnits(groups, m)
}

// waitUnits waits until so many groups have all their pods, Ready, and demands the exact split of whole groups.
func (o *leaderWorkers) waitUnits(groups int, m split.Mix) map[int]string {
	o.T.Helper()
	pods := o.WaitReady(o.app, groups*o.size)
	o.requireSlots(pods)
	return requireUnits(o.World, byLabel(pods, groupKey), o.size, m)
}

// requireSlots demands that the slot of each of some pods is the index of its group.
func (o *leaderWorkers) requireSlots(pods []corev1.Pod) {
	o.T.Helper()
	for i := range pods {
		require.Equal(o.T, pods[i].Labels[groupIndex], fmt.Sprint(slotOf(o.T, &pods[i])), "the slot of pod %s", pods[i].Name)
	}
}

// group returns the pods of a group, without those that are terminating.
func (o *leaderWorkers) group(index int) []corev1.Pod {
	o.T.Helper()
	return having(o.Live(o.app), groupIndex, fmt.Sprint(index))
}
