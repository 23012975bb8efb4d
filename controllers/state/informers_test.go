// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// server answers lists page by page, by resource.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string][]runtime.Object
	asked []string
}

func newServer(t *testing.T) *server {
	s := &server{pages: map[string][]runtime.Object{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.RequestURI())
	pages, page := s.pages[r.URL.Path], 0
	if c := r.URL.Query().Get("continue"); c != "" {
		_, _ = fmt.Sscanf(c, "page-%d", &page)
	}
	if page >= len(pages) {
		http.Error(w, "the server is away", http.StatusServiceUnavailable)
		return
	}
	list := pages[page].DeepCopyObject()
	m, _ := meta.ListAccessor(list)
	m.SetResourceVersion("42")
	if page+1 < len(pages) {
		m.SetContinue(fmt.Sprintf("page-%d", page+1))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// fixture has informers that read from a server.
type fixture struct {
	*Informers
	server       *server
	clusterState *clusterstate.State
	failed       int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	f := &fixture{server: newServer(t)}
	f.clusterState = clusterstate.New(clusterstate.Options{Classifier: classifier, Mixes: governing.NewRegistry()})
	f.Informers, err = New(&rest.Config{Host: f.server.URL}, f.clusterState, func(time.Time) { f.failed++ })
	require.NoError(t, err)
	return f
}

func (f *fixture) source(name string) source {
	for _, s := range f.sources {
		if s.name == name {
			return s
		}
	}
	panic(name)
}

// relist does what a reflector does with a list.
func (f *fixture) relist(t *testing.T, name string) error {
	t.Helper()
	s := f.source(name)
	list, err := s.listWatch(f.Informers.failed).ListWithContextFunc(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	require.NoError(t, err)
	m, err := meta.ListAccessor(list)
	require.NoError(t, err)
	assert.Equal(t, "42", m.GetResourceVersion(), "the watch goes on from there")
	var all []any
	for _, o := range items {
		all = append(all, o)
	}
	return s.store.Replace(all, "42")
}

// expiring is an empty list. Before its second copy the token of the list expires.
type expiring struct {
	runtime.Object
	copies int
	expire func()
}

// DeepCopyObject implements runtime.Object.
func (l *expiring) DeepCopyObject() runtime.Object {
	if l.copies++; l.copies == 2 {
		l.expire()
	}
	return l.Object.DeepCopyObject()
}

// relistWithoutSecondPage is the error of a list whose second page fails.
func (f *fixture) relistWithoutSecondPage(t *testing.T, name, path string) error {
	t.Helper()
	s := f.source(name)
	s.list = &expiring{Object: s.list, expire: func() { delete(f.server.pages, path) }}
	_, err := s.listWatch(f.Informers.failed).ListWithContextFunc(t.Context(), metav1.ListOptions{})
	return err
}

func podsNamed(names ...string) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, n := range names {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: n, UID: types.UID(n), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "an/image", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}
		list.Items = append(list.Items, p)
	}
	return list
}

const podsPath = "/api/v1/pods"

func names(f *clusterstate.State) (out []string) {
	for _, p := range f.Pods("shop") {
		out = append(out, p.Name)
	}
	return out
}

func TestAListIsReadPageByPageAndStripped(t *testing.T) {
	f := newFixture(t)
	f.server.pages[podsPath] = []runtime.Object{podsNamed("a", "b"), podsNamed("c")}
	list, err := f.source("pods").listWatch(f.Informers.failed).ListWithContextFunc(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{podsPath + "?limit=500", podsPath + "?continue=page-1&limit=500"}, f.server.asked)
	items, err := meta.ExtractList(list)
	require.NoError(t, err)
	require.Len(t, items, 3)
	// Of a pod the list holds no more than its name: the cluster state has it already.
	assert.Equal(t, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}, items[0])
	assert.ElementsMatch(t, []string{"a", "b", "c"}, names(f.clusterState))
	assert.Zero(t, f.failed)
}

func TestARelistRemovesWhatIsGone(t *testing.T) {
	f := newFixture(t)
	f.server.pages[podsPath] = []runtime.Object{podsNamed("a", "b"), podsNamed("c")}
	require.NoError(t, f.relist(t, "pods"))
	assert.ElementsMatch(t, []string{"a", "b", "c"}, names(f.clusterState))
	f.server.pages[podsPath] = []runtime.Object{podsNamed("c"), podsNamed("d")}
	require.NoError(t, f.relist(t, "pods"))
	assert.ElementsMatch(t, []string{"c", "d"}, names(f.clusterState))
	assert.Equal(t, int32(1), f.source("pods").store.relists.Load())

	node := func(names ...string) runtime.Object {
		l := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for _, n := range names {
			l.Items = append(l.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}}})
		}
		return l
	}
	f.server.pages["/api/v1/nodes"] = []runtime.Object{node("a", "b")}
	require.NoError(t, f.relist(t, "nodes"))
	assert.Len(t, f.clusterState.Nodes(), 2)
	f.server.pages["/api/v1/nodes"] = []runtime.Object{node("b")}
	require.NoError(t, f.relist(t, "nodes"))
	require.Len(t, f.clusterState.Nodes(), 1)
	assert.Equal(t, "b", f.clusterState.Nodes()[0].Name)
}

