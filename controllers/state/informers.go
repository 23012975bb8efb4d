// SPDX-License-Identifier: Apache-2.0

// Package state keeps a cluster state up to date: it watches pods, nodes and workload
// controllers, and keeps of each object only what the cluster state keeps.
package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/internal/mix/clusterstate"
)

// pageSize bounds what a list holds in memory at a time: full pods take 6 KB
// and more, and they are dropped page by page.
const pageSize = 500

// Informers is a manager.Runnable. It runs on every replica of the controller, so
// that a new leader has the state of the cluster already.
type Informers struct {
	clusterState *clusterstate.State
	kube         kubernetes.Interface
	sources      []source
	failed       func(time.Time)
}

// source is one kind of objects.
type source struct {
	name   string
	client rest.Interface
	// object and list are empty ones of the kind.
	object, list runtime.Object
	store        *store
	// keep is what is left of an object of a list.
	keep func(runtime.Object) runtime.Object
	// begin is called before a list; nil for nothing.
	begin func()
}

var (
	_ manager.Runnable               = &Informers{}
	_ manager.LeaderElectionRunnable = &Informers{}
)

// New returns the informers of a cluster state. Failed is called whenever the API server
// could not be read, and when it can be again: what the cluster state shows may then be old.
func New(config *rest.Config, f *clusterstate.State, failed func(time.Time), options ...func(*Informers)) (*Informers, error) {
	kube, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return nil, fmt.Errorf("client of the informers: %w", err)
	}
	informers := &Informers{clusterState: f, kube: kube, failed: failed}
	core, apps, batch := kube.CoreV1().RESTClient(), kube.AppsV1().RESTClient(), kube.BatchV1().RESTClient()
	informers.sources = []source{
		{name: "nodes", client: core, object: &corev1.Node{}, list: &corev1.NodeList{}, store: informers.nodes(), keep: strip},
		{name: "pods", client: core, object: &corev1.Pod{}, list: &corev1.PodList{}, store: informers.pods(), keep: informers.keepPod},
	}
	for _, s := range []source{
		{name: "deployments", client: apps, object: &appsv1.Deployment{}, list: &appsv1.DeploymentList{}},
		{name: "replicasets", client: apps, object: &appsv1.ReplicaSet{}, list: &appsv1.ReplicaSetList{}},
		{name: "statefulsets", client: apps, object: &appsv1.StatefulSet{}, list: &appsv1.StatefulSetList{}},
		{name: "jobs", client: batch, object: &batchv1.Job{}, list: &batchv1.JobList{}},
	} {
		s.store, s.keep = informers.workloads(), strip
		informers.sources = append(informers.sources, s)
	}
	for _, option := range options {
		option(informers)
	}
	return informers, nil
}

// protobuf requests the encoding that takes the least of both sides; what has none comes as JSON.
func protobuf(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Informers) NeedLeaderElection() bool { return false }

// Start watches until the context ends.
func (f *Informers) Start(ctx context.Context) error {
	for _, s := range f.sources {
		r := cache.NewReflectorWithOptions(s.listWatch(f.failed), s.object, s.store, cache.ReflectorOptions{Name: "berth/" + s.name})
		go r.RunWithContext(ctx)
	}
	<-ctx.Done()
	return nil
}

// Synced reports whether every kind has been listed once, and names one that has not.
func (f *Informers) Synced() (waitingFor string, ok bool) {
	for _, s := range f.sources {
		if !s.store.listed.Load() {
			return s.name, false
		}
	}
	return "", true
}

// Listed reports whether a kind, named as in a URL, has been listed once.
func (f *Informers) Listed(resource string) bool {
	return slices.ContainsFunc(f.sources, func(s source) bool { return s.name == resource && s.store.listed.Load() })
}

// paged lists page by page, and strips each page before it requests the next. A
// reflector would otherwise begin with a watch, whose first events it keeps whole until it has all of them.
type paged struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported has a reflector list.
func (paged) IsWatchListSemanticsUnSupported() bool { return true }

func (s source) listWatch(failed func(time.Time)) paged {
	request := func(o metav1.ListOptions) *rest.Request {
		return s.client.Get().Resource(s.name).VersionedParams(&o, scheme.ParameterCodec)
	}
	note := func(err error) error {
		// The first answer after an outage counts as well: attempts back off to half a minute and more, so the last one
		// that failed may have been long before.
		if s.store.away.Swap(err != nil) || err != nil {
			failed(time.Now())
		}
		return err
	}
	return paged{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := s.pages(ctx, request)
			return list, note(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			w, err := request(o).Watch(ctx)
			return w, note(err)
		},
	}}
}

func (s source) pages(ctx context.Context, request func(metav1.ListOptions) *rest.Request) (runtime.Object, error) {
	all := &stripped{}
	if s.begin != nil {
		s.begin()
	}
	for next := ""; ; {
		page := s.list.DeepCopyObject()
		if err := request(metav1.ListOptions{Limit: pageSize, Continue: next}).Do(ctx).Into(page); err != nil {
			return nil, fmt.Errorf("list %s: %w", s.name, err)
		}
		meta, err := all.add(page, s.keep)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.name, err)
		}
		if next = meta.GetContinue(); next == "" {
			return all, nil
		}
	}
}

// pods, nodes and workloads are the stores that hand objects on to the cluster state.
func (f *Informers) pods() *store {
	return &store{
		set: func(o any) { f.clusterState.SetPod(o.(*corev1.Pod)) },
		remove: func(o metav1.Object) {
			f.clusterState.DeletePod(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID())
		},
		replace: func(all []any) {
			listed := make(map[types.NamespacedName]bool, len(all))
			for _, o := range all {
				m := o.(metav1.Object)
				listed[types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}] = true
			}
			f.clusterState.RetainPods(func(name types.NamespacedName) bool { return listed[name] })
		},
	}
}

// keepPod hands a pod of a list on at once and keeps its name: ten thousand
// pods, even stripped, would be the most memory that the controller ever takes.
func (f *Informers) keepPod(o runtime.Object) runtime.Object {
	pod := o.(*corev1.Pod)
	f.clusterState.SetPod(pod)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

func (f *Informers) nodes() *store {
	return &store{
		set:     func(o any) { f.clusterState.SetNode(o.(*corev1.Node)) },
		remove:  func(o metav1.Object) { f.clusterState.DeleteNode(o.GetName()) },
		replace: func(all []any) { f.clusterState.ReplaceNodes(cast[*corev1.Node](all)) },
	}
}

func (f *Informers) workloads() *store {
	// A list names no kind: these are those of this one.
	known := map[types.UID]struct{}{}
	s := &store{}
	// A list's objects come here stripped, so the store's own set, which watches use, may do more.
	set := func(o any) {
		w := o.(metav1.Object)
		known[w.GetUID()] = struct{}{}
		f.clusterState.SetOwner(w)
	}
	s.set = set
	s.remove = func(o metav1.Object) {
		delete(known, o.GetUID())
		f.clusterState.DeleteOwner(o.GetUID())
	}
	s.replace = func(all []any) {
		gone := known
		known = make(map[types.UID]struct{}, len(all))
		for _, o := range all {
			delete(gone, o.(metav1.Object).GetUID())
			set(o)
		}
		for uid := range gone {
			f.clusterState.DeleteOwner(uid)
		}
	}
	return s
}

func cast[T any](all []any) []T {
	typed := make([]T, len(all))
	for i, o := range all {
		typed[i] = o.(T)
	}
	return typed
}
