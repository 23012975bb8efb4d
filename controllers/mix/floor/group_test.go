// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
)

// scene is a controller, with replicas of one ReplicaSet on an on-demand node, and a mix that protects all of them.
type scene struct {
	*Controller
	t     *testing.T
	kube  *kubefake.Clientset
	clock *clocktesting.FakeClock
	queue *counted
	mix   *v1alpha1.CapacityMix
	rs    *appsv1.ReplicaSet
}

// newScene has the budgets in the cache.
func newScene(t *testing.T, replicas int32, cached ...client.Object) *scene {
	t.Helper()
	s := &scene{t: t, kube: kubefake.NewClientset(), clock: clocktesting.NewFakeClock(noon), queue: &counted{}}
	s.mix = builders.CapacityMix("web", 50, replicas, builders.ProtectFloor)
	s.mix.Namespace, s.mix.UID = "shop", "uid-of-the-mix"
	mixes := governing.NewRegistry()
	require.NoError(t, mixes.Set(s.mix))
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	state := clusterstate.New(clusterstate.Options{
		Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: mixes,
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "on-demand"}}
	node.Labels = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	state.SetNode(node)
	s.rs = builders.ReplicaSet("web", replicas)
	s.rs.Namespace, s.rs.UID = "shop", types.UID(web.ID)
	state.SetOwner(s.rs)
	scheme := runtime.NewScheme()
	require.NoError(t, policyv1.AddToScheme(scheme))
	s.Controller = New(Options{
		State: state, Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached...).Build(), Kube: s.kube, Clock: s.clock,
		Decided: func(workloads.Decision) {},
	})
	s.Use(s.queue)
	s.MixChanged(s.mix, false)
	for i := range replicas {
		s.set(s.pod(fmt.Sprint("web-", i), labelledPod))
	}
	for _, o := range cached {
		s.budgets.set(o.(*policyv1.PodDisruptionBudget)) //nolint:forcetypeassert // nothing else is cached
	}
	return s
}

func labelledPod(p *corev1.Pod) { p.Labels[v1alpha1.FloorLabel] = governing.FloorLabel(web) }

func (s *scene) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: builders.Labels("web"),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
	p.Spec.NodeName, p.Spec.SchedulerName = "on-demand", "berth-scheduler"
	change(p)
	return p
}

// set adds a pod to the state and to the API server.
func (s *scene) set(p *corev1.Pod) {
	s.t.Helper()
	s.State.SetPod(p)
	require.NoError(s.t, s.kube.Tracker().Add(p))
}

// reconcile returns the verdict about the group.
func (s *scene) reconcile() (v floor.Verdict, wait time.Duration, err error) {
	wait, err = s.group(context.Background(), web)
	for _, r := range s.Reports("shop", "web") {
		v = r.Verdict
	}
	return v, wait, err
}

// writes counts the calls of a verb since the last count.
func (s *scene) writes(verb, resource string) (n int) {
	for _, a := range s.kube.Actions() {
		if a.Matches(verb, resource) {
			n++
		}
	}
	s.kube.ClearActions()
	return n
}

// fail has the API server answer with an error.
func (s *scene) fail(verb, resource string, err error) {
	s.kube.PrependReactor(verb, resource, func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// asWritten is what the controller writes for the scene.
func asWritten(minAvailable int) *policyv1.PodDisruptionBudget {
	b := kept(web)
	want := budgetOf(web, &governing.Mix{Source: "capacitymix/web", UID: "uid-of-the-mix"}, minAvailable)
	b.Spec.MinAvailable, b.Spec.MaxUnavailable = want.Spec.MinAvailable, nil
	b.Spec.UnhealthyPodEvictionPolicy = want.Spec.UnhealthyPodEvictionPolicy
	b.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "berth.dev/v1alpha1", Kind: "CapacityMix", Name: "web", UID: "uid-of-the-mix", Controller: new(true),
	}}
	return b
}

func TestAFloorIsProtectedOnceItsBudgetIsWritten(t *testing.T) {
	s := newScene(t, 2)
	v, _, err := s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, v.Reason)
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"))

	s.clock.Step(firstDelay) // another client deletes it
	v, _, err = s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, v.Reason)
	s.clock.Step(firstDelay)
	v, wait, _ := s.reconcile()
	assert.Equal(t, v1alpha1.ReasonFloorPending, v.Reason, "it is not written again yet")
	assert.Positive(t, wait)
}

