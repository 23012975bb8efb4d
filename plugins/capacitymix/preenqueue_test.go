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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
)

// questions is an inquiry whose questions the test answers.
type questions struct {
	*inquiry
	asked    chan string
	answers  chan []v1alpha1.CapacityMix
	fail     error
	released chan map[string]*corev1.Pod
}

func newQuestions(t *testing.T) *questions {
	q := &questions{asked: make(chan string, 100), answers: make(chan []v1alpha1.CapacityMix, 100), released: make(chan map[string]*corev1.Pod, 100)}
	q.inquiry = &inquiry{
		ask: func(ctx context.Context, namespace string) ([]v1alpha1.CapacityMix, error) {
			q.asked <- namespace
			select {
			case a := <-q.answers:
				return a, q.fail
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		activate: func(_ klog.Logger, pods map[string]*corev1.Pod) { q.released <- pods },
		ctx:      t.Context(), owners: lru.New(10),
		waiting: map[string]map[types.UID]*corev1.Pod{}, heard: map[types.NamespacedName]int64{},
	}
	return q
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
	assert.True(t, q.answered("first"))
	assert.False(t, q.answered("second"))
	<-q.asked
	q.answers <- nil
	assert.Len(t, q.next(t), 20)
	assert.True(t, q.answered("second"))
	assert.Empty(t, q.asked, "two questions for 21 pods")
}

func TestPodsAreHeldUntilTheWatchBringsTheMixesThatExist(t *testing.T) {
	q := newQuestions(t)
	cm := v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2}}
	old := cm
	old.Generation = 1
	q.hear(&old)
	q.hold(ownedPod("a", "first"))
	q.answers <- []v1alpha1.CapacityMix{cm}
	<-q.asked
	assert.False(t, q.hasHeard([]v1alpha1.CapacityMix{cm}))
	assert.Empty(t, q.released)
	q.hear(&cm)
	assert.Equal(t, []string{"shop/a"}, q.next(t))
	q.forget(&cm)
	assert.False(t, q.hasHeard([]v1alpha1.CapacityMix{cm}))
}

func TestPodsAreReleasedWhenNobodyAnswers(t *testing.T) {
	q := newQuestions(t)
	q.fail = errors.New("the server is away")
	q.answers <- nil
	q.hold(ownedPod("a", "first"))
	assert.Equal(t, []string{"shop/a"}, q.next(t))
	assert.True(t, q.answered("first"))
}

func TestOnlyTheFirstPodsOfAWorkloadThatNothingGovernsAreHeld(t *testing.T) {
	f := newFixture(t, defaultArgs(), twoNodes)
	q := newQuestions(t)
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
