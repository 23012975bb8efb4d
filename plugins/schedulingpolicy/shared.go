// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/policies/registry"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/internal/crdinformer"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/plugins/schedulingpolicy/nodelock"
	"berth.dev/berth/plugins/schedulingpolicy/twophase"
)

// ErrReasonNotSynced is the reason for which PreEnqueue holds a pod back.
const ErrReasonNotSynced = "not all SchedulingPolicies are known yet"

// shared is what the profiles of one scheduler have in common.
type shared struct {
	perscheduler.Startup

	policies *registry.Registry
	recorder *Recorder
	clock    clock.PassiveClock
	siblings *siblings
	locks    *nodelock.Locks
	groups   *twophase.Groups
	// namespaces has the labels of namespaces. The scheduler starts only informers that were requested before.
	namespaces corelisters.NamespaceLister
	// classifier returns how the scheduler classifies nodes.
	classifier func() *capacity.Classifier

	// census, waits and tasks are of pods that are bound in groups, owners are their controllers.
	census *census
	waits  *waits
	tasks  workqueue.TypedDelayingInterface[task]
	owners *owners

	// nodes is the number of nodes of the cluster when a pod was scored last.
	nodes atomic.Int64

	mu sync.Mutex
	// governors are those of policies that have governed a pod, by UID.
	governors map[types.UID]*governor
	// defaults govern pods without a policy, by the name of the profile.
	defaults map[string]*governor
	// versions of namespaces change with their policies.
	versions map[string]int64
}

// governor is a policy or the rules of a profile, with the state of its strategy. Scheduling cycles use it one at a time.
type governor struct {
	// policy is nil for the rules of a profile.
	policy  *registry.Policy
	rules   *rules.Rules
	chooser *score.Chooser
	// key identifies the rules in signatures, and pods without a controller as siblings.
	key string
	// packs is set where Binpacking outweighs all other functions together.
	packs bool
}

func newGovernor(r *rules.Rules, key string) *governor {
	return &governor{rules: r, chooser: score.NewChooser(r.TieBreaker, r.Seed), key: key, packs: packs(r)}
}

func packs(r *rules.Rules) bool {
	var binpacking, others float64
	for _, f := range r.Functions {
		if f.Name == v1alpha1.ScoreBinpacking {
			binpacking += f.Coefficient
		} else {
			others += f.Coefficient
		}
	}
	return binpacking > others
}

// name is the name of the policy, empty for the rules of a profile.
func (g *governor) name() string {
	if g.policy == nil {
		return ""
	}
	return g.policy.Object.Name
}

func newShared(ctx context.Context, handle fwk.Handle, args *config.SchedulingPolicyArgs, recorder *Recorder,
	classifiers *capacitymix.Classifiers,
) (*shared, error) {
	metrics.Register()
	if err := recorder.writeObjects(handle.KubeConfig(), clock.RealClock{}); err != nil {
		return nil, err
	}
	sh := &shared{
		Startup:    perscheduler.Startup{Reason: ErrReasonNotSynced, Unseen: "plugin " + Name + " has not seen all SchedulingPolicies"},
		policies:   registry.New(),
		recorder:   recorder,
		clock:      clock.RealClock{},
		siblings:   newSiblings(),
		namespaces: handle.SharedInformerFactory().Core().V1().Namespaces().Lister(),
		locks:      nodelock.New(handle.ClientSet().CoordinationV1().Leases(args.LockNamespace), identity(), clock.RealClock{}),
		groups:     twophase.New(),
		classifier: classifierOf(classifiers, handle),
		governors:  map[types.UID]*governor{},
		defaults:   map[string]*governor{},
		versions:   map[string]int64{},
		census:     newCensus(),
		waits:      newWaits(),
		tasks:      newTasks(),
		owners:     newOwners(handle.SharedInformerFactory()),
	}
	if err := sh.watchMembers(handle); err != nil {
		return nil, err
	}
	resource := crdinformer.Resource{Name: "schedulingpolicies", Object: &v1alpha1.SchedulingPolicy{}}
	if err := resource.Watch(ctx, handle, &sh.Startup, args.SyncTimeoutSeconds, sh.policyHandler()); err != nil {
		return nil, err
	}
	go sh.Release(ctx, handle.Activate)
	go sh.work(ctx, handle)
	return sh, nil
}

// identity names this process in locks.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "berth-scheduler"
	}
	return host + "_" + string(uuid.NewUUID())
}

// classifierOf returns how a scheduler classifies nodes: as CapacityMix does or, in a profile without it, by the shipped rules.
func classifierOf(of *capacitymix.Classifiers, handle fwk.Handle) func() *capacity.Classifier {
	shipped := sync.OnceValue(func() *capacity.Classifier {
		c, err := capacity.NewClassifier(capacity.DefaultRules())
		if err != nil {
			panic(err) // constants, and a test creates it
		}
		return c
	})
	return func() *capacity.Classifier {
		if c, ok := of.Get(handle); ok {
			return c
		}
		return shipped()
	}
}

// policyHandler keeps the registry up to date. Pods do not wait for policies, so a change wakes none.
func (sh *shared) policyHandler() cache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.SchedulingPolicy]{
		Add: func(p *v1alpha1.SchedulingPolicy) {
			if sh.policies.Set(p) {
				sh.policiesChanged(p.Namespace)
			}
		},
		Delete: func(p *v1alpha1.SchedulingPolicy) {
			sh.policies.Delete(p.Namespace, p.Name)
			sh.mu.Lock()
			delete(sh.governors, p.UID)
			sh.mu.Unlock()
			sh.policiesChanged(p.Namespace)
		},
	}
}

// policiesChanged has the pods of a namespace grouped again, and of no other.
func (sh *shared) policiesChanged(namespace string) {
	sh.mu.Lock()
	sh.versions[namespace]++
	sh.mu.Unlock()
	sh.tasks.AddAfter(task{namespace: namespace}, recountAfter)
}

// version changes with the policies of a namespace.
func (sh *shared) version(namespace string) int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.versions[namespace]
}

// setDefaults sets what governs the pods of a profile without a policy, nil if nothing does.
func (sh *shared) setDefaults(profile string, g *governor) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.defaults[profile] = g
}

// governing returns what governs a pod of any profile, nil if nothing does.
func (sh *shared) governing(pod *corev1.Pod) *governor {
	if pods.IsPlaceholder(pod) {
		return nil // it belongs to no group, and no decision is its user's
	}
	if g := sh.byPolicy(pod); g != nil {
		return g
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.defaults[pod.Spec.SchedulerName]
}

// governorOf returns what governs a pod of this profile, nil if nothing does.
func (pl *SchedulingPolicy) governorOf(pod *corev1.Pod) *governor {
	if pods.IsPlaceholder(pod) {
		return nil
	}
	if g := pl.byPolicy(pod); g != nil {
		return g
	}
	return pl.governor
}

// byPolicy returns the governor of the policy that governs a pod, nil if none does.
func (sh *shared) byPolicy(pod *corev1.Pod) *governor {
	p := sh.policies.For(pod)
	if p == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	g := sh.governors[p.Object.UID]
	if g == nil || g.policy.Object.Generation != p.Object.Generation {
		g = newGovernor(p.Rules, fmt.Sprintf("%s/%d", p.Object.UID, p.Object.Generation))
		g.policy = p // not changed later: bindings, which run beside the next cycle, read it
		sh.governors[p.Object.UID] = g
	}
	return g
}
