// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// How problems call the lists.
const (
	MixesResource        = "capacitymixes." + v1alpha1.GroupName
	LimitsResource       = "resourcelimits." + v1alpha1.GroupName
	PoliciesResource     = "schedulingpolicies." + v1alpha1.GroupName
	ReservationsResource = "reservations." + v1alpha1.GroupName
	RecordsResource      = "deploymentrecords." + v1alpha1.GroupName
	EnvironmentsResource = "environments." + v1alpha1.GroupName
)

// Problem is something that could not be read.
type Problem struct {
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Message   string `json:"message"`
	// NotServed is set where the API server has no such resource: there are no objects of it.
	NotServed bool `json:"-"`
}

// String is one line for people.
func (p Problem) String() string { return p.Message }

// Cluster is what was read.
type Cluster struct {
	*Settings
	State *clusterstate.State
	Store *governing.Registry
	// Pods and Nodes are as the API has them.
	Pods  []*corev1.Pod
	Nodes []*corev1.Node
	// Mixes are sorted by namespace and name; Invalid has those that cannot be used.
	Mixes   []*v1alpha1.CapacityMix
	Invalid map[types.NamespacedName]error
	Budgets map[string][]rebalance.DisruptionBudget
	// Owners are the controllers of pods, and PodDisruptionBudgets the budgets, as the API has them.
	Owners               []metav1.Object
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	// The objects of the other products are there if they were read.
	Limits       []*v1alpha1.ResourceLimit
	Policies     []*v1alpha1.SchedulingPolicy
	Reservations []*v1alpha1.Reservation
	Records      []*v1alpha1.DeploymentRecord
	Environments []*v1alpha1.Environment
	// Problems are the lists that are missing.
	Problems []Problem
	// Rollouts are those that ReplicaSets show.
	Rollouts []Happening
	// above are the owners of ReplicaSets, by their UID.
	above map[types.UID]*metav1.OwnerReference
	// Owner reads what the owner of units does with them, with the rights of the user. Nil: nothing is known of owners.
	Owner func(context.Context, clusterstate.Workload) rebalance.Scale
	// Pauses reads the pauses over a namespace, with the rights of the user. Nil: none are known.
	Pauses func(ctx context.Context, namespace string) []rebalance.Pause
	// sizes are the limits by the default namespace that goes with them.
	sizes *registry.Registries
}

// Reading is what the console shows of a namespace, or of all.
type Reading struct {
	Overview     *Overview
	Mixes        []*v1alpha1.CapacityMix
	Limits       []*v1alpha1.ResourceLimit
	Records      []*v1alpha1.DeploymentRecord
	Environments []*v1alpha1.Environment
	// Rollouts are those that ReplicaSets show.
	Rollouts     []Happening
	Policies     []*v1alpha1.SchedulingPolicy
	Reservations []*v1alpha1.Reservation
	// Nodes is nil where the nodes were not read.
	Nodes []NodeDetail
	// Domains is nil where the nodes were not read.
	Domains *Domains
	// Governed are the workloads of the policies, by the namespace and name of each.
	Governed map[[2]string][]PolicyWorkload
	// Problems are the lists that could not be read, a sentence each, and Unread the resources of these lists.
	Problems, Unread []string
}

