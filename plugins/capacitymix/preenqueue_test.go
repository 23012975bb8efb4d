// SPDX-License-Identifier: Apache-2.0

package capacitymix

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
)

// questions is an inquiry whose questions the test answers.
type questions struct {
	*inquiry
	asked    chan string
	answers  chan []listed
	fail     error
	released chan map[string]*corev1.Pod
}

func newQuestions(t *testing.T) *questions {
	q := &questions{asked: make(chan string, 100), answers: make(chan []listed, 100), released: make(chan map[string]*corev1.Pod, 100)}
	q.inquiry = newInquiry(t.Context(), noControllers(), fake.NewClientset(), func(_ klog.Logger, pods map[string]*corev1.Pod) { q.released <- pods })
	q.list = func(ctx context.Context, namespace string) ([]listed, error) {
		q.asked <- namespace
		select {
		case a := <-q.answers:
			return a, q.fail
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return q
}

// noControllers are caches that have seen nothing.
func noControllers() *controllers {
	return newControllers(informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
}

// next returns the names of the pods that are released next.
func (q *questions) next(t *testing.T) (names []string) {
	t.Helper()
	select {
	case pods := <-q.released:
		for name := range pods {
			names = append(names, name)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no pod is released")
	}
	return names
}

func ownedPod(name, owner string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)},
	}}}
}

func TestPodsOfANamespaceShareAQuestionThatBeganAfterThem(t *testing.T) {
	q := newQuestions(t)
	q.hold(ownedPod("a", "first"))
	<-q.asked
	// The question is out: it may have been answered before these pods were created.
	for n := range 20 {
		q.hold(ownedPod(fmt.Sprintf("b%d", n), "second"))
		q.hold(ownedPod(fmt.Sprintf("b%d", n), "second")) // the queue tries a held pod again on events
	}
	q.answers <- nil
	assert.Equal(t, []string{"shop/a"}, q.next(t))
	assert.True(t, q.answered("shop", "first"))
	assert.False(t, q.answered("shop", "second"))
	<-q.asked
	q.answers <- nil
	assert.Len(t, q.next(t), 20)
	assert.True(t, q.answered("shop", "second"))
	assert.Empty(t, q.asked, "two questions for 21 pods")
}

func TestPodsAreHeldUntilTheWatchBringsTheMixesThatExist(t *testing.T) {
	q := newQuestions(t)
	cm := v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 2}}
	list := []listed{{name: "web", uid: "web", generation: 2}}
	old := cm
	old.Generation = 1
	q.hear(&old)
	q.hold(ownedPod("a", "first"))
	q.answers <- list
	<-q.asked
	assert.False(t, q.hasHeard("shop", list))
	assert.Empty(t, q.released)
	q.hear(&cm)
	assert.Equal(t, []string{"shop/a"}, q.next(t))
	require.Eventually(t, func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.waiting) == 0 }, 10*time.Second, time.Millisecond)
	q.forget(&cm)
	assert.False(t, q.hasHeard("shop", list))
}

// It was listed, and deleted before the watch was looked at: no one waits half a minute for it.
func TestPodsAreNotHeldForAMixThatIsDeletedDuringTheRound(t *testing.T) {
	q := newQuestions(t)
	cm := v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1}}
	q.hold(ownedPod("a", "first"))
	<-q.asked
	q.hear(&cm)
	q.forget(&cm)
	assert.False(t, q.hasHeard("shop", []listed{{name: "web", uid: "its successor", generation: 1}}))
	q.answers <- []listed{{name: "web", uid: "web", generation: 1}}
	assert.Equal(t, []string{"shop/a"}, q.next(t))
}

func TestPodsAreReleasedWhenNobodyAnswers(t *testing.T) {
	q := newQuestions(t)
	q.fail = errors.New("the server is away")
	q.answers <- nil
	q.hold(ownedPod("a", "first"))
	assert.Equal(t, []string{"shop/a"}, q.next(t))
	assert.True(t, q.answered("shop", "first"))
}

func TestOnlyTheFirstPodsOfAWorkloadThatNothingGovernsAreHeld(t *testing.T) {
	var known []runtime.Object
	for _, owner := range []types.UID{"g", "an", "stranger"} {
		known = append(known, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(owner), UID: owner}})
	}
	f := newFixture(t, defaultArgs(), twoNodes, known...)
	q := newQuestions(t)
	q.controllers = f.plugin.controllers
	f.plugin.inquiry = q.inquiry
	f.mix(t, capacityMix("governed", 50, 0))
	gate := func(pod *corev1.Pod) bool { return f.plugin.PreEnqueue(t.Context(), pod).IsRejected() }

	governed := ownedPod("g", "g")
	governed.Labels = map[string]string{"app": "governed"}
	annotated := ownedPod("an", "an")
	annotated.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "50"}
	bare := ownedPod("bare", "")
	bare.OwnerReferences = nil
	pinned := ownedPod("pinned", "pinned")
	pinned.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	daemon := ownedPod("daemon", "daemon")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	for _, pod := range []*corev1.Pod{governed, annotated, bare, pinned, daemon} {
		assert.False(t, gate(pod), pod.Name)
	}
	require.Empty(t, q.asked)

	stranger := ownedPod("stranger", "stranger")
	assert.True(t, gate(stranger))
	q.answers <- nil
	q.next(t)
	assert.False(t, gate(stranger))
	assert.False(t, gate(ownedPod("stranger-2", "stranger")))
}
