// SPDX-License-Identifier: Apache-2.0

package evictions_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	lifecycleapply "k8s.io/client-go/applyconfigurations/lifecycle/v1alpha1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const operator = "example.com/operator"

// operated names the operator of a database as a responder of its pods.
func operated(t *corev1.PodTemplateSpec) {
	t.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: operator, Priority: new(int32(10000))}}
}

func byRequest(c *controller.Configuration) { c.Mix.Rebalance.Eviction = controller.EvictionRequest }

// operatorActive are the Evictions for which the operator is the active responder.
func operatorActive(w *testenv.World) (list []lifecyclev1alpha1.Eviction) {
	w.T.Helper()
	all, err := w.Kube.LifecycleV1alpha1().Evictions(w.Namespace).List(w.Ctx, metav1.ListOptions{})
	require.NoError(w.T, err)
	for i := range all.Items {
		for _, r := range all.Items[i].Status.TargetResponders {
			if r.Name == operator && r.State == lifecyclev1alpha1.ResponderStateActive {
				list = append(list, all.Items[i])
			}
		}
	}
	return list
}

// A move of a database: its operator has the pod end in its own way, and Berth evicts nothing itself.
func TestTheOperatorOfADatabaseAnswersAMove(t *testing.T) {
	w := newWorld(t)
	w.Create(builders.CapacityMix("db", 100, 0), builders.StatefulSet("db", 1, appsv1.ParallelPodManagement, operated))
	before := w.WaitReady("db", 1)[0]
	w.Controller(testenv.Impatient, byRequest)
	w.ChangeMix("db", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 0 })
	var e lifecyclev1alpha1.Eviction
	w.Eventually("the operator is to answer", func() (bool, string) {
		list := operatorActive(w)
		if len(list) > 0 {
			e = list[0]
		}
		return len(list) == 1, fmt.Sprint(len(list))
	})
	r, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Get(w.Ctx, "berth-"+string(before.UID), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.EvictionRequester, r.Spec.Requester)

	w.Delete(&before)
	answer := lifecycleapply.ResponderStatus().WithName(operator).WithHeartbeatTime(metav1.Now()).WithCompletionTime(metav1.Now())
	_, err = w.Kube.LifecycleV1alpha1().Evictions(w.Namespace).ApplyStatus(w.Ctx, lifecycleapply.Eviction(e.Name, w.Namespace).
		WithStatus(lifecycleapply.EvictionStatus().WithResponders(answer)), metav1.ApplyOptions{FieldManager: operator, Force: true})
	require.NoError(t, err)
	w.WaitExact("db", split.New(0, 0), 1, testenv.SettleTimeout)
	assert.Empty(t, w.EvictionsOf("db"), "not by Berth")
}

// waitIntent waits until the request of Berth for a pod has an intent.
func waitIntent(w *testenv.World, p *corev1.Pod, want lifecyclev1alpha1.EvictionRequestIntent) {
	w.T.Helper()
	w.Eventually("the intent of the request is "+string(want), func() (bool, string) {
		r, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Get(w.Ctx, "berth-"+string(p.UID), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return r.Spec.Intent == want, string(r.Spec.Intent)
	})
}

func TestAMoveThatTakesTooLongIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.Create(builders.CapacityMix("db", 100, 0), builders.StatefulSet("db", 1, appsv1.ParallelPodManagement, operated))
	before := w.WaitReady("db", 1)[0]
	w.Controller(testenv.Impatient, byRequest, func(c *controller.Configuration) { c.Mix.Rebalance.MoveTimeoutSeconds = 10 })
	w.ChangeMix("db", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 0 })
	waitIntent(w, &before, lifecyclev1alpha1.EvictionRequestIntentWithdrawn)
	assert.Equal(t, before.UID, w.Live("db")[0].UID, "the pod runs")
	assert.Empty(t, w.EvictionsOf("db"))
}

// A leader that ends before it withdraws a request leaves nothing of it in the journal.
func TestANewLeaderWithdrawsWhatAnEarlierOneLeft(t *testing.T) {
	w := newWorld(t)
	w.Create(builders.CapacityMix("db", 100, 0), builders.StatefulSet("db", 1, appsv1.ParallelPodManagement, operated))
	before := w.WaitReady("db", 1)[0]
	c := w.Controller(testenv.Impatient, byRequest)
	w.ChangeMix("db", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 0 })
	waitIntent(w, &before, lifecyclev1alpha1.EvictionRequestIntentEviction)
	testenv.End(c, true)
	w.ChangeMix("db", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 100 })
	w.Delete(testenv.ReadIn(w, "berth-system", "berth-controller-moves", &corev1.ConfigMap{}))
	w.Controller(testenv.Impatient, byRequest)
	waitIntent(w, &before, lifecyclev1alpha1.EvictionRequestIntentWithdrawn)
	assert.Equal(t, before.UID, w.Live("db")[0].UID, "the pod runs")
	assert.Empty(t, w.EvictionsOf("db"))
}
