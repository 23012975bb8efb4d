// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
)

// mixInformer returns the informer of CapacityMixes, which the scheduler's own
// factory starts and waits for: one watch for all profiles, no pod placed
// before the mixes are known, and not ready until then. Watched reports whether
// the watch has begun.
func mixInformer(factory informers.SharedInformerFactory, kubeConfig *rest.Config, logger klog.Logger, timeout time.Duration) (i cache.SharedIndexInformer, watched cache.InformerSynced, err error) {
	client, err := mixClient(kubeConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("client for %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	var live atomic.Bool
	listWatch := eagerListWatch(client, &live)
	informer := factory.InformerFor(&v1alpha1.CapacityMix{}, func(_ clientset.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(listWatch, &v1alpha1.CapacityMix{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
	guard := &startGuard{logger: logger, timeout: timeout, synced: informer.HasSynced, exit: func() { klog.FlushAndExit(klog.ExitFlushTimeout, 1) }}
	if err := informer.SetWatchErrorHandlerWithContext(guard.watchFailed); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", crdName, err)
	}
	return informer, live.Load, nil
}

// eagerListWatch lists and watches CapacityMixes, and sets live when a watch has
// begun for the first time.
//
// An API server answers 429 to a watch of a custom resource whose cache it is
// still filling, as it does after the definition was created or changed. It
// lists the resource at that time, so the informer counts as synced, and asks
// for a second of patience, in which a whole workload is placed without the mix
// that was applied before it. So the second is not waited for, at first.
func eagerListWatch(client cache.Getter, live *atomic.Bool) *cache.ListWatch {
	request := func(options metav1.ListOptions) *rest.Request {
		return client.Get().Resource(mixResource).VersionedParams(&options, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return request(options).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			options.Watch = true
			backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 8} // about a second
			err = retry.OnError(backoff, apierrors.IsTooManyRequests, func() error {
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

const (
	mixResource = "capacitymixes"
	crdName     = mixResource + "." + v1alpha1.GroupName
)

func mixClient(kubeConfig *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(kubeConfig)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &v1alpha1.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// The scheduler's client speaks protobuf, which custom resources do not have.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(cfg)
}

// startGuard ends the scheduler when the CapacityMixes cannot be read at start,
// with a message that names the reason. Placing pods without their mix would be
// worse, and waiting without a word worst. Once they have been read, failures
// are the informer's to retry: the scheduler goes on with what it knows.
type startGuard struct {
	logger  klog.Logger
	timeout time.Duration
	synced  func() bool
	exit    func()

	mu    sync.Mutex
	first bool // the first failure has been seen
	last  error
}

func (g *startGuard) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	if g.synced() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = err
	g.logger.Error(err, "Not ready: cannot list "+crdName+". Is the CustomResourceDefinition installed, and may this scheduler list and watch it?")
	if g.first {
		return
	}
	g.first = true
	stop := time.AfterFunc(g.timeout, g.giveUp)
	context.AfterFunc(ctx, func() { stop.Stop() })
}

func (g *startGuard) giveUp() {
	if g.synced() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logger.Error(g.last, "Giving up: "+crdName+" could not be listed. Install the CustomResourceDefinition and the scheduler's ClusterRole, then start the scheduler again", "after", g.timeout)
	g.exit()
}
