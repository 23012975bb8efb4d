// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Snapshot is the state of a cluster at one moment. It has the fields of every pod that filters read, and soon becomes
// outdated: create it, put questions to it and close it. It is safe for concurrent use. Questions are answered one at a time.
type Snapshot struct {
	profile   *Profile
	informers *factory
	stop      context.CancelFunc

	mu         sync.Mutex // guards all below, and what the plugins keep of the view
	pods       pods
	records    *records
	base       *state
	view       *view
	frameworks map[string]framework.Framework // by scheduler name; nil once closed
	limits     *registry.Registries           // empty unless a profile has the plugin ResourceLimit
	reserved   reserved                       // nothing unless a profile has the plugin Reservation
}

// Take lists what the profile's filters read, each kind once. It requires only the verb list on: pods, nodes,
// namespaces, persistentvolumes, persistentvolumeclaims; csidrivers, csinodes, csistoragecapacities, storageclasses,
// volumeattachments; deviceclasses, devicetaintrules, resourceclaims, resourceslices. A profile with hard default
// constraints for spreading pods also reads services, replicationcontrollers, replicasets and statefulsets, one with the
// plugin ResourceLimit resourcelimits, and one with the plugin Reservation reservations. A list that fails is an error,
// because without its objects there would appear to be more free capacity. A kind that an older API server does not serve
// has no objects.
func Take(ctx context.Context, cfg *rest.Config, profile *Profile) (*Snapshot, error) {
	return TakeWatched(ctx, cfg, profile, nil)
}

// TakeWatched is Take with the pods of a cluster state with Filtered, which watches keep; nil lists them. To list those of a large
// cluster takes half a minute, and most of the memory of a program. A watch may be behind, so before an answer names a node, the
// pods of that node are listed, and for a replacement whose filters count pods on other nodes, all are.
func TakeWatched(ctx context.Context, cfg *rest.Config, profile *Profile, watched *clusterstate.State) (*Snapshot, error) {
	client, err := kubernetes.NewForConfig(listOnce(cfg))
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	s, err := take(ctx, client, profile, watched)
	if err != nil {
		return nil, err
	}
	if err := s.listOwn(ctx, cfg); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// listOwn lists the kinds of Berth that plugins of the profile read.
func (s *Snapshot) listOwn(ctx context.Context, cfg *rest.Config) error {
	if s.profile.readsLimits() {
		all, err := listLimits(ctx, cfg)
		if err != nil {
			return err
		}
		s.limits = registry.NewRegistries(all)
	}
	if !s.profile.readsReservations() {
		return nil
	}
	all, err := listReservations(ctx, cfg)
	if err == nil {
		s.reserved = newReserved(all, time.Now())
	}
	return err
}

func take(ctx context.Context, client kubernetes.Interface, profile *Profile, watched *clusterstate.State) (*Snapshot, error) {
	// Nodes first: a node that is newer than the list of pods would appear to be empty.
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return nil, err
	}
	kept := pods{nodes: nodes}
	if watched == nil || watched.Filtered == nil {
		kept.all, err = listPods(ctx, client, notTerminated)
	} else {
		kept, err = watchedPods(ctx, client, nodes, watched)
	}
	if err != nil {
		return nil, err
	}
	return newSnapshot(ctx, client, profile, kept)
}

// newSnapshot creates a snapshot of stripped nodes and pods and lists everything else.
func newSnapshot(ctx context.Context, client kubernetes.Interface, profile *Profile, kept pods) (*Snapshot, error) {
	metrics.Register() // the framework requires its metrics
	// The plugins live as long as the snapshot, not as long as this call.
	running, stop := context.WithCancel(context.WithoutCancel(quiet(ctx)))
	s := &Snapshot{
		profile: profile, informers: newFactory(client, kept.nodes), stop: stop,
		pods: kept, records: newRecords(false), view: &view{}, frameworks: map[string]framework.Framework{},
		limits: registry.NewRegistries(nil), reserved: newReserved(nil, time.Time{}),
	}
	if err := errors.Join(s.rebuild(), s.build(running, client)); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.informers.fill(quiet(ctx)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// build creates the plugins, which register with the informers.
func (s *Snapshot) build(ctx context.Context, client kubernetes.Interface) error {
	var devices fwk.SharedDRAManager // of all profiles, as in a scheduler
	for name, r := range s.profile.replays {
		options := []frameworkruntime.Option{
			frameworkruntime.WithClientSet(client),
			frameworkruntime.WithInformerFactory(s.informers),
			frameworkruntime.WithSnapshotSharedLister(s.view),
			frameworkruntime.WithPodNominator(s.view),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(s.informers.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithParallelism(goruntime.GOMAXPROCS(0)),
		}
		if r.enabled(names.DynamicResources) {
			if devices == nil {
				var err error
				if devices, err = s.devices(ctx); err != nil {
					return err
				}
			}
			options = append(options, frameworkruntime.WithSharedDRAManager(devices))
		}
		// The framework keeps the profile, and snapshots share profiles.
		f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), r.profile.DeepCopy(), options...)
		if err != nil {
			return fmt.Errorf("scheduler profile %s: %w", name, err)
		}
		s.frameworks[name] = f
	}
	return nil
}

// devices returns what the DynamicResources plugin reads, as a scheduler creates it. Without a client the tracker writes
// no events.
func (s *Snapshot) devices(ctx context.Context) (fwk.SharedDRAManager, error) {
	api := s.informers.Resource().V1()
	options := tracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            api.ResourceSlices(),
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = api.DeviceTaintRules()
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("track the ResourceSlices: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), api.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, s.informers)
	if classes, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok && classes != nil {
		// It resolves extended resources that devices provide.
		if _, err := api.DeviceClasses().Informer().AddEventHandler(classes); err != nil {
			return nil, fmt.Errorf("watch the DeviceClasses: %w", err)
		}
	}
	return manager, nil
}

// Close stops the plugins. After that the snapshot answers no questions.
func (s *Snapshot) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frameworks {
		_ = f.Close() // for plugins with files or connections; in-tree ones have none
	}
	s.frameworks = nil
	s.stop()
}

// Assume counts a pod's replacement as scheduled to a node for the questions that follow. Its volumes and devices are
// not reserved.
func (s *Snapshot) Assume(pod *corev1.Pod, node string) { s.assume(pod, node, pod.UID) }

// assume is Assume for a pod that replaces another one.
func (s *Snapshot) assume(pod *corev1.Pod, node string, replaces types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := scheduled(replacement(pod))
	p.Node = node
	s.pods.assumed = append(s.pods.assumed, p)
	if s.pods.replaces == nil {
		s.pods.replaces = map[types.UID]types.UID{}
	}
	s.pods.replaces[p.UID] = replaces
	if placed, err := s.records.of(p); err == nil { // it was just encoded
		s.base = s.base.with(placed)
		s.view.state = s.base
	}
}

// quiet discards the log messages of the plugins: they are a scheduler's, and this process schedules no pods.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }
