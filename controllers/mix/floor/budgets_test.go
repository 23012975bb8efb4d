// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
)

var web = governing.GroupKey{Namespace: "shop", ID: "uid-of-web"}

// kept is the budget of Berth for a group.
func kept(key governing.GroupKey) *policyv1.PodDisruptionBudget {
	label := governing.FloorLabel(key)
	b := builders.PodDisruptionBudget("")
	b.Namespace, b.Name = key.Namespace, floor.NameOf(label)
	b.Labels, b.Annotations = map[string]string{v1alpha1.FloorLabel: label}, map[string]string{v1alpha1.FloorGroupAnnotation: key.ID}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.FloorLabel: label}}
	return b
}

// users is a budget of a user.
func users(name string, selects map[string]string) *policyv1.PodDisruptionBudget {
	b := builders.PodDisruptionBudget("")
	b.Namespace, b.Name, b.Spec.Selector.MatchLabels = "shop", name, selects
	return b
}

func TestABudgetIsOneOfBerthByItsNameLabelAndGroup(t *testing.T) {
	s := newBudgets()
	assert.Equal(t, web, s.set(kept(web)))
	assert.Equal(t, 1, s.owned("shop"))
	assert.Equal(t, web, Concerned(kept(web)), "nothing else of the namespace")
	for what, change := range map[string]func(*policyv1.PodDisruptionBudget){
		"name":  func(b *policyv1.PodDisruptionBudget) { b.Name = "mine" },
		"label": func(b *policyv1.PodDisruptionBudget) { b.Labels = nil },
		"group": func(b *policyv1.PodDisruptionBudget) { b.Annotations = nil },
	} {
		b := kept(governing.GroupKey{Namespace: "shop", ID: "other"})
		change(b)
		assert.Equal(t, governing.GroupKey{Namespace: "shop"}, s.set(b), what)
		assert.Equal(t, governing.GroupKey{Namespace: "shop"}, Concerned(b), what)
		assert.Equal(t, 1, s.owned("shop"), what)
	}
	edited := kept(web)
	edited.Annotations, edited.Spec.Selector = nil, &metav1.LabelSelector{}
	s = newBudgets()
	s.set(edited)
	assert.Zero(t, s.owned("shop"))
	assert.Empty(t, s.selecting(web, map[string]string{"app": "web"}), "it is repaired, and no reason to remove it")
}

func TestTheOldestBudgetOfAUserOverlaps(t *testing.T) {
	s := newBudgets()
	labels := map[string]string{"app": "web"}
	for i, name := range []string{"b", "a"} {
		b := users(name, labels)
		b.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Minute))
		s.set(b)
	}
	s.set(users("of others", map[string]string{"app": "db"}))
	none := users("none", nil)
	none.Spec.Selector = nil
	s.set(none)
	assert.Equal(t, "b", s.selecting(web, labels))
	s.drop(users("b", labels))
	assert.Equal(t, "a", s.selecting(web, labels))
	s.drop(users("a", labels))
	assert.Empty(t, s.selecting(web, labels))
	s.set(users("by the label", map[string]string{v1alpha1.FloorLabel: governing.FloorLabel(web)}))
	assert.Equal(t, "by the label", s.selecting(web, labels), "replicas get the label")
	assert.Equal(t, map[string]string{"app": "web"}, labels)

	for i := range maxForeign {
		assert.False(t, s.exceeds("shop"), i)
		s.set(users(fmt.Sprint("x", i), map[string]string{"x": fmt.Sprint(i)}))
		if s.exceeds("shop") {
			return
		}
	}
	assert.True(t, s.exceeds("shop"))
}

// counted counts what is queued.
type counted struct {
	workqueue.TypedRateLimitingInterface[governing.GroupKey]
	after []governing.GroupKey
}

func (q *counted) AddAfter(key governing.GroupKey, _ time.Duration) { q.after = append(q.after, key) }

func TestNothingIsQueuedWhereNoFloorIsProtected(t *testing.T) {
	queue := &counted{}
	c := New(Options{Clock: clocktesting.NewFakeClock(noon), Decided: func(workloads.Decision) {}})
	c.Changed(everything) // there is no queue yet
	c.Use(queue)
	queued := func() (n int) { n, queue.after = len(queue.after), nil; return n }
	c.Changed(web)
	assert.Zero(t, queued())

	cm := builders.CapacityMix("web", 50, 2, builders.ProtectFloor)
	cm.Namespace = "shop"
	c.MixChanged(cm, false)
	c.Changed(web)
	c.Changed(governing.GroupKey{Namespace: "other"})
	assert.Equal(t, 1, queued())
	c.MixChanged(cm, true)
	c.Changed(web)
	assert.Zero(t, queued())

	c.Changed(c.budgets.set(kept(web)))
	assert.Equal(t, 1, queued(), "a budget that is left is removed")
	c.LabelChanged("shop", governing.FloorLabel(web))
	c.LabelChanged("shop", "another")
	c.LabelChanged("other", governing.FloorLabel(web))
	assert.Equal(t, 1, queued(), "a pod with the label of the group")
	status := kept(web)
	status.Status.CurrentHealthy = 7
	c.budgetChanged(kept(web), status)
	assert.Zero(t, queued(), "its status is not our concern")
	edited := kept(web)
	edited.Generation++
	c.budgetChanged(kept(web), edited)
	assert.Equal(t, 1, queued())
	c.MixChanged(cm, false)
	edited.Annotations = nil
	c.budgetChanged(kept(web), edited)
	assert.Contains(t, queue.after, web, "it is repaired, whatever became of it")
	queued()
	c.Namespaces = []string{"another"}
	c.Changed(web)
	assert.Zero(t, queued())
}

func TestALabelIsOfWhoWroteIt(t *testing.T) {
	fields := func(manager, field string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + field + `":{}}}}`)}
	}
	pod := &corev1.Pod{}
	assert.False(t, byOthers(pod), "a Binding leaves no trace")
	pod.ManagedFields = append(pod.ManagedFields, fields(FieldOwner, v1alpha1.FloorLabel), fields("kube-controller-manager", "app"))
	assert.False(t, byOthers(pod))
	pod.ManagedFields = append(pod.ManagedFields, fields("kube-controller-manager", v1alpha1.FloorLabel))
	assert.True(t, byOthers(pod))
}

func TestABudgetIsWrittenOnlyWhereItDiffers(t *testing.T) {
	m := &governing.Mix{Source: "capacitymix/web", UID: "uid-of-the-mix"}
	want := budgetOf(web, m, 3)
	have := kept(web)
	have.Spec = policyv1.PodDisruptionBudgetSpec{
		MinAvailable: want.Spec.MinAvailable, Selector: have.Spec.Selector, UnhealthyPodEvictionPolicy: want.Spec.UnhealthyPodEvictionPolicy,
	}
	have.OwnerReferences = []metav1.OwnerReference{{Kind: "CapacityMix", UID: m.UID, Controller: new(true)}}
	have.Labels["added"], have.Status.CurrentHealthy = "by another", 4
	require.True(t, same(have, want))
	for what, change := range map[string]func(*policyv1.PodDisruptionBudget){
		"number":   func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = budgetOf(web, m, 2).Spec.MinAvailable },
		"selector": func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} },
		"policy":   func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = nil },
		"owner":    func(b *policyv1.PodDisruptionBudget) { b.OwnerReferences[0].UID = "of a mix that is gone" },
		"group":    func(b *policyv1.PodDisruptionBudget) { b.Annotations = nil },
	} {
		other := have.DeepCopy()
		change(other)
		assert.False(t, same(other, want), what)
	}
}
