// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/plugins/schedulingpolicy/twophase"
)

const (
	// retryAfter collects the changes of a group before its members that wait are tried again.
	retryAfter = 20 * time.Millisecond
	// recountAfter collects the changes of a namespace's policies before its pods are counted again. A tenant who changes a
	// policy all the time causes two counts a second of the pods of their own namespace, beside the scheduling cycles.
	recountAfter = 500 * time.Millisecond
)

// task is a group whose members that wait are tried again or, without a key, a namespace whose pods are counted again.
type task struct {
	namespace, key string
	// wake is set for a group whose members without a node are tried at once.
	wake bool
}

// waits are the groups with members that wait, with one of these. Safe for concurrent use.
type waits struct {
	mu sync.Mutex
	of map[string]waiting
	// keys are the groups of a controller.
	keys map[types.UID]string
}

// waiting is a member that waits, in its cycle.
type waiting struct {
	pl  *SchedulingPolicy
	c   *cycle
	pod *corev1.Pod
}

func newWaits() *waits { return &waits{of: map[string]waiting{}, keys: map[types.UID]string{}} }

func (w *waits) add(key string, pl *SchedulingPolicy, c *cycle, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[key] = waiting{pl, c, pod}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		w.keys[owner.UID] = key
	}
}

// remove removes a group if none of its members waits any more.
func (w *waits) remove(key string, groups *twophase.Groups) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of, ok := w.of[key]; ok && len(groups.Waiting(key)) == 0 {
		delete(w.of, key)
		if owner := metav1.GetControllerOfNoCopy(of.pod); owner != nil && w.keys[owner.UID] == key {
			delete(w.keys, owner.UID)
		}
	}
}

func (w *waits) get(key string) (waiting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, ok := w.of[key]
	return of, ok
}

// ownedBy returns the key of the group of a controller.
func (w *waits) ownedBy(uid types.UID) (key string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok = w.keys[uid]
	return key, ok
}

// watchMembers has the census follow the pods, and groups that wait their controllers.
func (sh *shared) watchMembers(handle fwk.Handle) error {
	factory := handle.SharedInformerFactory()
	for _, src := range []struct {
		name     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"pods", factory.Core().V1().Pods().Informer(), sh.podHandler()},
		{"replicasets", factory.Apps().V1().ReplicaSets().Informer(), sh.ownerHandler()},
		{"statefulsets", factory.Apps().V1().StatefulSets().Informer(), sh.ownerHandler()},
		{"replicationcontrollers", factory.Core().V1().ReplicationControllers().Informer(), sh.ownerHandler()},
		{"jobs", factory.Batch().V1().Jobs().Informer(), sh.ownerHandler()},
	} {
		if err := sh.Handle(src.name, src.informer, src.handler); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shared) podHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Pod]{
		Add: sh.count,
		Update: func(old, pod *corev1.Pod) {
			if old.UID != pod.UID { // a deletion was missed
				sh.changed(old.Namespace, sh.census.set(old, ""))
			}
			if !sameMember(old, pod) {
				sh.count(pod)
			}
		},
		Delete: func(pod *corev1.Pod) { sh.changed(pod.Namespace, sh.census.set(pod, "")) },
	}
}

// sameMember reports whether an update, most of which are of the status, leaves a pod as it is in the census.
func sameMember(old, pod *corev1.Pod) bool {
	return old.UID == pod.UID && old.Spec.NodeName == pod.Spec.NodeName && old.Status.Phase == pod.Status.Phase &&
		(old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) && len(old.OwnerReferences) == len(pod.OwnerReferences) &&
		maps.Equal(old.Labels, pod.Labels)
}

// ownerHandler tries the members of a group again when its controller makes another number of pods.
func (sh *shared) ownerHandler() cache.ResourceEventHandler {
	retry := func(obj any) {
		if owner, ok := obj.(metav1.Object); ok {
			if key, ok := sh.waits.ownedBy(owner.GetUID()); ok {
				sh.tasks.AddAfter(task{namespace: owner.GetNamespace(), key: key}, retryAfter)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: retry, UpdateFunc: func(_, obj any) { retry(obj) }}
}

// count counts a pod as a member of its group.
func (sh *shared) count(pod *corev1.Pod) {
	key := ""
	if counts(pod) {
		key = sh.groupKeyOf(pod)
	}
	sh.changed(pod.Namespace, sh.census.set(pod, key))
}

// changed has groups tried again of which members wait.
func (sh *shared) changed(namespace string, keys []string) {
	for _, key := range keys {
		if _, waits := sh.waits.get(key); waits {
			sh.tasks.AddAfter(task{namespace: namespace, key: key}, retryAfter)
		}
	}
}

// work works off the tasks until the context ends.
func (sh *shared) work(ctx context.Context, handle fwk.Handle) {
	defer context.AfterFunc(ctx, sh.tasks.ShutDown)()
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	for {
		t, end := sh.tasks.Get()
		if end {
			return
		}
		if t.key != "" && !t.wake {
			sh.retry(t)
		} else if all, err := pods.Pods(t.namespace).List(labels.Everything()); err != nil {
			klog.FromContext(ctx).Error(err, "List the pods of a namespace whose policies or groups have changed", "namespace", t.namespace)
		} else if t.wake {
			handle.Activate(klog.FromContext(ctx), sh.withoutNode(t.key, all))
		} else {
			for _, pod := range all {
				sh.count(pod)
			}
		}
		sh.tasks.Done(t)
	}
}

// withoutNode are the pods of a group that have no node and do not wait with one, by namespace and name.
func (sh *shared) withoutNode(key string, all []*corev1.Pod) map[string]*corev1.Pod {
	members, waiting := map[string]*corev1.Pod{}, sets.New(sh.groups.Waiting(key)...)
	for _, pod := range all {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !waiting.Has(pod.UID) && sh.groupKeyOf(pod) == key {
			members[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return members
}

// groupKeyOf identifies the group that a pod is bound with, empty for none.
func (sh *shared) groupKeyOf(pod *corev1.Pod) string {
	if g := sh.governing(pod); g != nil && g.rules.GroupSize > 0 {
		if group := g.groupOf(pod); group != "" {
			return pod.Namespace + "/" + group
		}
	}
	return ""
}

// retry allows the members of a group that wait, if it is complete.
func (sh *shared) retry(t task) {
	w, ok := sh.waits.get(t.key)
	if !ok {
		return
	}
	uids := sh.groups.Waiting(t.key)
	if len(uids) == 0 {
		sh.waits.remove(t.key, sh.groups)
		return
	}
	for _, uid := range uids {
		if w.pl.handle.GetWaitingPod(uid) == nil { // Permit has returned, and the framework does not have it yet, or not any more
			sh.tasks.AddAfter(t, retryAfter)
			return
		}
	}
	w.pl.size(w.c, w.pod, func(settled *settled, size int) { uids = sh.groups.Retry(t.key, settled, size) })
	w.pl.allow(uids)
}

func newTasks() workqueue.TypedDelayingInterface[task] {
	return workqueue.NewTypedDelayingQueue[task]()
}
