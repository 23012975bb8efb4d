// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// Compiled is a ResourceLimit with everything parsed that is read of it for
// each pod and node. It does not change.
type Compiled struct {
	// Limit is the object of the generation that was compiled. Its status and
	// metadata can be older than what the API server has.
	Limit *v1alpha1.ResourceLimit
	// Key is its "namespace/name".
	Key string
	// Err is what of the limit cannot be parsed. The API server refuses such a
	// limit; one that was stored before it did is kept here: a selector that
	// cannot be parsed selects no pod, a node term matches no node.
	Err error

	bounds     []Bound
	nodeReason string
	// selector is nil for a limit that selects no pods.
	selector *budget.Selector
	// nodeSelector is in the order of the keys.
	nodeSelector []nodeLabel
	// hasRequired distinguishes a limit without required terms, which every node
	// matches, from one with an empty list of them, which none does.
	hasRequired bool
	required    []nodeTerm
	preferred   []weightedTerm
}

type nodeLabel struct{ key, value string }

type weightedTerm struct {
	nodeTerm
	weight int64
}

// Compile parses a limit, which must not be changed afterwards.
func Compile(limit *v1alpha1.ResourceLimit) *Compiled {
	c := &Compiled{Limit: limit, Key: limit.Namespace + "/" + limit.Name, bounds: boundsOf(&limit.Spec)}
	c.nodeReason = fmt.Sprintf("node(s) didn't match the node rules of ResourceLimit %q", c.Key)
	var errs []error
	if limit.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(limit.Spec.Selector.AsLabelSelector())
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.selector: %w", err))
		} else {
			c.selector = budget.CompileSelector(selector)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(limit.Spec.NodeSelector)) {
		c.nodeSelector = append(c.nodeSelector, nodeLabel{key, limit.Spec.NodeSelector[key]})
	}
	if affinity := limit.Spec.NodeAffinity.AsNodeAffinity(); affinity != nil {
		errs = append(errs, c.compileAffinity(affinity)...)
	}
	c.Err = errors.Join(errs...)
	return c
}

func (c *Compiled) compileAffinity(affinity *corev1.NodeAffinity) (errs []error) {
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		c.hasRequired = true
		for i := range required.NodeSelectorTerms {
			term, err := newNodeTerm(&required.NodeSelectorTerms[i])
			if err != nil {
				errs = append(errs, fmt.Errorf("spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].%w",
					i, err))
				continue
			}
			c.required = append(c.required, term)
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		preferred := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		term, err := newNodeTerm(&preferred.Preference)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[%d].preference.%w", i, err))
			continue
		}
		c.preferred = append(c.preferred, weightedTerm{nodeTerm: term, weight: int64(preferred.Weight)})
	}
	return errs
}

// Version is "namespace/name@generation", as ResolvedLimitAnnotation has it.
func (c *Compiled) Version() string { return c.Key + "@" + strconv.FormatInt(c.Limit.Generation, 10) }

// Restricts reports whether there can be nodes that the limit does not match.
func (c *Compiled) Restricts() bool { return c.nodeSelector != nil || c.hasRequired }

// Prefers reports whether there can be nodes that score.
func (c *Compiled) Prefers() bool { return len(c.preferred) > 0 }

// Matches reports whether a node may take pods of this size: it has the labels
// of nodeSelector and matches one of the required terms. It allocates nothing.
func (c *Compiled) Matches(node *corev1.Node) bool {
	for i := range c.nodeSelector {
		if value, has := node.Labels[c.nodeSelector[i].key]; !has || value != c.nodeSelector[i].value {
			return false
		}
	}
	for i := range c.required {
		if c.required[i].matches(node) {
			return true
		}
	}
	return !c.hasRequired
}

// Score returns the sum of the weights of the preferred terms that a node
// matches, 0 to 1600.
func (c *Compiled) Score(node *corev1.Node) int64 {
	var score int64
	for i := range c.preferred {
		if c.preferred[i].matches(node) {
			score += c.preferred[i].weight
		}
	}
	return score
}

// Weight returns the sum of the weights of all preferred terms, 0 to 1600.
func (c *Compiled) Weight() int64 {
	var sum int64
	for i := range c.preferred {
		sum += c.preferred[i].weight
	}
	return sum
}