// NewCluster makes a cluster of objects that were read before.
func NewCluster(s *Settings, pods []*corev1.Pod, nodes []*corev1.Node, mixes []*v1alpha1.CapacityMix, owners []metav1.Object,
	budgets []*policyv1.PodDisruptionBudget,
) *Cluster {
	c := &Cluster{
		Settings: s, Pods: pods, Nodes: nodes, Mixes: mixes, Store: governing.NewRegistry(), Invalid: map[types.NamespacedName]error{},
		Budgets: map[string][]rebalance.DisruptionBudget{}, above: map[types.UID]*metav1.OwnerReference{},
		Rollouts: RolloutsOf(owners), Owners: owners, PodDisruptionBudgets: budgets,
	}
	slices.SortFunc(c.Mixes, func(a, b *v1alpha1.CapacityMix) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range c.Mixes {
		if err := c.Store.Set(m); err != nil {
			c.Invalid[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = err
		}
	}
	args := c.Profile.Args
	c.State = clusterstate.New(clusterstate.Options{
		Classifier: c.Classifier, SpreadSpotOver: args.SpreadSpotOver, Conventions: arguments.Conventions(args),
		Mixes: c.Store, Defaults: c.Defaults,
	})
	c.State.ReplaceNodes(nodes)
	for _, o := range owners {
		c.State.SetOwner(o)
		if ref := metav1.GetControllerOf(o); ref != nil {
			c.above[o.GetUID()] = ref
		}
	}
	c.State.ReplacePods(pods)
	for _, b := range budgets {
		// The eviction API takes a budget with an invalid selector to select no pod.
		if budget, err := rebalance.FromPDB(b); err == nil {
			c.Budgets[b.Namespace] = append(c.Budgets[b.Namespace], budget)
		}
	}
	return c
}

// scaleOf returns what the owner of a group does with its units, nil where the replicas are no units, or none has to move.
func (c *Cluster) scaleOf(ctx context.Context, g *clusterstate.Group) *rebalance.Scale {
	if c.Owner == nil || !rebalance.RestartsUnits(g) || len(g.WrongSide()) == 0 {
		return nil
	}
	s := c.Owner(ctx, g.Workload)
	if report := Report(c.MixOf(g.Workload.Namespace, g.Governing), g); report != nil && report.Blocked != nil &&
		report.Blocked.Reason == rebalance.ReasonUnitWouldRestart.Name && s.Restart == rebalance.RestartWhole {
		s.Restart = rebalance.RestartUnknown // the controller may not read it, and evicts by what it reads
	}
	return &s
}

// pausesOver are the pauses that a group is under, but for that of its mix. They are read where a replica has to move.
func (c *Cluster) pausesOver(ctx context.Context, g *clusterstate.Group) []rebalance.Pause {
	if c.Pauses == nil || len(g.WrongSide()) == 0 {
		return nil
	}
	return c.Pauses(ctx, g.Key.Namespace)
}

// Namespaces are those that have pods or mixes, sorted.
func (c *Cluster) Namespaces() []string {
	all := c.State.Namespaces()
	for _, m := range c.Mixes {
		all = append(all, m.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Berths reports whether a scheduler places by the mix.
func (c *Cluster) Berths(schedulerName string) bool {
	return slices.Contains(c.Profile.SchedulerNames, schedulerName)
}

// Mix returns a CapacityMix, nil if there is none.
func (c *Cluster) Mix(namespace, name string) *v1alpha1.CapacityMix {
	for _, m := range c.Mixes {
		if m.Namespace == namespace && m.Name == name {
			return m
		}
	}
	return nil
}

// Releases reports whether the replicas of a mix are released before they go.
func (c *Cluster) Releases(namespace string, m *governing.Mix) bool {
	s, err := c.RebalanceSettings(m, c.MixOf(namespace, m))
	return err == nil && s.Strategy.Releases()
}

// MixOf returns the CapacityMix that a mix comes from, nil for other sources.
func (c *Cluster) MixOf(namespace string, p *governing.Mix) *v1alpha1.CapacityMix {
	if name, ok := strings.CutPrefix(p.Source, governing.SourceCapacityMix); ok {
		return c.Mix(namespace, name)
	}
	return nil
}

// Pod returns a pod as the API has it, nil if there is none.
func (c *Cluster) Pod(namespace, name string) *corev1.Pod {
	for _, p := range c.Pods {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

// LivePods are the pods that are neither terminating nor finished, as the API and as the state has them.
func (c *Cluster) LivePods() iter.Seq2[*corev1.Pod, *clusterstate.Pod] {
	return func(yield func(*corev1.Pod, *clusterstate.Pod) bool) {
		for _, o := range c.Pods {
			if p := c.State.Pod(o.Namespace, o.Name); p != nil && p.Live() && !yield(o, p) {
				return
			}
		}
	}
}

// Tolerations are those that a pod's mix gives to its pods of a type.
func (c *Cluster) Tolerations(p *clusterstate.Pod, t capacity.Type) []corev1.Toleration {
	found, _ := c.State.Resolve(p)
	if found == nil {
		return nil
	}
	return found.Tolerations[t]
}

// LimitedGroup returns the group of a pod whose mix limits how many replicas are in one domain, nil for other pods.
func (c *Cluster) LimitedGroup(p *clusterstate.Pod) *clusterstate.Group {
	if found, _ := c.State.Resolve(p); found == nil || len(found.MaxPerDomain) == 0 {
		return nil
	}
	for _, g := range c.State.Current(p.Namespace) {
		if slices.ContainsFunc(g.Assignments, func(a clusterstate.Assignment) bool { return a.Has(p.UID) }) {
			return g
		}
	}
	return nil
}

// AvoidsInterrupted reports whether the mix of a pod keeps it off the spot nodes of interruption domains in quarantine. One with the
// scheduling gate keeps off them if it may fall back.
func (c *Cluster) AvoidsInterrupted(p *clusterstate.Pod) bool {
	found, _ := c.State.Resolve(p)
	return found != nil && found.AvoidInterrupted && (found.BorrowOnDemand || !p.UsesGate)
}

// Missing reports whether a list could not be read.
func (c *Cluster) Missing(resource string) bool {
	return slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Resource == resource })
}

// Overview is that of the workloads whose pods a selector matches; nil matches all.
func (c *Cluster) Overview(selector labels.Selector) *Overview {
	return Of(Input{
		State: c.State, Pods: c.Pods, Nodes: c.Nodes, Mixes: c.Mixes, Unread: c.Unread(), Selector: selector,
	})
}

// Unread are the lists without which mixes cannot be judged, and that could not be read.
func (c *Cluster) Unread() Unread {
	return Unread{Pods: c.Missing("pods"), Nodes: c.Missing("nodes"), Mixes: c.Missing(MixesResource)}
}

// LimitOf returns a pod's size as its scheduler sees it, and whether that
// scheduler enforces it.
func (c *Cluster) LimitOf(pod *corev1.Pod) (found registry.Resolution, enforced bool) {
	in := ""
	args, enforced := c.Profile.LimitArgs(pod.Spec.SchedulerName)
	if enforced {
		in = args.DefaultNamespace
	}
	if c.sizes == nil {
		c.sizes = registry.NewRegistries(c.Limits)
	}
	return c.sizes.With(in).For(pod), enforced
}
