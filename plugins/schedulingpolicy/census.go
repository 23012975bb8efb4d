// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/plugins/schedulingpolicy/twophase"
)

// census counts the pods of groups that are bound together, from the events of pods: a scheduling cycle lists no pods and matches
// no selectors to find how many members a group has. Safe for concurrent use.
type census struct {
	mu     sync.RWMutex
	pods   map[types.UID]counted
	groups map[string]*tally
}

// counted is a pod of a group that is bound or has succeeded.
type counted struct {
	key, name string
	succeeded bool
}

// tally are the pods of a group: those that are bound by name, and the number of those that have succeeded.
type tally struct {
	bound     map[string]types.UID
	succeeded int
}

func newCensus() *census { return &census{pods: map[types.UID]counted{}, groups: map[string]*tally{}} }

// counts reports whether a pod counts as a member of its group. Pods that failed or are being deleted do not: their owner creates
// others.
func counts(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return true
	case corev1.PodFailed:
		return false
	}
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil
}

// set counts a pod, of a group if the key is not empty. It returns the keys of the groups that have changed.
func (c *census) set(pod *corev1.Pod, key string) (changed []string) {
	next := counted{key: key, name: pod.Name, succeeded: pod.Status.Phase == corev1.PodSucceeded}
	if key == "" || !counts(pod) {
		next = counted{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.pods[pod.UID]
	if before == next {
		return nil
	}
	if before.key != "" {
		c.remove(pod.UID, before)
		changed = append(changed, before.key)
	}
	if next.key != "" {
		c.add(pod.UID, next)
		changed = append(changed, next.key)
	}
	return changed
}

func (c *census) add(uid types.UID, p counted) {
	c.pods[uid] = p
	t := c.groups[p.key]
	if t == nil {
		t = &tally{bound: map[string]types.UID{}}
		c.groups[p.key] = t
	}
	if p.succeeded {
		t.succeeded++
	} else {
		t.bound[p.name] = uid
	}
}

func (c *census) remove(uid types.UID, p counted) {
	delete(c.pods, uid)
	t := c.groups[p.key]
	if p.succeeded {
		t.succeeded--
	} else if t.bound[p.name] == uid { // another pod can have the name already
		delete(t.bound, p.name)
	}
	if len(t.bound) == 0 && t.succeeded == 0 {
		delete(c.groups, p.key)
	}
}

// settled are members of a group that do not wait for others: those that are bound, and those whose binding was prepared
// by a scheduler that did not complete the group. Valid while the census is locked.
type settled struct {
	bound    map[string]types.UID
	prepared sets.Set[string]
	n        int
}

var _ twophase.Names = &settled{}

// Has implements twophase.Names.
func (s *settled) Has(name string) bool {
	_, bound := s.bound[name]
	return bound || s.prepared.Has(name)
}

// Len implements twophase.Names.
func (s *settled) Len() int { return s.n }

// with calls a function with the settled members of a group, and the number of those that have succeeded.
func (c *census) with(key string, prepared []string, call func(settled *settled, succeeded int)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, succeeded := &settled{prepared: sets.New(prepared...)}, 0
	if t := c.groups[key]; t != nil {
		s.bound, succeeded = t.bound, t.succeeded
	}
	s.n = len(s.bound)
	for name := range s.prepared {
		if _, bound := s.bound[name]; !bound {
			s.n++
		}
	}
	call(s, succeeded)
}
