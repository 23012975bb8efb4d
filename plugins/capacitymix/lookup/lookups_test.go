// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"errors"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// live are look-ups whose requests the test answers, with caches that have nothing.
type live struct {
	*Lookups
	asked     chan string
	answers   chan []Mix
	fail      error
	reads     atomic.Int64
	activated plugintest.Activations
}

func newLive(t *testing.T) *live {
	t.Helper()
	q := &live{asked: make(chan string, 100), answers: make(chan []Mix, 100), activated: make(plugintest.Activations, 100)}
	owners := newOwners()
	classifier, err := arguments.Classifier(plugintest.Args())
	require.NoError(t, err)
	q.Lookups = New(t.Context(), Options{
		Owners:     owners,
		Classifier: classifier,
		Resolver:   &governing.Resolver{Mixes: governing.NewRegistry(), Controllers: owners},
		ReadOwner: func(context.Context, string, *metav1.OwnerReference) (metav1.Object, error) {
			q.reads.Add(1)
			return nil, nil //nolint:nilnil // there is none
		},
		ListMixes: func(ctx context.Context, namespace string) ([]Mix, error) {
			q.asked <- namespace
			select {
			case a := <-q.answers:
				return a, q.fail
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Activate: q.activated.Activate,
	})
	return q
}

func newOwners(prefixes ...string) *Owners {
	return NewOwners(informers.NewSharedInformerFactory(fake.NewClientset(), 0), prefixes)
}

func TestPodsOfANamespaceShareALookupThatBeganAfterThem(t *testing.T) {
	q := newLive(t)
	q.Enqueue(plugintest.OwnedPod("a", "first"))
	<-q.asked
	// The question is out: it may have been answered before these pods were created.
	for n := range 20 {
		q.Enqueue(plugintest.OwnedPod(fmt.Sprintf("b%d", n), "second"))
		q.Enqueue(plugintest.OwnedPod(fmt.Sprintf("b%d", n), "second")) // the queue tries a held pod again on events
	}
	q.answers <- nil
	assert.Equal(t, []string{"shop/a"}, q.activated.Next(t))
	assert.True(t, q.completed("shop", "first"))
	assert.False(t, q.completed("shop", "second"))
	<-q.asked
	q.answers <- nil
	assert.Len(t, q.activated.Next(t), 20)
	assert.True(t, q.completed("shop", "second"))
	assert.Empty(t, q.asked, "two questions for 21 pods")
}

func TestPodsAreHeldUntilTheWatchDeliversTheMixes(t *testing.T) {
	q := newLive(t)
	cm := v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 2}}
	list := []Mix{{Name: "web", UID: "web", Generation: 2}}
	old := cm
	old.Generation = 1
	q.MixUpdated(&old)
	q.Enqueue(plugintest.OwnedPod("a", "first"))
	q.answers <- list
	<-q.asked
	assert.False(t, q.delivered("shop", list))
	assert.Empty(t, q.activated)
	q.MixUpdated(&cm)
	assert.Equal(t, []string{"shop/a"}, q.activated.Next(t))
	require.Eventually(t, func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.pending) == 0 }, 10*time.Second, time.Millisecond)
	q.MixDeleted(&cm)
	assert.False(t, q.delivered("shop", list))
}

// The mix was listed, and deleted before the watch was compared: no pod waits half a minute for it.
func TestPodsAreNotHeldForAMixThatIsDeletedDuringTheRound(t *testing.T) {
	q := newLive(t)
	cm := v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1}}
	q.Enqueue(plugintest.OwnedPod("a", "first"))
	<-q.asked
	q.MixUpdated(&cm)
	q.MixDeleted(&cm)
	assert.False(t, q.delivered("shop", []Mix{{Name: "web", UID: "its successor", Generation: 1}}))
	q.answers <- []Mix{{Name: "web", UID: "web", Generation: 1}}
	assert.Equal(t, []string{"shop/a"}, q.activated.Next(t))
}

func TestPodsAreActivatedWhenTheAPIServerDoesNotAnswer(t *testing.T) {
	q := newLive(t)
	q.fail = errors.New("the server is away")
	q.answers <- nil
	q.Enqueue(plugintest.OwnedPod("a", "first"))
	assert.Equal(t, []string{"shop/a"}, q.activated.Next(t))
	assert.True(t, q.completed("shop", "first"))
}

func TestARoundReadsAFewOwnersAndTheOthersWaitForTheNext(t *testing.T) {
	q := newLive(t)
	q.o.ListMixes = nil
	const pods = 3*ownersPerRound - 5
	for i := range pods {
		pod := plugintest.OwnedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))
		require.True(t, q.Required(pod))
		q.Enqueue(pod)
	}
	rounds, activated := 0, 0
	for activated < pods {
		n := len(q.activated.Next(t))
		assert.LessOrEqual(t, n, ownersPerRound)
		activated += n
		rounds++
	}
	assert.GreaterOrEqual(t, rounds, 3)
	assert.EqualValues(t, pods, q.reads.Load())
	for i := range pods {
		assert.False(t, q.Required(plugintest.OwnedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))))
	}
}

func TestOwnersOfDeploymentsThatOwnOneAnotherAreLookedUpOnce(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	owners := NewOwners(factory, []string{"berth.dev", governing.PrefixSpotalis})
	indexer := factory.Apps().V1().Deployments().Informer().GetIndexer()
	for a, b := range map[string]string{"one": "two", "two": "one"} {
		require.NoError(t, indexer.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: a, UID: types.UID(a),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: b, UID: types.UID(b), Controller: new(true)}},
		}}))
	}
	pod := plugintest.OwnedPod("a", "one")
	pod.OwnerReferences[0].Kind = "Deployment"
	assert.Nil(t, owners.unknown(pod))
	pod.OwnerReferences[0].UID = types.UID(strings.Repeat("u", 1<<20))
	assert.Nil(t, owners.unknown(pod), "no API server gave that UID")
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
	before := int64(builders.Heap())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, fmt.Sprint(mixesPerPage), r.URL.Query().Get("limit"))
		assert.Contains(t, r.Header.Get("Accept"), "as=PartialObjectMetadataList")
		if r.URL.Query().Get("continue") == "" {
			page(w, 0, mixesPerPage, 200_000, "second")
		} else {
			page(w, mixesPerPage, 100, 200_000, "")
		}
		worst = max(worst, int64(builders.Heap())-before)
	}))
	defer server.Close()
	client, err := client.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	mixes, err := ListMixes(t.Context(), client, "capacitymixes", "shop")
	require.NoError(t, err)
	require.Len(t, mixes, mixesPerPage+100)
	assert.Equal(t, Mix{Name: "mix-599", UID: "uid-599", Generation: 3}, mixes[599])
	assert.Less(t, worst, int64(20<<20), "of 120 MB")
}

func TestAResponseThatIsNoListIsAnError(t *testing.T) {
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
