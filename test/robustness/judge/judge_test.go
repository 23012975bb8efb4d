// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/robustness/history"
)

// scribe writes a history.
type scribe struct {
	h history.History
	// now is when what is written happens.
	now time.Time
}

func (s *scribe) after(d time.Duration) { s.now = s.now.Add(d) }

func (s *scribe) write(c history.Change) {
	c.Revision = int64(len(s.h.Changes) + 1)
	if c.At.IsZero() {
		c.At = s.now
	}
	s.h.Changes = append(s.h.Changes, c)
}

func (s *scribe) node(name, cpu string, pods int64) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	}
	s.write(history.Change{Key: "/registry/minions/" + name, Node: n})
}

// pod is a pod of a workload that holds a slot, "" for none.
func pod(uid, node, slot string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "pod-" + uid, UID: types.UID(uid),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
	}}
	if slot != "" {
		p.Annotations = map[string]string{v1alpha1.SlotAnnotation: slot}
	}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func rival(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName }

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func ending(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }

func (s *scribe) pod(p *corev1.Pod) {
	s.write(history.Change{Key: "/registry/pods/shop/" + p.Name, Pod: p})
}

func (s *scribe) gone(uid string) { s.write(history.Change{Key: "/registry/pods/shop/pod-" + uid}) }

// Each validator catches what is planted, and flags nothing that only looks like it.
func TestValidators(t *testing.T) {
	for name, c := range map[string]struct {
		judge      func(*history.History) *Verdict
		write      func(*scribe)
		violations []string
	}{
		"a pod changes its node": {BoundOnce, func(s *scribe) {
			s.pod(pod("a", "", "0"))
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("a", "n2", "0"))
		}, []string{"revision 3: pod /registry/pods/shop/pod-a was on node n1 and is on node \"n2\""}},
		"a pod loses its node": {BoundOnce, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("a", "", "0"))
		}, []string{"revision 2: pod"}},
		"a new pod of the same name is on another node": {BoundOnce, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.gone("a")
			other := pod("a", "n2", "0")
			other.UID = "b"
			s.pod(other)
		}, nil},
		"a binding takes more than there is": {NoOvercommit, func(s *scribe) {
			s.node("n1", "2", 10)
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "1"))
			s.pod(pod("c", "n1", "2"))
		}, []string{"revision 4: pod /registry/pods/shop/pod-c overcommits node n1: 3 of 2 cpu"}},
		"a binding takes more pods than there may be": {NoOvercommit, func(s *scribe) {
			s.node("n1", "9", 1)
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "1"))
		}, []string{"revision 3: pod /registry/pods/shop/pod-b overcommits node n1: 2 of 1 pods"}},
		"a pod is bound where a terminating pod still runs": {NoOvercommit, func(s *scribe) {
			s.node("n1", "1", 10)
			s.pod(pod("a", "n1", "0", ending))
			s.pod(pod("b", "n1", "1"))
		}, []string{"revision 3"}},
		"a pod is bound where others have ended or left": {NoOvercommit, func(s *scribe) {
			s.node("n1", "1", 10)
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("a", "n1", "0", ended))
			s.pod(pod("b", "n1", "1"))
			s.gone("b")
			s.pod(pod("c", "n1", "2"))
		}, nil},
		"a node shrinks below its pods": {NoOvercommit, func(s *scribe) {
			s.node("n1", "2", 10)
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "1"))
			s.node("n1", "1", 10)
			s.pod(pod("b", "n1", "1"))
		}, nil},
		"a rival has just taken what is free": {NoOvercommit, func(s *scribe) {
			s.node("n1", "1", 10)
			s.pod(pod("a", "n1", "", rival))
			s.after(view - time.Second)
			s.pod(pod("b", "n1", "0"))
		}, nil},
		"a rival had taken what is free": {NoOvercommit, func(s *scribe) {
			s.node("n1", "1", 10)
			s.pod(pod("a", "n1", "", rival))
			s.after(view)
			s.pod(pod("b", "n1", "0"))
		}, []string{"revision 3"}},
		"a rival takes more than there is": {NoOvercommit, func(s *scribe) {
			s.node("n1", "1", 10)
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "", rival))
		}, nil},
		"two pods hold a slot": {OneSlotOnePod, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "0"))
		}, []string{"revision 2: slot 0 of ReplicaSet web is held by [/registry/pods/shop/pod-a /registry/pods/shop/pod-b]"}},
		"a pod takes the slot of another later": {OneSlotOnePod, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "1"))
			s.pod(pod("b", "n1", "0"))
		}, []string{"revision 3"}},
		"a pod takes the slot of one that ends": {OneSlotOnePod, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("a", "n1", "0", ending))
			s.pod(pod("b", "n1", "0"))
			s.pod(pod("b", "n1", "0", ended))
			s.pod(pod("c", "n1", "0"))
			s.gone("c")
			s.pod(pod("d", "n1", "0"))
		}, nil},
		"pods of two workloads hold slots of the same number": {OneSlotOnePod, func(s *scribe) {
			s.pod(pod("a", "n1", "0"))
			s.pod(pod("b", "n1", "0", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s scribe
			c.write(&s)
			v := c.judge(&s.h)
			assert.NotZero(t, v.Facts)
			require.Len(t, v.Violations, len(c.violations), "%s", v)
			for i, want := range c.violations {
				assert.True(t, strings.HasPrefix(v.Violations[i], want), "%s", v)
			}
		})
	}
}

