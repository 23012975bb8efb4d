// SPDX-License-Identifier: Apache-2.0

// Package crdinformer watches, for a scheduler plugin, a custom resource that
// must be known before the first pod is placed.
package crdinformer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Resource is a custom resource of Berth's group.
type Resource struct {
	// Name is the plural in the URL, such as "resourcelimits".
	Name string
	// Object is an empty object of its kind.
	Object runtime.Object
}

// CRD is the name of the resource's CustomResourceDefinition.
func (r Resource) CRD() string { return r.Name + "." + v1alpha1.GroupName }

// Watch adds an event handler to the informer of a resource, which the
// scheduler's own factory starts and waits for: one watch for all profiles, no
// pod placed before the objects are known, and not ready until then. If they
// cannot be listed within the timeout, the scheduler ends with the reason. Its
// startup waits for the handler, and until the watch has begun.
func (r Resource) Watch(ctx context.Context, handle fwk.Handle, startup *perscheduler.Startup, timeoutSeconds int32,
	handler cache.ResourceEventHandler,
) error {
	kubeConfig := handle.KubeConfig()
	if kubeConfig == nil {
		return nil // there is no API server in unit tests
	}
	client, err := client.New(kubeConfig)
	if err != nil {
		return fmt.Errorf("client for %s: %w", r.CRD(), err)
	}
	var live atomic.Bool
	create := func(_ clientset.Interface, resync time.Duration) cache.SharedIndexInformer {
		return r.informer(client, resync, &live)
	}
	informer := handle.SharedInformerFactory().InformerFor(r.Object, create)
	guard := &startGuard{
		logger: klog.FromContext(ctx), crd: r.CRD(), timeout: time.Duration(timeoutSeconds) * time.Second,
		synced: informer.HasSynced, exit: func() { klog.FlushAndExit(klog.ExitFlushTimeout, 1) },
	}
	if err := informer.SetWatchErrorHandlerWithContext(guard.watchFailed); err != nil {
		return fmt.Errorf("watch %s: %w", r.CRD(), err)
	}
	startup.Add(live.Load)
	return startup.Handle(r.Name, informer, handler)
}

// informer returns one that keeps what plugins read.
func (r Resource) informer(client cache.Getter, resync time.Duration, live *atomic.Bool) cache.SharedIndexInformer {
	informer := cache.NewSharedIndexInformer(eagerListWatch(client, r.Name, live), r.Object, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	_ = informer.SetTransform(trim) // it fails for one that was started
	return informer
}

// trim keeps of an object what plugins read, before the informer keeps it: its identity, its spec and the labels that Berth sets,
// such as the group of a Reservation, and the status of Reservations, which the scheduler writes.
func trim(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		budget.Identity(o, v1alpha1.AnnotationPrefix+"/")
	}
	switch o := object.(type) {
	case *v1alpha1.CapacityMix:
		o.Status = v1alpha1.CapacityMixStatus{}
	case *v1alpha1.ResourceLimit:
		o.Status = v1alpha1.ResourceLimitStatus{}
	case *v1alpha1.SchedulingPolicy:
		o.Status = v1alpha1.SchedulingPolicyStatus{}
	}
	return object, nil
}

// eagerListWatch lists and watches a resource, and sets live when a watch has
// begun for the first time.
//
// An API server that fills its cache of a custom resource, as it does after the
// definition was created or changed, lists the resource, answers 429 to a watch
// and requests a second of patience. The informer counts as synced by then, and
// pods would be placed without what is created in that second. So it is not
// waited for, at first.
func eagerListWatch(client cache.Getter, resource string, live *atomic.Bool) *cache.ListWatch {
	request := func(options metav1.ListOptions) *rest.Request {
		return client.Get().Resource(resource).VersionedParams(&options, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return request(options).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			options.Watch = true
			backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 8} // about a second
			// OnError's own result is not used: it is nil for a request that was cancelled.
			_ = retry.OnError(backoff, apierrors.IsTooManyRequests, func() error {
				w, err = request(options).MaxRetries(0).Watch(ctx)
				return err
			})
			if err == nil {
				live.Store(true)
			}
			return w, err
		},
	}
}