func TestAnErrorIsTheVerdict(t *testing.T) {
	s := newScene(t, 2)
	s.fail("patch", "poddisruptionbudgets", errors.New("webhook answers 500"))
	for range 2 { // the second time it waits
		v, _, _ := s.reconcile()
		assert.Equal(t, v1alpha1.ReasonBudgetRefused, v.Reason)
		assert.Contains(t, v.Message, "webhook answers 500")
	}
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"))

	s = newScene(t, 2, asWritten(2))
	s.State.SetPod(s.pod("web-0", func(*corev1.Pod) {}))
	s.fail("patch", "pods", errors.New("webhook answers 500"))
	_, _, err := s.reconcile()
	require.Error(t, err)
	v, _, _ := s.reconcile()
	assert.Equal(t, v1alpha1.ReasonBudgetRefused, v.Reason, "the label is one of the first")
}

func TestTheBudgetStaysWhileTheOnlyReplicaIsReleased(t *testing.T) {
	s := newScene(t, 1, asWritten(1))
	v, _, err := s.reconcile()
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ReasonBudgetsKept, v.Reason)
	after := s.pod("web-0", labelledPod)
	after.OwnerReferences[0].Controller = nil
	after.OwnerReferences = append(after.OwnerReferences,
		metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-of-deployment", Controller: new(true)})
	after.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{Group: web.ID, ReplicaSet: s.rs.UID}.Value(after.UID)}
	after.Spec.ActiveDeadlineSeconds = new(int64(3600))
	s.State.SetPod(after)
	_, _, err = s.reconcile()
	require.NoError(t, err)
	assert.Zero(t, s.writes("delete", "poddisruptionbudgets"))

	s.MixChanged(s.mix, true)
	_, _, err = s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, 1, s.writes("delete", "poddisruptionbudgets"), "the mix is gone")
}

// A released replica that is evicted has no label any more: the disruption controller may count it for a moment, and allow an eviction.
func TestABudgetRequiresLessOnlyAfterAWhile(t *testing.T) {
	s := newScene(t, 2, asWritten(3))
	v, wait, err := s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, recountAgain, wait)
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, v.Reason, "more than the floor is protected")
	s.clock.Step(recountAgain / 2)
	_, wait, err = s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, recountAgain/2, wait)
	assert.Zero(t, s.writes("patch", "poddisruptionbudgets"))
	s.clock.Step(recountAgain / 2)
	_, wait, err = s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"))
	assert.Equal(t, recountAgain, wait, "it is touched once more: the disruption controller may have seen the pod later")

	s = newScene(t, 2, asWritten(5))
	n := func() time.Duration { return s.lowers(web, asWritten(5), 4) }
	assert.Equal(t, recountAgain, n())
	s.clock.Step(recountAgain - time.Millisecond)
	assert.Equal(t, time.Millisecond, n())
	assert.Equal(t, recountAgain, s.lowers(web, asWritten(5), 3), "another pod has gone just now")

	s = newScene(t, 2, asWritten(1))
	_, _, err = s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"), "it requires more at once")
	assert.Empty(t, s.lower)
}

func TestARemovedLabelTouchesTheBudget(t *testing.T) {
	s := newScene(t, 2, asWritten(2))
	orphan := s.pod("orphan", labelledPod)
	orphan.OwnerReferences = nil
	s.set(orphan)
	_, wait, err := s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, recountAgain, wait)
	left, err := s.kube.CoreV1().Pods("shop").Get(t.Context(), "orphan", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, left.Labels, v1alpha1.FloorLabel)
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"))
	s.State.SetPod(left)
	for range 3 {
		s.clock.Step(recountAgain)
		_, _, err = s.reconcile()
		require.NoError(t, err)
	}
	assert.Equal(t, 1, s.writes("patch", "poddisruptionbudgets"), "once more, for its event may have been the first")
	assert.Empty(t, s.lost)
	assert.Empty(t, s.touched)
}

func TestADeleteIsNotRepeated(t *testing.T) {
	s := newScene(t, 1)
	b := asWritten(1)
	for range 3 {
		_, err := s.remove(t.Context(), b)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, s.writes("delete", "poddisruptionbudgets"), "the watch may be behind")
	b = asWritten(1)
	b.UID, b.DeletionTimestamp = "another", new(metav1.Now())
	_, err := s.remove(t.Context(), b)
	require.NoError(t, err)
	assert.Zero(t, s.writes("delete", "poddisruptionbudgets"), "a finalizer keeps it")

	for i := range 1000 {
		b := asWritten(1)
		b.Name, b.UID = fmt.Sprint("b", i), types.UID(fmt.Sprint(i))
		_, err := s.remove(t.Context(), b)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, s.writes("delete", "poddisruptionbudgets"), burst/2)
}