// small is a world that binds, ends and deletes pods as Berth promises.
type small struct {
	scribe
	free  map[string]int
	slots map[string]string // of pods by UID
	on    map[string]string
	n     int
}

func (w *small) step(t *rapid.T) {
	if len(w.on) > 0 && rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
		uid := rapid.SampledFrom(keys(w.on)).Draw(t, "pod")
		w.pod(pod(uid, w.on[uid], w.slots[uid], ending))
		w.gone(uid)
		w.free[w.on[uid]]++
		delete(w.on, uid)
		delete(w.slots, uid)
		return
	}
	node := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
	if w.free[node] == 0 {
		return
	}
	uid, slot := fmt.Sprintf("p%d", w.n), 0
	for taken := true; taken; {
		taken = false
		for _, s := range w.slots {
			if taken = s == fmt.Sprint(slot); taken {
				slot++
				break
			}
		}
	}
	w.n++
	w.pod(pod(uid, "", ""))
	w.pod(pod(uid, node, fmt.Sprint(slot)))
	w.free[node]--
	w.on[uid], w.slots[uid] = node, fmt.Sprint(slot)
}

func keys(m map[string]string) (all []string) {
	for i := range 1000 {
		if uid := fmt.Sprintf("p%d", i); m[uid] != "" {
			all = append(all, uid)
		}
	}
	return all
}

func TestAGoodRunIsNotFlaggedAndABrokenOneIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &small{free: map[string]int{"n1": 2, "n2": 3}, slots: map[string]string{}, on: map[string]string{}}
		w.node("n1", "2", 10)
		w.node("n2", "3", 10)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			w.step(t)
		}
		for _, judge := range []func(*history.History) *Verdict{BoundOnce, NoOvercommit, OneSlotOnePod} {
			assert.Empty(t, judge(&w.h).Violations)
		}
		live := keys(w.on)
		if len(live) == 0 {
			return
		}
		uid := rapid.SampledFrom(live).Draw(t, "victim")
		broken := w.scribe
		for range w.free[w.on[uid]] + 1 {
			w.n++
			broken.pod(pod(fmt.Sprintf("x%d", w.n), w.on[uid], ""))
		}
		assert.Len(t, NoOvercommit(&broken.h).Violations, 1)
		broken = w.scribe
		broken.pod(pod("y", "n3", w.slots[uid]))
		assert.Len(t, OneSlotOnePod(&broken.h).Violations, 1)
		broken = w.scribe
		broken.pod(pod(uid, "n3", w.slots[uid]))
		assert.Len(t, BoundOnce(&broken.h).Violations, 1)
	})
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	var s scribe
	s.h.Run = history.Run{Seed: 7, Grace: time.Second, Steps: []history.Step{{Text: "kill", Fault: true, Outage: true}}}
	s.h.Requests = []history.Request{{Program: history.Controller, Verb: "create", Resource: "pods/eviction", Code: 201}}
	s.h.Logs = []history.Line{{Program: "a", Text: "b"}}
	s.node("n1", "2", 10)
	s.pod(pod("a", "n1", "0"))
	s.gone("a")
	var file strings.Builder
	require.NoError(t, s.h.Write(&file))
	read, err := history.Read(strings.NewReader(file.String()))
	require.NoError(t, err)
	assert.Equal(t, s.h.Run, read.Run)
	assert.Equal(t, s.h.Requests, read.Requests)
	assert.Equal(t, s.h.Logs, read.Logs)
	require.Len(t, read.Changes, 3)
	assert.Equal(t, NoOvercommit(&s.h), NoOvercommit(read))
	_, err = history.Read(strings.NewReader(file.String() + "{"))
	assert.Error(t, err)
}
