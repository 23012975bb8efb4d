// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// groupLabels does what the webhook of LeaderWorkerSet does: leaders get index and key of their group, and workers their index, when
// they are created. Both follow from the name, by which the StatefulSet controller numbers its pods. The key of the real webhook is a
// hash of it.
const groupLabels = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: test-leaderworkerset-pods}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
  matchConditions:
  - name: of-a-set
    expression: "'leaderworkerset.sigs.k8s.io/name' in object.metadata.?labels.orValue({})"
  variables:
  - name: number
    expression: object.metadata.name.substring(object.metadata.name.lastIndexOf('-') + 1)
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        'leaderworkerset.sigs.k8s.io/worker-index' in object.metadata.labels ?
        [JSONPatch{op: 'add', path: '/metadata/labels/leaderworkerset.sigs.k8s.io~1group-index', value: variables.number},
        JSONPatch{op: 'add', path: '/metadata/labels/leaderworkerset.sigs.k8s.io~1group-key', value: 'key-of-' + object.metadata.name}] :
        [JSONPatch{op: 'add', path: '/metadata/labels/leaderworkerset.sigs.k8s.io~1worker-index', value: variables.number}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: test-leaderworkerset-pods}
spec:
  policyName: test-leaderworkerset-pods
`

func groupKeyOf(set string, index int) string { return fmt.Sprintf("key-of-%s-%d", set, index) }

// leaderWorkers is a LeaderWorkerSet with the restart policy RecreateGroupOnPodRestart, which is its default. Its pods are made by the
// real controller of StatefulSets and collected by the real garbage collector; the rest of its controller is here.
type leaderWorkers struct {
	*testenv.World
	app     string
	size    int
	leaders *appsv1.StatefulSet
	workers []func(*corev1.PodTemplateSpec)
}

// newLeaderWorkers makes a LeaderWorkerSet without groups, each of which will have so many pods.
func newLeaderWorkers(w *testenv.World, app string, size int, template ...func(*corev1.PodTemplateSpec)) *leaderWorkers {
	w.T.Helper()
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, groupLabels))
	w.Succeeds("pods get the labels of their group", func() error {
		p := builders.Pod("probe", "probe-7", labeled(setName, "probe", workerIndex, "0"))
		if err := w.DryRun(p); err != nil || p.Labels[groupIndex] != "7" {
			return fmt.Errorf("%v: %w", p.Labels, err)
		}
		return nil
	})
	o := &leaderWorkers{World: w, app: app, size: size, workers: template}
	leaders := builders.StatefulSet(app, 0, appsv1.ParallelPodManagement, append(template, labeled(setName, app, workerIndex, "0"))...)
	leaders.Spec.Selector.MatchLabels = map[string]string{setName: app, workerIndex: "0"}
	leaders.OwnerReferences = []metav1.OwnerReference{*controllerRef(w, custom(w, leaderWorkerSet, app, nil))}
	w.Create(leaders)
	o.leaders = leaders
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan struct{})
	w.T.Cleanup(func() { cancel(); <-done })
	go func() { defer close(done); o.run(ctx) }()
	return o
}

func (o *leaderWorkers) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.reconcile(ctx) // what fails is tried again at the next tick
		}
	}
}

// reconcile makes the workers of leaders that have none, and deletes leaders of which a worker is being deleted.
func (o *leaderWorkers) reconcile(ctx context.Context) {
	var pods corev1.PodList
	var sets appsv1.StatefulSetList
	in := client.InNamespace(o.Namespace)
	if o.Client.List(ctx, &pods, in, client.MatchingLabels{setName: o.app}) != nil || o.Client.List(ctx, &sets, in) != nil {
		return
	}
	leaderOf := map[types.UID]types.UID{} // by the StatefulSet of the workers
	taken := map[string]bool{}
	for i := range sets.Items {
		taken[sets.Items[i].Name] = true
		if ref := metav1.GetControllerOf(&sets.Items[i]); ref != nil {
			leaderOf[sets.Items[i].UID] = ref.UID
		}
	}
	broken := map[types.UID]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Labels[workerIndex] != "0" && p.DeletionTimestamp != nil {
			broken[leaderOf[metav1.GetControllerOf(p).UID]] = true
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case p.Labels[workerIndex] != "0" || p.DeletionTimestamp != nil:
		case broken[p.UID]:
			_ = client.IgnoreNotFound(o.Client.Delete(ctx, p, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		case !taken[p.Name]:
			if err := o.Client.Create(ctx, o.workersOf(p)); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				o.T.Logf("create the workers of %s: %v", p.Name, err)
			}
		}
	}
}

// workersOf makes the StatefulSet of the workers of a leader, which owns it.
func (o *leaderWorkers) workersOf(leader *corev1.Pod) *appsv1.StatefulSet {
	group := []string{setName, o.app, groupIndex, leader.Labels[groupIndex], groupKey, leader.Labels[groupKey]}
	s := builders.StatefulSet(o.app, int32(o.size-1), appsv1.ParallelPodManagement, append(o.workers, labeled(group...))...)
	s.Name, s.Namespace = leader.Name, leader.Namespace
	s.Labels = map[string]string{setName: o.app}
	s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
	s.Spec.Selector.MatchLabels = map[string]string{
		setName: o.app, groupIndex: leader.Labels[groupIndex], groupKey: leader.Labels[groupKey],
	}
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(leader, corev1.SchemeGroupVersion.WithKind("Pod"))}
	return s
}
