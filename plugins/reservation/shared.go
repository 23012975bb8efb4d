// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/internal/crdinformer"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// ErrReasonNotSynced is the reason for which PreEnqueue holds a pod back.
const ErrReasonNotSynced = "not all Reservations are known yet"

// syncTimeoutSeconds is how long the Reservations may take to be listed at start. It is the default of the other plugins.
const syncTimeoutSeconds = 60

// shared is what the profiles of one scheduler have in common.
type shared struct {
	perscheduler.Startup

	holdings *reservations.Holdings
	clock    clock.PassiveClock
	waiting  *waiting
	recorder events.EventRecorder
	writer   *writer
}

func newShared(ctx context.Context, handle fwk.Handle) (*shared, error) {
	metrics.Register()
	writer, err := newWriter(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	sh := &shared{
		Startup:  perscheduler.Startup{Reason: ErrReasonNotSynced, Unseen: "plugin " + Name + " has not seen all Reservations"},
		holdings: reservations.NewHoldings(),
		clock:    clock.RealClock{},
		recorder: handle.EventRecorder(),
		writer:   writer,
	}
	sh.waiting = newWaiting(func(pods map[string]*corev1.Pod) { handle.Activate(klog.FromContext(ctx), pods) },
		func(pod *corev1.Pod) bool { return sh.holdings.Serves(pod, sh.clock.Now()) })
	core := handle.SharedInformerFactory().Core().V1()
	if err := sh.Handle("pods", core.Pods().Informer(), sh.podHandler()); err != nil {
		return nil, err
	}
	if err := sh.Handle("nodes", core.Nodes().Informer(), sh.nodeHandler()); err != nil {
		return nil, err
	}
	resource := crdinformer.Resource{Name: plural, Object: &v1alpha1.Reservation{}}
	if err := resource.Watch(ctx, handle, &sh.Startup, syncTimeoutSeconds, sh.reservationHandler()); err != nil {
		return nil, err
	}
	go sh.Release(ctx, handle.Activate)
	return sh, nil
}

func (sh *shared) reservationHandler() cache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.Reservation]{
		Add:    sh.holdings.Set,
		Delete: func(r *v1alpha1.Reservation) { sh.holdings.Delete(r.Namespace, r.Name) },
	}
}

func (sh *shared) podHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Pod]{
		Add: sh.podChanged,
		Update: func(old, pod *corev1.Pod) {
			if old.UID != pod.UID { // a deletion was missed
				sh.podGone(old)
			}
			sh.podChanged(pod)
		},
		Delete: sh.podGone,
	}
}

func (sh *shared) podChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		sh.waiting.forget(pod)
		sh.holdings.SetPod(pod)
	}
}

func (sh *shared) podGone(pod *corev1.Pod) {
	sh.waiting.forget(pod)
	sh.holdings.DeletePod(pod.UID)
}

func (sh *shared) nodeHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Node]{
		Add:    sh.holdings.SetNode,
		Delete: func(n *corev1.Node) { sh.holdings.DeleteNode(n.Name) },
	}
}
