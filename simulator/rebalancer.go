// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configuration "berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/mix/rebalance/stepqueue"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/simulator/clock"
	"berth.dev/berth/simulator/store"
)

// rebalancer is the one of the companion controller.
type rebalancer struct {
	controller *rebalance.Controller
	state      *clusterstate.State
	mixes      *governing.Registry
	queue      *stepqueue.Queue
	store      *store.Store
	clock      *clock.Clock
	resync     time.Duration
	// rested is the number of changes of the cluster at which all workloads were settled, 0 while one is not.
	rested uint64
	// restless is for tests: it has each resynchronization done.
	restless bool
}

func newRebalancer(w *world, config *rest.Config) (*rebalancer, error) {
	profile := simulation.DefaultProfile()
	classifier, err := arguments.Classifier(profile.Args)
	if err != nil {
		return nil, err
	}
	r := &rebalancer{mixes: governing.NewRegistry(), store: w.store, clock: w.clock, restless: w.policy.restless}
	r.mixes.Comparison = simulation.ComparesTolerations()
	r.state = clusterstate.New(clusterstate.Options{
		Filtered: simulation.Filtered, Classifier: classifier, SpreadSpotOver: profile.Args.SpreadSpotOver,
		Conventions: arguments.Conventions(profile.Args), Mixes: r.mixes, Defaults: arguments.DefaultMixes(profile.ArgsOf),
		Changed:  func(key governing.GroupKey) { r.controller.Changed(key) },
		NodeLeft: func(d clusterstate.Departure) { r.controller.NodeLeft(d) },
	})
	o := rebalance.Configured(cmp.Or(w.policy.Configuration, configuration.Default()))
	o.State, o.Workloads, o.Reader, o.Client, o.Config = r.state, workloads.NewStore(), &reader{store: w.store}, w.client, config
	r.resync = o.Resync
	o.Profile, o.Recorder, o.Clock = profile, &record.FakeRecorder{}, w.clock
	o.Synced = func() (string, bool) { return "", true }
	o.Decided = func(workloads.Decision) {}
	o.Placeholders.SizeOf = func(*corev1.Pod) *v1alpha1.ResourceLimit { return nil }
	if r.controller, err = rebalance.New(o); err != nil {
		return nil, fmt.Errorf("create the rebalancer: %w", err)
	}
	r.queue = stepqueue.New(r.controller.Order(), w.clock)
	r.controller.Use(r.queue)
	r.controller.Changed(governing.GroupKey{})
	r.watch(w.store)
	return r, nil
}

// watch keeps the cluster state up to date.
func (r *rebalancer) watch(s *store.Store) {
	s.Watch(&corev1.Node{}, handler.Funcs[*corev1.Node]{
		Add: r.state.SetNode, Delete: func(n *corev1.Node) { r.state.DeleteNode(n.Name) },
	})
	s.Watch(&corev1.Pod{}, handler.Funcs[*corev1.Pod]{
		Add: r.state.SetPod,
		Delete: func(p *corev1.Pod) {
			r.state.DeletePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.UID)
		},
	})
	owner := handler.Funcs[metav1.Object]{
		Add: r.state.SetOwner, Delete: func(o metav1.Object) { r.state.DeleteOwner(o.GetUID()) },
	}
	s.Watch(&appsv1.ReplicaSet{}, owner)
	s.Watch(&appsv1.Deployment{}, owner)
	s.Watch(&v1alpha1.CapacityMix{}, handler.Funcs[*v1alpha1.CapacityMix]{Add: func(cm *v1alpha1.CapacityMix) {
		_ = r.mixes.Set(cm) // the scenario is validated
		r.controller.Changed(governing.GroupKey{Namespace: cm.Namespace})
	}})
	budget := func(b *policyv1.PodDisruptionBudget) {
		r.controller.Changed(governing.GroupKey{Namespace: b.Namespace})
	}
	s.Watch(&policyv1.PodDisruptionBudget{}, handler.Funcs[*policyv1.PodDisruptionBudget]{Add: budget, Delete: budget})
}

// step reconciles one key, and reports whether one was due.
func (r *rebalancer) step(ctx context.Context) bool {
	if r == nil || r.rests() || !r.queue.Busy() {
		return false
	}
	before := r.store.Changes()
	stepped := r.queue.Step(log.IntoContext(ctx, logr.Discard()), r.controller)
	if !r.restless && r.queue.Only(everything) && r.store.Changes() == before && r.synced() {
		r.rested = before
	}
	return stepped
}

// next returns when the next key is due, the zero time for never.
func (r *rebalancer) next() time.Time {
	if r == nil || r.rests() {
		return time.Time{}
	}
	return r.queue.Next()
}

// everything is the key with which the controller looks at all workloads.
var everything governing.GroupKey

// synced reports whether all workloads were looked at just now.
func (r *rebalancer) synced() bool { return r.queue.At(everything).Equal(r.clock.Now().Add(r.resync)) }

// rests reports whether the rebalancer has nothing to do until the cluster changes: it looked at all workloads, and each was settled. It
// looks at them again every 30 seconds, 86,400 times in a month, and would find the same.
func (r *rebalancer) rests() bool {
	switch r.rested {
	case 0:
		return false
	case r.store.Changes():
		return true
	}
	r.rested = 0
	r.queue.Skip(everything, r.resync)
	return false
}

// reader reads the mixes and budgets, as the cache of the controller does.
type reader struct {
	client.Reader
	store *store.Store
	// mixes are those of all namespaces, of a version of their store.
	mixes   []v1alpha1.CapacityMix
	version uint64
}

// List implements client.Reader.
func (r *reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	switch list := list.(type) {
	case *v1alpha1.CapacityMixList:
		list.Items = r.mixesIn(o.Namespace)
	case *policyv1.PodDisruptionBudgetList:
		for _, b := range store.List[*policyv1.PodDisruptionBudget](r.store, o.Namespace) {
			list.Items = append(list.Items, *b)
		}
	default:
		return fmt.Errorf("the simulation has no list %T", list)
	}
	return nil
}

// mixesIn returns the mixes of a namespace, or of all for "". Who reads them changes none.
func (r *reader) mixesIn(namespace string) (list []v1alpha1.CapacityMix) {
	changes := r.store.Of(&v1alpha1.CapacityMix{}).Changes()
	if namespace == "" && r.version == changes {
		return r.mixes
	}
	for _, cm := range store.List[*v1alpha1.CapacityMix](r.store, namespace) {
		list = append(list, *cm)
	}
	if namespace == "" {
		r.mixes, r.version = list, changes
	}
	return list
}

// Get implements client.Reader.
func (r *reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	cm, is := into.(*v1alpha1.CapacityMix)
	if !is {
		return fmt.Errorf("the simulation has no %T", into)
	}
	found, exists := store.Get[*v1alpha1.CapacityMix](r.store, key.Namespace, key.Name)
	if !exists {
		return fmt.Errorf("the simulation has no CapacityMix %s", key)
	}
	found.DeepCopyInto(cm)
	return nil
}
