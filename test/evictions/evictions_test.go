// SPDX-License-Identifier: Apache-2.0

// Package evictions_test has the controllers of EvictionRequests of Kubernetes 1.38 run beside a control plane of 1.37, which serves the API
// and has none. Berth answers requests of others for pods whose replicas are released before they go.
package evictions_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{FeatureGates: map[string]bool{"EvictionRequestAPI": true}}))
}

var surge = builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)

// newWorld is a world with the controllers of EvictionRequests.
func newWorld(t *testing.T) *testenv.World {
	t.Helper()
	w := testenv.New(t, testenv.Roomy()...)
	c, err := w.Cluster.StartEvictionControllers(context.WithoutCancel(w.Ctx), os.Stderr)
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	return w
}

// requestEviction is a request of someone else.
func requestEviction(w *testenv.World, p *corev1.Pod) *lifecyclev1alpha1.EvictionRequest {
	w.T.Helper()
	r := &lifecyclev1alpha1.EvictionRequest{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: lifecyclev1alpha1.EvictionRequestSpec{
		Target:    lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: p.Name, UID: p.UID}},
		Requester: "example.com/drain", Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
	}}
	r, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Create(w.Ctx, r, metav1.CreateOptions{})
	require.NoError(w.T, err)
	return r
}

// evictionOf is the Eviction of a pod, nil for none.
func evictionOf(w *testenv.World, p *corev1.Pod) *lifecyclev1alpha1.Eviction {
	w.T.Helper()
	all, err := w.Kube.LifecycleV1alpha1().Evictions(w.Namespace).List(w.Ctx, metav1.ListOptions{})
	require.NoError(w.T, err)
	for i := range all.Items {
		if all.Items[i].Spec.Target.Pod.UID == p.UID {
			return &all.Items[i]
		}
	}
	return nil
}

// answerTo is what Berth has answered to the request for a pod, and the state of its part.
func answerTo(w *testenv.World, p *corev1.Pod) (s lifecyclev1alpha1.ResponderStatus, state lifecyclev1alpha1.ResponderStateType) {
	w.T.Helper()
	e := evictionOf(w, p)
	if e == nil {
		return s, ""
	}
	for _, r := range e.Status.Responders {
		if r.Name == v1alpha1.EvictionResponder {
			s = r
		}
	}
	for _, r := range e.Status.TargetResponders {
		if r.Name == v1alpha1.EvictionResponder {
			state = r.State
		}
	}
	return s, state
}

func messageOf(s *lifecyclev1alpha1.ResponderStatus) string {
	if s.Message == nil {
		return ""
	}
	return *s.Message
}

// waitAnswer waits until the part of Berth in the eviction of a pod has a state.
func waitAnswer(w *testenv.World, p *corev1.Pod, want lifecyclev1alpha1.ResponderStateType) lifecyclev1alpha1.ResponderStatus {
	w.T.Helper()
	var s lifecyclev1alpha1.ResponderStatus
	w.Eventually(fmt.Sprintf("the part of Berth in the eviction of %s is %s", p.Name, want), func() (bool, string) {
		var state lifecyclev1alpha1.ResponderStateType
		s, state = answerTo(w, p)
		return state == want, string(state) + ": " + messageOf(&s)
	})
	return s
}

func waitEvicted(w *testenv.World, r *lifecyclev1alpha1.EvictionRequest) {
	w.T.Helper()
	w.Eventually("the request "+r.Name+" is carried out", func() (bool, string) {
		now, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Get(w.Ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return meta.IsStatusConditionTrue(now.Status.Conditions, string(lifecyclev1alpha1.EvictionConditionTargetEvicted)), fmt.Sprint(now.Status.Conditions)
	})
}

func names(p *corev1.Pod) bool {
	for _, r := range p.Spec.EvictionResponders {
		if r.Name == v1alpha1.EvictionResponder {
			return true
		}
	}
	return false
}

// A request for two of six replicas: both are replaced before they go, and no other one is moved.
func TestARequestCostsNoReplica(t *testing.T) {
	const replicas = 6
	w := newWorld(t)
	w.Webhook()
	web := builders.Deployment("web", replicas, builders.ReadyAfter(time.Second))
	w.Create(builders.CapacityMix("web", 50, 0, surge), web, builders.PodDisruptionBudget("web", builders.MinAvailable("100%")))
	list := w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout)
	for i := range list {
		require.True(t, names(&list[i]), list[i].Name)
	}
	w.WaitSatisfied("web")
	recording := w.Record("web")

	for i := range list[:2] {
		waitEvicted(w, requestEviction(w, &list[i]))
		s, state := answerTo(w, &list[i])
		assert.Equal(t, lifecyclev1alpha1.ResponderStateCompleted, state)
		assert.Equal(t, "The pod terminates.", messageOf(&s))
	}
	w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout)
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.Len(t, w.EvictionsOf("web"), 2, "by Berth, of the released replicas")
	w.WaitEvent("web", "a replica is released", func(e *corev1.Event) bool { return e.Reason == v1alpha1.EventReasonReleased })
}

func TestAWithdrawnRequestReleasesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.Webhook()
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", 4))
	list := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	testenv.End(c, true)
	r := requestEviction(w, &list[0])
	waitAnswer(w, &list[0], lifecyclev1alpha1.ResponderStateActive)
	_, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Patch(w.Ctx, r.Name, types.MergePatchType,
		[]byte(`{"spec":{"intent":"Withdrawn"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	waitAnswer(w, &list[0], lifecyclev1alpha1.ResponderStateCanceled)

	w.Controller(testenv.Impatient)
	w.Always(testenv.Holds, "no replica goes, and none is released", func() (bool, string) {
		live := w.Live("web")
		return len(live) == 4 && len(testenv.Where(live, func(p *corev1.Pod) bool { _, is := pods.ReleasedFrom(p); return is })) == 0, fmt.Sprint(len(live))
	})
	s, _ := answerTo(w, &list[0])
	assert.Nil(t, s.HeartbeatTime, "nothing is written")
}

// What Berth does not release, the evictor of Kubernetes evicts: at once, and not after twenty minutes.
func TestWhatBerthDoesNotReleaseIsEvictedByOthers(t *testing.T) {
	w := newWorld(t)
	w.Webhook()
	paused := func(cm *v1alpha1.CapacityMix) { cm.Spec.Rebalance.Paused = true }
	w.Create(builders.CapacityMix("web", 50, 0, surge, paused), builders.Deployment("web", 4))
	w.Create(builders.CapacityMix("set", 50, 0, surge), builders.StatefulSet("set", 2, appsv1.ParallelPodManagement))
	list, set := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout), w.WaitReady("set", 2)
	assert.False(t, names(&set[0]), "a StatefulSet has no replica that is released")
	waitEvicted(w, requestEviction(w, &list[0]))
	s, state := answerTo(w, &list[0])
	assert.Equal(t, lifecyclev1alpha1.ResponderStateCompleted, state)
	assert.Contains(t, messageOf(&s), "paused")
	waitEvicted(w, requestEviction(w, &set[0]))
	assert.Empty(t, w.EvictionsOf("web"), "not by Berth")
}

func TestANewLeaderGoesOnWithARequest(t *testing.T) {
	w := newWorld(t)
	c := w.Webhook()
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", 4, builders.ReadyAfter(5*time.Second)))
	list := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	recording := w.Record("web")
	r := requestEviction(w, &list[0])
	w.Eventually("the replica is released", func() (bool, string) {
		s, state := answerTo(w, &list[0])
		return len(w.Live("web")) == 5, string(state) + messageOf(&s)
	})
	testenv.End(c, true)
	w.WaitReady("web", 5)
	w.Controller(testenv.Impatient)
	waitEvicted(w, r)
	s, _ := answerTo(w, &list[0])
	assert.NotNil(t, s.CompletionTime)
	w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	_, all := recording.FewestReady(capacity.OnDemand, 4)
	assert.Equal(t, 4, all, "fewest Ready replicas at any instant")
}

// A dry run releases nothing, and holds no one up.
func TestADryRunPassesRequestsOn(t *testing.T) {
	w := newWorld(t)
	w.Webhook(func(c *controller.Configuration) { c.DryRun = true })
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", 4))
	list := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	waitEvicted(w, requestEviction(w, &list[0]))
	s, _ := answerTo(w, &list[0])
	assert.Contains(t, messageOf(&s), "dry-run")
	assert.Empty(t, w.EvictionsOf("web"))
}