func replicaSets(replicas int32, names ...string) *appsv1.ReplicaSetList {
	list := &appsv1.ReplicaSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSetList"}}
	for _, n := range names {
		list.Items = append(list.Items, appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: n, UID: types.UID(n)}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}})
	}
	return list
}

func (f *fixture) follows(uid string) bool {
	return f.clusterState.Follows(governing.GroupKey{Namespace: "shop", ID: uid})
}

func TestARelistRemovesControllersOfItsKindOnly(t *testing.T) {
	f := newFixture(t)
	const path = "/apis/apps/v1/replicasets"
	f.server.pages[path] = []runtime.Object{replicaSets(3, "a", "b")}
	require.NoError(t, f.relist(t, "replicasets"))
	f.source("deployments").store.set(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d", UID: "d"}})
	assert.True(t, f.follows("a") && f.follows("b") && f.follows("d"))

	f.server.pages[path] = []runtime.Object{replicaSets(3, "b"), replicaSets(0, "a")}
	require.NoError(t, f.relist(t, "replicasets"))
	assert.False(t, f.follows("a"), "an old revision, which a list leaves out")
	assert.True(t, f.follows("b") && f.follows("d"))
}

func TestWatchEventsReachTheClusterState(t *testing.T) {
	f := newFixture(t)
	s := f.source("pods").store
	p := &podsNamed("a").Items[0]
	require.NoError(t, s.Add(p))
	require.NoError(t, s.Update(p))
	assert.Equal(t, []string{"a"}, names(f.clusterState))
	other := p.DeepCopy()
	other.UID = "another-life"
	require.NoError(t, s.Delete(other))
	assert.Equal(t, []string{"a"}, names(f.clusterState), "a late event about a pod of the same name")
	require.NoError(t, s.Delete(p))
	assert.Empty(t, names(f.clusterState))
	require.Error(t, s.Delete("no object"))
	require.NoError(t, s.Resync())

	rs := &replicaSets(1, "rs").Items[0]
	w := f.source("replicasets").store
	require.NoError(t, w.Add(rs))
	assert.True(t, f.follows("rs"))
	require.NoError(t, w.Delete(rs))
	assert.False(t, f.follows("rs"))
	n := f.source("nodes").store
	require.NoError(t, n.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	require.NoError(t, n.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	assert.Empty(t, f.clusterState.Nodes())
}

func TestFailuresAreReportedAndTheStateStays(t *testing.T) {
	f := newFixture(t)
	f.server.pages[podsPath] = []runtime.Object{podsNamed("a")}
	require.NoError(t, f.relist(t, "pods"))
	delete(f.server.pages, podsPath)
	require.ErrorContains(t, f.relist(t, "pods"), "list pods: ")
	assert.Equal(t, 1, f.failed)
	assert.Equal(t, []string{"a"}, names(f.clusterState))
	_, err := f.source("pods").listWatch(f.Informers.failed).WatchFuncWithContext(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	assert.Equal(t, 2, f.failed)

	f.server.pages[podsPath] = []runtime.Object{podsNamed("a")}
	require.NoError(t, f.relist(t, "pods"))
	assert.Equal(t, 3, f.failed, "the end of an outage counts")
	require.NoError(t, f.relist(t, "pods"))
	assert.Equal(t, 3, f.failed)
}

func TestASecondPageThatFailsFailsTheList(t *testing.T) {
	f := newFixture(t)
	f.server.pages[podsPath] = []runtime.Object{podsNamed("a"), podsNamed("b")}
	require.ErrorContains(t, f.relistWithoutSecondPage(t, "pods", podsPath), "list pods: ")
	assert.Equal(t, 1, f.failed)
}

func TestSyncedNamesWhatIsMissing(t *testing.T) {
	f := newFixture(t)
	for _, s := range f.sources {
		waiting, ok := f.Synced()
		assert.False(t, ok)
		assert.Equal(t, s.name, waiting)
		assert.False(t, f.Listed(s.name))
		require.NoError(t, s.store.Replace(nil, ""))
		assert.True(t, f.Listed(s.name))
	}
	_, ok := f.Synced()
	assert.True(t, ok)
	assert.False(t, f.Listed("cronjobs"), "which it does not read")
	assert.False(t, f.NeedLeaderElection(), "a new leader has the state of the cluster")
}

func TestAStrippedListIsAListToAReflector(t *testing.T) {
	all, keep := &stripped{}, newFixture(t).keepPod
	m, err := all.add(podsNamed("a"), keep)
	require.NoError(t, err)
	assert.Empty(t, m.GetContinue())
	_, err = all.add(&corev1.Pod{}, keep)
	require.Error(t, err, "no list")
	copied := all.DeepCopyObject()
	assert.Equal(t, all, copied)
	assert.Nil(t, strip(&corev1.PodList{}), "nothing of ours")
	assert.Nil(t, strip(&corev1.ConfigMap{}))
	assert.Equal(t, 1, meta.LenList(all))
}
