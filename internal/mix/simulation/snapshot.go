// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"berth.dev/berth/internal/limits/registry"
)

// Snapshot is the state of a cluster at one moment. Take it, ask, close it: it
// holds what filters read of every pod, and grows wrong by the second. It is safe for
// concurrent use; questions are answered one after the other.
type Snapshot struct {
	profile   *Profile
	informers *factory
	stop      context.CancelFunc

	mu         sync.Mutex // guards all below, and what the plugins keep of the view
	base       *state
	view       *view
	frameworks map[string]framework.Framework // by scheduler name; nil once closed
	limits     *registry.Registries           // of no limits unless a profile has the plugin ResourceLimit
}

// Take lists what the profile's filters read, each kind once. It needs the verb
// list and no other, on: pods, nodes, namespaces, persistentvolumes,
// persistentvolumeclaims; csidrivers, csinodes, csistoragecapacities,
// storageclasses, volumeattachments; deviceclasses, resourceclaims,
// resourceslices. A profile with hard default constraints for spreading pods
// reads services, replicationcontrollers, replicasets and statefulsets too, and
// one with the plugin ResourceLimit resourcelimits. A list that fails is an
// error, for its kind's absence would be treated as room.
func Take(ctx context.Context, cfg *rest.Config, profile *Profile) (*Snapshot, error) {
	client, err := kubernetes.NewForConfig(listOnce(cfg))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	s, err := take(ctx, client, profile)
	if err != nil || !profile.readsLimits() {
		return s, err
	}
	all, err := listLimits(ctx, cfg)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.limits = registry.NewRegistries(all)
	return s, nil
}

func take(ctx context.Context, client kubernetes.Interface, profile *Profile) (*Snapshot, error) {
	// Nodes first: a node that the list of pods is older than would look empty.
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return nil, err
	}
	pods, err := listPods(ctx, client)
	if err != nil {
		return nil, err
	}
	return newSnapshot(ctx, client, profile, nodes, pods)
}

// newSnapshot makes a snapshot of stripped nodes and of seats; all else is listed.
func newSnapshot(ctx context.Context, client kubernetes.Interface, profile *Profile, nodes []*corev1.Node, pods []seat) (*Snapshot, error) {
	metrics.Register() // the framework counts into them
	// The plugins live as long as the snapshot, not as long as taking it.
	running, stop := context.WithCancel(context.WithoutCancel(quiet(ctx)))
	base := newState(nodes, pods)
	s := &Snapshot{
		profile: profile, informers: newFactory(client, nodes), stop: stop,
		base: base, view: &view{base}, frameworks: map[string]framework.Framework{},
		limits: registry.NewRegistries(nil),
	}
	if err := s.build(running, client); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.informers.fill(quiet(ctx)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// build makes the plugins, which register with the informers.
func (s *Snapshot) build(ctx context.Context, client kubernetes.Interface) error {
	for name, r := range s.profile.replays {
		options := []frameworkruntime.Option{
			frameworkruntime.WithClientSet(client),
			frameworkruntime.WithInformerFactory(s.informers),
			frameworkruntime.WithSnapshotSharedLister(s.view),
			frameworkruntime.WithPodNominator(s.view),
			frameworkruntime.WithParallelism(goruntime.GOMAXPROCS(0)),
		}
		if r.enabled(names.DynamicResources) {
			manager, err := s.devices(ctx)
			if err != nil {
				return err
			}
			options = append(options, frameworkruntime.WithSharedDRAManager(manager))
		}
		// The framework keeps the profile, and profiles are shared by snapshots.
		f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), r.profile.DeepCopy(), options...)
		if err != nil {
			return fmt.Errorf("scheduler profile %s: %w", name, err)
		}
		s.frameworks[name] = f
	}
	return nil
}

// devices is what the plugin for device claims reads. Taints of devices are
// behind a feature gate that is off, and left out.
func (s *Snapshot) devices(ctx context.Context) (framework.SharedDRAManager, error) {
	api := s.informers.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: api.ResourceSlices()})
	if err != nil {
		return nil, fmt.Errorf("track the ResourceSlices: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), api.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	return dynamicresources.NewDRAManager(ctx, claims, slices, s.informers), nil
}

// Close stops what the plugins run. The snapshot answers no more.
func (s *Snapshot) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frameworks {
		_ = f.Close() // of plugins that hold files or connections; in-tree ones do not
	}
	s.frameworks = nil
	s.stop()
}

// Assume makes a pod's replacement count as placed on a node, for the questions
// that follow. Its volumes and devices are not reserved.
func (s *Snapshot) Assume(pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	placed := newStripper().seat(replacement(pod))
	placed.node = node
	s.base = s.base.with(placed)
	s.view.state = s.base
}

// quiet takes the plugins' log lines away: they are a scheduler's, and would
// tell of pods that no one schedules.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }
