// SPDX-License-Identifier: Apache-2.0

// Package live reads once from the API what internal/mix/clusterstate needs to compare
// workloads with their mixes. It only lists and gets.
package live

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// Problem is something that could not be read.
type Problem struct {
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Message   string `json:"message"`
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
	// Limits are the ResourceLimits that LoadLimits read.
	Limits []*v1alpha1.ResourceLimit
	// Policies and Reservations are what LoadPolicies read.
	Policies     []*v1alpha1.SchedulingPolicy
	Reservations []*v1alpha1.Reservation
	// Records and Environments are what LoadProducts read.
	Records      []*v1alpha1.DeploymentRecord
	Environments []*v1alpha1.Environment
	// Problems are the lists that are missing.
	Problems []Problem
	// above are the owners of ReplicaSets, by their UID.
	above map[types.UID]*metav1.OwnerReference
	// sizes are the limits by the default namespace that goes with them.
	sizes *registry.Registries
}

// Load reads a namespace, or all with "". What may not be read is a problem of
// the result; any other failure is an error.
func Load(ctx context.Context, c client.Client, s *Settings, namespace string) (*Cluster, error) {
	l := &loader{ctx: ctx, client: c}
	pods := objects[*corev1.Pod](l, namespace, "pods", &corev1.PodList{})
	nodes := objects[*corev1.Node](l, "", "nodes", &corev1.NodeList{})
	mixes := objects[*v1alpha1.CapacityMix](l, namespace, MixesResource, &v1alpha1.CapacityMixList{})
	owners := slices.Concat(
		objects[client.Object](l, namespace, "replicasets.apps", &appsv1.ReplicaSetList{}),
		objects[client.Object](l, namespace, "deployments.apps", &appsv1.DeploymentList{}),
		objects[client.Object](l, namespace, "statefulsets.apps", &appsv1.StatefulSetList{}),
		objects[client.Object](l, namespace, "jobs.batch", &batchv1.JobList{}))
	budgets := objects[*policyv1.PodDisruptionBudget](l, namespace, "poddisruptionbudgets.policy", &policyv1.PodDisruptionBudgetList{})
	if l.err != nil {
		return nil, l.err
	}
	out := New(s, pods, nodes, mixes, owners, budgets)
	out.Problems = l.problems
	return out, nil
}

// New makes a cluster of objects that were read before.
func New(s *Settings, pods []*corev1.Pod, nodes []*corev1.Node, mixes []*v1alpha1.CapacityMix, owners []client.Object,
	budgets []*policyv1.PodDisruptionBudget,
) *Cluster {
	c := &Cluster{
		Settings: s, Pods: pods, Nodes: nodes, Mixes: mixes, Store: governing.NewRegistry(), Invalid: map[types.NamespacedName]error{},
		Budgets: map[string][]rebalance.DisruptionBudget{}, above: map[types.UID]*metav1.OwnerReference{},
	}
	slices.SortFunc(c.Mixes, func(a, b *v1alpha1.CapacityMix) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range c.Mixes {
		if err := c.Store.Set(m); err != nil {
			c.Invalid[client.ObjectKeyFromObject(m)] = err
		}
	}
	args := c.Profile.Args
	c.State = clusterstate.New(clusterstate.Options{
		Classifier: c.Classifier, SpreadSpotOver: args.SpreadSpotOver, Annotations: arguments.Annotations(args),
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

// Missing reports whether a list could not be read.
func (c *Cluster) Missing(resource string) bool {
	return slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Resource == resource })
}

// loader lists until something fails that is not a missing right.
type loader struct {
	ctx      context.Context
	client   client.Client
	problems []Problem
	err      error
}

// objects lists objects of one type, of all namespaces with "".
func objects[T client.Object](l *loader, namespace, resource string, empty client.ObjectList) []T {
	if l.err != nil {
		return nil
	}
	all, err := kinds.List[T](l.ctx, l.client, empty, client.InNamespace(namespace))
	if err != nil {
		l.failed(namespace, resource, err)
	}
	return all
}

func (l *loader) failed(namespace, resource string, err error) {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	problem := Problem{Verb: "list", Resource: resource, Namespace: namespace}
	switch {
	case apierrors.IsForbidden(err):
		problem.Message = fmt.Sprintf("not allowed: list %s%s", resource, where)
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		problem.Message = fmt.Sprintf("the API server does not serve %s: is Berth installed?", resource)
	default:
		l.err = fmt.Errorf("list %s%s: %w", resource, where, err)
		return
	}
	l.problems = append(l.problems, problem)
}
