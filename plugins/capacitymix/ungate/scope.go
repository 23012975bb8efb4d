// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/internal/kube/hash"
	"berth.dev/berth/internal/mix/gate"
)

// maxScopes is how many circuit breakers a mix has for scopes of its pods. The pods of further scopes share one more, so that the
// selectors of a tenant's pods cost a bounded amount of memory.
const maxScopes = 32

// scopeDigits are enough for the scopes of one mix.
const scopeDigits = 16

// sharedScope is that of these pods.
var sharedScope = scope{key: "*", siblings: true}

// scope is which nodes a pod may use by what it requires itself. Whether spot nodes come is known for a scope: the wait of
// a pod that requires one zone has no effect on another zone, and that of a pod whose place depends on its siblings has none on pods
// that may go anywhere.
type scope struct {
	key   string // "" for a pod that requires nothing
	nodes nodeaffinity.RequiredNodeAffinity
	// siblings: it depends on other pods too.
	siblings bool
}

// scopeOf returns the scope of a pod, without the type that it was limited to when its gate was removed.
func scopeOf(pod *corev1.Pod, label *gate.Label) scope {
	if _, ungated := gate.LimitedTo(pod); ungated && label != nil {
		own := pod.DeepCopy()
		gate.Unrequire(&own.Spec, pod)
		label.Unlimit(&own.Spec)
		pod = own
	}
	// Of spreads and affinities to pods the keys alone: the API server adds the revision to the selectors of some.
	var requires struct {
		Selector          map[string]string    `json:",omitempty"`
		Nodes             *corev1.NodeSelector `json:",omitempty"`
		Near, Far, Spread []string             `json:",omitempty"`
	}
	requires.Selector = pod.Spec.NodeSelector
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil {
			requires.Nodes = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		if a.PodAffinity != nil {
			requires.Near = topologyKeys(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			requires.Far = topologyKeys(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			requires.Spread = append(requires.Spread, c.TopologyKey)
		}
	}
	s := scope{nodes: nodeaffinity.GetRequiredNodeAffinity(pod)}
	s.siblings = len(requires.Near)+len(requires.Far)+len(requires.Spread) > 0
	if text, err := json.Marshal(requires); err == nil && string(text) != "{}" {
		s.key = hash.Of(text, scopeDigits)
	}
	return s
}

func topologyKeys(terms []corev1.PodAffinityTerm) (keys []string) {
	for i := range terms {
		keys = append(keys, terms[i].TopologyKey)
	}
	return keys
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// covers reports whether some requests are at least others.
func covers(requests, others corev1.ResourceList) bool {
	for name, least := range others {
		if have := requests[name]; have.Cmp(least) < 0 {
			return false
		}
	}
	return true
}

// smaller returns the smaller of two requests, for each resource. What one of them does not request is in neither.
func smaller(a, b corev1.ResourceList) corev1.ResourceList {
	least := corev1.ResourceList{}
	for name, q := range a {
		if other, there := b[name]; there {
			if other.Cmp(q) < 0 {
				q = other
			}
			least[name] = q
		}
	}
	return least
}

// larger returns the larger of two requests, for each resource.
func larger(a, b corev1.ResourceList) corev1.ResourceList {
	sum := maps.Clone(a)
	if sum == nil {
		return b
	}
	for name, q := range b {
		if have, there := sum[name]; !there || have.Cmp(q) < 0 {
			sum[name] = q
		}
	}
	return sum
}
