// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"berth.dev/berth/apis/v1alpha1"
)

// Kind is request or limit, as messages call them.
type Kind string

const (
	// Request is what a pod requests.
	Request Kind = "request"
	// Limit is what a pod may use.
	Limit Kind = "limit"
)

// Excess is a request or limit of a pod that is above what its size allows.
type Excess struct {
	Kind     Kind
	Resource corev1.ResourceName
	// Asked is what the pod as a whole has: all containers, sidecars, init
	// containers and the overhead of its RuntimeClass. Bound is the most it may have.
	Asked, Bound resource.Quantity
}

// String returns what is wrong with both figures: "cpu request 3 is above 2".
func (e Excess) String() string {
	return fmt.Sprintf("%s %s %s is above %s", e.Resource, e.Kind, e.Asked.String(), e.Bound.String())
}

// Describe returns all that is wrong, "" for nothing.
func Describe(excess []Excess) string {
	texts := make([]string, 0, len(excess))
	for _, e := range excess {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, ", ")
}

// Bound is the most that a pod may request of a resource.
type Bound struct {
	Resource corev1.ResourceName
	Most     resource.Quantity
}

// String returns both: "cpu 2".
func (b Bound) String() string { return fmt.Sprintf("%s %s", b.Resource, b.Most.String()) }

// Bounds returns what the limit bounds, in the order cpu, memory, ephemeral
// storage. It is shared and must not be changed.
func (c *Compiled) Bounds() []Bound { return c.bounds }

// boundsOf returns the most that a pod may request, of the resources that the
// limit bounds.
func boundsOf(spec *v1alpha1.ResourceLimitSpec) []Bound {
	var bounds []Bound
	for _, b := range []struct {
		resource corev1.ResourceName
		most     *resource.Quantity
	}{
		{corev1.ResourceCPU, cmp.Or(spec.CPULimit, spec.CPU)},
		{corev1.ResourceMemory, cmp.Or(spec.MemoryLimit, spec.Memory)},
		{corev1.ResourceEphemeralStorage, spec.EphemeralStorage},
	} {
		if b.most != nil {
			bounds = append(bounds, Bound{b.resource, b.most.DeepCopy()})
		}
	}
	return bounds
}

// Exceeded returns what of a pod is above its size, in the order cpu, memory,
// ephemeral storage, requests first; nil for nothing. A limit that the pod does
// not set is not compared.
func (c *Compiled) Exceeded(pod *corev1.Pod) []Excess {
	if len(c.bounds) == 0 {
		return nil
	}
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	limits := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	var excess []Excess
	for i := range c.bounds {
		b := &c.bounds[i]
		if asked, set := requests[b.Resource]; set && asked.Cmp(b.Most) > 0 {
			excess = append(excess, Excess{Request, b.Resource, asked, b.Most})
		}
		if asked, set := limits[b.Resource]; set && asked.Cmp(b.Most) > 0 {
			excess = append(excess, Excess{Limit, b.Resource, asked, b.Most})
		}
	}
	return excess
}

// The scheduler, the replay and the command line use the same words.

// MissingReason is why a pod waits whose size does not exist.
func MissingReason(key string) string {
	return fmt.Sprintf("ResourceLimit %q does not exist", key)
}

// ExcessReason is why a pod waits that is above its size.
func (c *Compiled) ExcessReason(excess []Excess) string {
	return fmt.Sprintf("pod is above ResourceLimit %q: %s", c.Key, Describe(excess))
}

// NodeReason is why a node does not take pods of a size. It is made once: every
// node that is refused requests it.
func (c *Compiled) NodeReason() string { return c.nodeReason }
