// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
)

// reads is a plugin whose reads of owners the test answers.
type reads struct {
	*fixture
	*questions
	count atomic.Int64
	// blocked namespaces get no answer.
	blocked string
	owners  map[types.UID]metav1.Object
}

func newReads(t *testing.T, pods ...*corev1.Pod) *reads {
	t.Helper()
	r := &reads{fixture: newFixture(t, defaultArgs(), twoNodes, objects(pods...)...), questions: newQuestions(t), owners: map[types.UID]metav1.Object{}}
	r.plugin.inquiry, r.controllers = r.inquiry, r.plugin.controllers
	r.list = nil
	r.read = func(_ context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error) {
		r.count.Add(1)
		if namespace == r.blocked {
			<-t.Context().Done() // a real read ends after readTimeout
			return nil, t.Context().Err()
		}
		return r.owners[ref.UID], nil
	}
	return r
}

func (r *reads) preFilter(pod *corev1.Pod) (*cycle, string) {
	state := framework.NewCycleState()
	_, status := r.plugin.PreFilter(r.ctx, state, pod, r.infos)
	return cycleOf(state), status.Message()
}

func annotatedReplicaSet(uid types.UID, percent string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, Annotations: map[string]string{v1alpha1.SpotPercentAnnotation: percent}}}
}

func TestMixOnAnOwnerThatTheCachesHaveNotSeenIsRead(t *testing.T) {
	pod, sibling := ownedPod("a", "new"), ownedPod("b", "new")
	r := newReads(t, pod, sibling)
	r.owners["new"] = annotatedReplicaSet("new", "100%")
	held := 0
	for _, p := range []*corev1.Pod{pod, sibling} {
		if r.plugin.PreEnqueue(t.Context(), p).IsRejected() { // the sibling may come after the answer
			held++
		}
	}
	require.Positive(t, held)
	for released := 0; released < held; {
		released += len(r.next(t))
	}
	for _, p := range []*corev1.Pod{pod, sibling} {
		assert.Nil(t, r.plugin.PreEnqueue(t.Context(), p))
		c, _ := r.preFilter(p)
		require.NotNil(t, c)
		assert.Equal(t, "spot", c.wants.String())
	}
	assert.EqualValues(t, 1, r.count.Load(), "once per owner")

	r.plugin.controllers.forget(r.owners["new"]) // and not in the cache: it is deleted
	c, message := r.preFilter(pod)
	assert.Nil(t, c)
	assert.Equal(t, ErrReasonAsking, message, "what was known when the pod was queued is looked for again")
	r.next(t)
	c, _ = r.preFilter(pod)
	assert.NotNil(t, c)
}

// The symptom: 200 pods with made-up references made 200 reads in the scheduling
// goroutine, one after the other, up to two seconds each.
func TestSchedulingReadsNoOwnersAndOtherNamespacesDoNotWaitForThoseOfOne(t *testing.T) {
	neighbour := ownedPod("neighbour", "real")
	neighbour.Namespace = "other"
	r := newReads(t, neighbour)
	r.blocked = "shop"
	rs := annotatedReplicaSet("real", "0")
	rs.Namespace = "other"
	r.owners["real"] = rs
	for i := range 200 {
		pod := ownedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))
		assert.True(t, r.plugin.PreEnqueue(t.Context(), pod).IsRejected())
		c, message := r.preFilter(pod)
		assert.Nil(t, c)
		assert.Equal(t, ErrReasonAsking, message)
	}
	require.Eventually(t, func() bool { return r.count.Load() == 1 }, time.Minute, time.Millisecond, "the read that gets no answer begins")
	require.True(t, r.plugin.PreEnqueue(t.Context(), neighbour).IsRejected())
	assert.Equal(t, []string{"other/neighbour"}, r.next(t))
	assert.Nil(t, r.plugin.PreEnqueue(t.Context(), neighbour))
	c, _ := r.preFilter(neighbour)
	assert.NotNil(t, c)
	assert.EqualValues(t, 2, r.count.Load(), "one at a time for a namespace")
}

func TestARoundReadsAFewOwnersAndTheOthersWaitForTheNext(t *testing.T) {
	r := newReads(t)
	const pods = 3*ownersPerRound - 5
	for i := range pods {
		assert.True(t, r.plugin.PreEnqueue(t.Context(), ownedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))).IsRejected())
	}
	rounds, released := 0, 0
	for released < pods {
		n := len(r.next(t))
		assert.LessOrEqual(t, n, ownersPerRound)
		released += n
		rounds++
	}
	assert.GreaterOrEqual(t, rounds, 3)
	assert.EqualValues(t, pods, r.count.Load())
	for i := range pods {
		assert.Nil(t, r.plugin.PreEnqueue(t.Context(), ownedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))))
	}
}

// The symptom: a UID that a pod of another namespace names was treated as known.
func TestAnOwnerIsKnownByItsNamespaceToo(t *testing.T) {
	own := ownedPod("own", "uid")
	r := newReads(t, own)
	foreign := ownedPod("foreign", "uid")
	foreign.Namespace = "attacker"
	require.True(t, r.plugin.PreEnqueue(t.Context(), foreign).IsRejected())
	assert.Equal(t, []string{"attacker/foreign"}, r.next(t))
	assert.Nil(t, r.plugin.PreEnqueue(t.Context(), foreign), "its owner is known not to exist")

	r.owners["uid"] = annotatedReplicaSet("uid", "100")
	require.True(t, r.plugin.PreEnqueue(t.Context(), own).IsRejected())
	r.next(t)
	c, _ := r.preFilter(own)
	require.NotNil(t, c)
	assert.Equal(t, "spot", c.wants.String())
}

// The symptom: with more pending owners than are remembered, every attempt of every pod was held for a list.
func TestPodsOfAnyNumberOfOwnersAreHeldOnce(t *testing.T) {
	f := newFixture(t, defaultArgs(), twoNodes)
	q := newQuestions(t)
	q.controllers, f.plugin.inquiry = f.plugin.controllers, q.inquiry
	const owners = 20_000
	pods := make([]*corev1.Pod, owners)
	for i := range pods {
		pods[i] = ownedPod(fmt.Sprint("pod-", i), fmt.Sprint("owner-", i))
		pods[i].OwnerReferences[0].APIVersion = "example.com/v1"
		pods[i].ResourceVersion = fmt.Sprint(i + 1)
		require.True(t, f.plugin.PreEnqueue(t.Context(), pods[i]).IsRejected())
	}
	close(q.answers)
	for released := 0; released < owners; {
		released += len(q.next(t))
	}
	for _, pod := range pods {
		require.Nil(t, f.plugin.PreEnqueue(t.Context(), pod), "they were there before the list")
	}
	for i, pod := range pods { // each was tried, and so changed
		pods[i] = unschedulable(pod, noon)
		pods[i].ResourceVersion = fmt.Sprint(owners + i + 1)
		require.Nil(t, f.plugin.PreEnqueue(t.Context(), pods[i]))
	}
	assert.LessOrEqual(t, len(q.asked), 2)
	next := ownedPod("next", "next")
	next.OwnerReferences[0].APIVersion, next.ResourceVersion = "example.com/v1", fmt.Sprint(3*owners)
	assert.True(t, f.plugin.PreEnqueue(t.Context(), next).IsRejected(), "a pod that is new is held")
}

func TestOwnersOfDeploymentsThatOwnOneAnotherAreLookedUpOnce(t *testing.T) {
	args := defaultArgs()
	args.AnnotationPrefixes = []string{"berth.dev", "spotalis.io"}
	f := newFixture(t, args, twoNodes)
	indexer := f.framework.SharedInformerFactory().Apps().V1().Deployments().Informer().GetIndexer()
	for a, b := range map[string]string{"one": "two", "two": "one"} {
		require.NoError(t, indexer.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: a, UID: types.UID(a), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "Deployment", Name: b, UID: types.UID(b), Controller: new(true)},
		}}}))
	}
	pod := ownedPod("a", "one")
	pod.OwnerReferences[0].Kind = "Deployment"
	assert.Nil(t, f.plugin.controllers.missing(pod))
	pod.OwnerReferences[0].UID = types.UID(strings.Repeat("u", 1<<20))
	assert.Nil(t, f.plugin.controllers.missing(pod), "no API server gave that UID")
}

// page answers with so many mixes of so many bytes.
func page(w http.ResponseWriter, from, mixes, size int, next string) {
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1","continue":%q},"items":[`, next)
	for i := range mixes {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		item := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("mix-", from+i), UID: types.UID(fmt.Sprint("uid-", from+i)), Generation: 3,
			Annotations: map[string]string{"a": strings.Repeat("x", size)},
		}}
		b, _ := json.Marshal(item)
		_, _ = w.Write(b)
	}
	fmt.Fprint(w, "]}")
}

func TestAListOfMixesIsReadPageByPageAndOneByOne(t *testing.T) {
	var worst int64
	before := heap()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, fmt.Sprint(mixesPerPage), r.URL.Query().Get("limit"))
		assert.Contains(t, r.Header.Get("Accept"), "as=PartialObjectMetadataList")
		if r.URL.Query().Get("continue") == "" {
			page(w, 0, mixesPerPage, 200_000, "second")
		} else {
			page(w, mixesPerPage, 100, 200_000, "")
		}
		worst = max(worst, heap()-before)
	}))
	defer server.Close()
	client, err := client.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	mixes, err := listMixes(t.Context(), client, "shop")
	require.NoError(t, err)
	require.Len(t, mixes, mixesPerPage+100)
	assert.Equal(t, listed{name: "mix-599", uid: "uid-599", generation: 3}, mixes[599])
	assert.Less(t, worst, int64(20<<20), "of 120 MB")
}

func TestAnAnswerThatIsNoListIsAnError(t *testing.T) {
	for name, body := range map[string]string{
		"it ends":             `{"items":[{"metadata":{"name":"a"}},`,
		"it is empty":         ``,
		"it is another thing": `[]`,
		"items is another":    `{"items":{}}`,
		"an item is another":  `{"items":[1]}`,
	} {
		_, _, err := decodeMixes(strings.NewReader(body), nil)
		assert.Error(t, err, name)
	}
	mixes, next, err := decodeMixes(strings.NewReader(`{"kind":"x","other":[{}],"items":[],"metadata":{"continue":"c"}}`), nil)
	require.NoError(t, err)
	assert.Empty(t, mixes)
	assert.Equal(t, "c", next)
}
