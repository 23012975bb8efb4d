// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
)

// view is how old what a decision is based on may be: the faults of a run delay watches and calls by less.
const view = 10 * time.Second

// capacityTypeLabel is the label of the nodes of a run.
const capacityTypeLabel = "karpenter.sh/capacity-type"

// world is what etcd had at a revision.
type world struct {
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	budgets map[string]*policyv1.PodDisruptionBudget
	mixes   map[string]*v1alpha1.CapacityMix
	owners  map[types.UID]*history.Owner
	// ownerKeys are the UIDs of owners by key.
	ownerKeys map[string]types.UID
	// products and children are those of records.go, by key.
	products map[string]*product
	children map[string]*history.Child
}

func newWorld() *world {
	return &world{
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
		mixes: map[string]*v1alpha1.CapacityMix{}, owners: map[types.UID]*history.Owner{}, ownerKeys: map[string]types.UID{},
		products: map[string]*product{}, children: map[string]*history.Child{},
	}
}

// apply brings the world to the revision of a change.
func (w *world) apply(c *history.Change) {
	w.applyProducts(c)
	switch {
	case c.Pod != nil:
		w.pods[c.Key] = c.Pod
	case c.Node != nil:
		w.nodes[c.Node.Name] = c.Node
	case c.Budget != nil:
		w.budgets[c.Key] = c.Budget
	case c.Mix != nil:
		w.mixes[c.Key] = c.Mix
	case c.Owner != nil:
		w.owners[c.Owner.UID], w.ownerKeys[c.Key] = c.Owner, c.Owner.UID
	default:
		delete(w.pods, c.Key)
		delete(w.budgets, c.Key)
		delete(w.mixes, c.Key)
		delete(w.owners, w.ownerKeys[c.Key])
		if name, is := strings.CutPrefix(c.Key, history.Nodes); is {
			delete(w.nodes, name)
		}
	}
}

// probe observes the world at every revision from one moment to another.
type probe struct {
	// from and to are indexes of changes: the world before the first is observed, that after the last is not.
	from, to int
	observe  func(*world)
}

// replay lets probes observe a history.
func replay(h *history.History, probes []probe) {
	w := newWorld()
	for i := 0; i <= len(h.Changes); i++ {
		for _, p := range probes {
			if p.from <= i && i <= p.to {
				p.observe(w)
			}
		}
		if i < len(h.Changes) {
			w.apply(&h.Changes[i])
		}
	}
}

// at is the index of the first change at or after a time.
func at(h *history.History, t time.Time) int {
	i := slices.IndexFunc(h.Changes, func(c history.Change) bool { return !c.At.Before(t) })
	if i < 0 {
		return len(h.Changes)
	}
	return i
}

// typeOf is the capacity type of a node, Unknown for one that is not there.
func (w *world) typeOf(node string) capacity.Type {
	n := w.nodes[node]
	if n == nil {
		return capacity.Unknown
	}
	t, _ := capacity.ParseType(n.Labels[capacityTypeLabel])
	return t
}

// takesPods reports whether a node takes pods that tolerate nothing.
func takesPods(n *corev1.Node) bool {
	if n == nil || n.DeletionTimestamp != nil || n.Spec.Unschedulable {
		return false
	}
	return !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
}

// live reports whether a pod counts for its workload.
func live(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && !terminal(p) }

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// owner is the UID of the controller of a pod, "" if it has none.
func owner(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

const (
	// GroupLabel is on pods whose mix has the group Selector: its name.
	GroupLabel = "robustness.example.com/group"
	// UnitLabel is the label of their units.
	UnitLabel = "robustness.example.com/unit"
)

// groupOf identifies the group of a pod, "" for a pod without a controller: its owner, unless the pods of several owners are one group.
func groupOf(p *corev1.Pod) string {
	if name := p.Labels[GroupLabel]; name != "" {
		return p.Namespace + "/" + name
	}
	return string(owner(p))
}

// demander returns the owner that determines the number of pods of a pod's group, nil if that is not known or there are several.
func (w *world) demander(p *corev1.Pod) *history.Owner {
	if p.Labels[GroupLabel] != "" {
		return nil
	}
	return w.owners[owner(p)]
}

// siblings calls a function with the live pods of a pod's group.
func (w *world) siblings(of *corev1.Pod, each func(p *corev1.Pod)) {
	group := groupOf(of)
	for _, p := range w.pods {
		if groupOf(p) == group && live(p) {
			each(p)
		}
	}
}

// mixOf is the mix of a pod, false if nothing governs it.
func (w *world) mixOf(p *corev1.Pod) (split.Mix, bool) {
	if m, is := annotated(p.Annotations); is {
		return m, true
	}
	if o := w.owners[owner(p)]; o != nil {
		if m, is := annotated(o.Annotations); is {
			return m, true
		}
	}
	var oldest *v1alpha1.CapacityMix
	for _, m := range w.mixes {
		selector := labels.SelectorFromSet(m.Spec.Selector.MatchLabels)
		if m.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels)) &&
			(oldest == nil || m.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = m
		}
	}
	if oldest == nil {
		return split.Mix{}, false
	}
	mix := split.New(oldest.Spec.SpotPercent, oldest.Spec.MinOnDemand)
	if oldest.Spec.MaxSpot != nil {
		mix.MaxSpot = *oldest.Spec.MaxSpot
	}
	return mix, true
}

// annotated reads a mix in annotations, as the runs write them.
func annotated(a map[string]string) (split.Mix, bool) {
	percent, err := strconv.ParseInt(a[v1alpha1.SpotPercentAnnotation], 10, 32)
	if err != nil {
		return split.Mix{}, false
	}
	least, _ := strconv.ParseInt(a[v1alpha1.MinOnDemandAnnotation], 10, 32) // absent is 0
	return split.New(int32(percent), int32(least)), true
}

// fits reports whether a node of a type has free capacity for a pod that is not there yet.
func (w *world) fits(p *corev1.Pod, t capacity.Type) bool {
	more := p.DeepCopy()
	all := slices.DeleteFunc(slices.Collect(maps.Values(w.pods)), func(other *corev1.Pod) bool { return podKey(other) == podKey(p) })
	all = append(all, more)
	for name, n := range w.nodes {
		if w.typeOf(name) != t || !takesPods(n) || name == p.Spec.NodeName {
			continue
		}
		more.Spec.NodeName = name
		if overcommitted(n, all) == "" {
			return true
		}
	}
	return false
}

func podKey(p *corev1.Pod) string { return history.Pods + p.Namespace + "/" + p.Name }

func requests(p *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true})
}
