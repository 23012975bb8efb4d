// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// Pauses are what users paused: the moves of namespaces, and those of the cluster. It is a manager.Runnable on every replica, so that a
// new leader has them already. What is paused is in the objects, so it survives every restart.
type Pauses struct {
	kube kubernetes.Interface
	// object is the ConfigMap that pauses the cluster.
	object types.NamespacedName
	// changed is called for a namespace whose pause changed, "" for the cluster.
	changed func(governing.GroupKey)

	mu         sync.Mutex // guards what follows
	cluster    *rebalance.Pause
	namespaces map[string]rebalance.Pause
	listed     [2]cache.InformerSynced
}

var (
	_ manager.Runnable               = &Pauses{}
	_ manager.LeaderElectionRunnable = &Pauses{}
)

// NewPauses returns the pauses of a cluster. It reads nothing before Start.
func NewPauses(kube kubernetes.Interface, object types.NamespacedName, changed func(governing.GroupKey)) *Pauses {
	return &Pauses{kube: kube, object: object, changed: changed, namespaces: map[string]rebalance.Pause{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Pauses) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it watches until the context ends.
func (p *Pauses) Start(ctx context.Context) error {
	core := p.kube.CoreV1().RESTClient()
	all := cache.NewListWatchFromClient(core, "namespaces", "", fields.Everything())
	namespaces := p.watch(ctx, all, &corev1.Namespace{}, p.setNamespace)
	one := cache.NewListWatchFromClient(core, "configmaps", p.object.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, p.object.Name))
	cluster := p.watch(ctx, one, &corev1.ConfigMap{}, p.setCluster)
	p.mu.Lock()
	p.listed = [...]cache.InformerSynced{namespaces, cluster}
	p.mu.Unlock()
	if cache.WaitForCacheSync(ctx.Done(), namespaces, cluster) {
		p.changed(everything)
	}
	<-ctx.Done()
	return nil
}

// watch runs an informer, and returns whether its first list was handled.
func (p *Pauses) watch(ctx context.Context, from cache.ListerWatcher, kind client.Object, set func(o client.Object, gone bool),
) cache.InformerSynced {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: from, ObjectType: kind, Transform: keepPause,
		Handler: handler.Funcs[client.Object]{
			Add:    func(o client.Object) { set(o, false) },
			Delete: func(o client.Object) { set(o, true) },
		},
	})
	go informer.RunWithContext(ctx)
	return informer.HasSynced
}

// maxKept is how much is kept of an annotation: a pause shows less of it.
const maxKept = 256

// keepPause keeps of an object its name, and what a pause has if it pauses moves.
func keepPause(object any) (any, error) {
	o, is := object.(client.Object)
	if !is {
		return object, nil // a deletion that was missed
	}
	meta := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
	if rebalance.IsPaused(o) {
		meta.Annotations, meta.ManagedFields = map[string]string{}, rebalance.WritersOfPause(rebalance.PausedNamespace, o)
		for _, key := range []string{
			v1alpha1.PausedAnnotation, v1alpha1.PausedByAnnotation, v1alpha1.PausedAtAnnotation, v1alpha1.PausedReasonAnnotation,
		} {
			if value, there := o.GetAnnotations()[key]; there {
				meta.Annotations[key] = strings.Clone(value[:min(len(value), maxKept)])
			}
		}
	}
	if _, is := object.(*corev1.ConfigMap); is {
		return &corev1.ConfigMap{ObjectMeta: meta}, nil
	}
	return &corev1.Namespace{ObjectMeta: meta}, nil
}

func (p *Pauses) setNamespace(o client.Object, gone bool) {
	name := o.GetName()
	p.mu.Lock()
	was, had := p.namespaces[name]
	delete(p.namespaces, name)
	if !gone && rebalance.IsPaused(o) {
		p.namespaces[name] = rebalance.PauseOf(rebalance.PausedNamespace, name, o)
	}
	is, has := p.namespaces[name]
	p.mu.Unlock()
	if had != has || was != is {
		p.changed(governing.GroupKey{Namespace: name})
	}
}

func (p *Pauses) setCluster(o client.Object, gone bool) {
	var is *rebalance.Pause
	if !gone && rebalance.IsPaused(o) {
		is = new(rebalance.PauseOf(rebalance.PausedCluster, "", o))
	}
	p.mu.Lock()
	was := p.cluster
	p.cluster = is
	p.mu.Unlock()
	if was != nil || is != nil {
		p.changed(everything)
	}
}

// Of returns the pauses that the workloads of a namespace are under, but for those of mixes. Before the first lists, that is unknown.
func (p *Pauses) Of(namespace string) (list []rebalance.Pause) {
	if p == nil {
		return nil // in tests of decisions
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, listed := range p.listed {
		if listed == nil || !listed() {
			return []rebalance.Pause{{Scope: rebalance.PausedCluster, Unknown: true}}
		}
	}
	if p.cluster != nil {
		list = append(list, *p.cluster)
	}
	if one, there := p.namespaces[namespace]; there {
		list = append(list, one)
	}
	return list
}

// checkPaused returns an obstacle if moves were paused that the watch has not shown yet: a user who pauses expects that nothing is
// evicted afterwards.
func (a *calls) checkPaused(ctx context.Context, namespace string) error {
	if a.metadata == nil || a.Pauses == nil {
		return nil
	}
	for _, at := range []struct {
		scope           rebalance.PauseScope
		kind            string
		namespace, name string
	}{
		{rebalance.PausedCluster, "ConfigMap", a.Pauses.object.Namespace, a.Pauses.object.Name},
		{rebalance.PausedNamespace, "Namespace", "", namespace},
	} {
		o, err := a.read(ctx, schema.GroupVersionKind{Version: "v1", Kind: at.kind}, at.namespace, at.name)
		switch {
		case err != nil:
			return err
		case o != nil && rebalance.IsPaused(o):
			pause := rebalance.PauseOf(at.scope, o.Name, o)
			if at.scope == rebalance.PausedCluster {
				pause.Name = ""
			}
			return rebalance.ReasonPaused.Obstacle(rebalance.HoldChanged, "moves are paused for %s", &pause)
		}
	}
	return nil
}
