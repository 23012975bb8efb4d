// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
)

const (
	// callTimeout bounds one call of the API server.
	callTimeout = 5 * time.Second
	// refusedAgain is when a write is tried again that the API server does not accept.
	refusedAgain = time.Minute
	// maxRefusal bounds what a condition has of an answer of the API server.
	maxRefusal = 512
)

// carryOut writes what was decided about a group, and returns when to go on, 0 for when the group changes. What the API server does not
// accept replaces the verdict.
func (c *Controller) carryOut(ctx context.Context, key governing.GroupKey, g *clusterstate.Group, d *floor.Decision) (
	wait time.Duration, err error,
) {
	have, err := c.budget(ctx, key)
	if err != nil {
		return 0, err
	}
	own := have != nil && have.Labels[v1alpha1.FloorLabel] == governing.FloorLabel(key)
	switch {
	case d.Stays && own && c.protects(have):
		return 0, nil
	case d.Floor == 0:
		return c.end(ctx, key, have, own)
	case have != nil && !own:
		d.Verdict = floor.Unprotected(v1alpha1.ReasonBudgetRefused, "PodDisruptionBudget %q is not of Berth: delete it", have.Name).Verdict
		return 0, nil
	case have == nil && c.budgets.owned(key.Namespace) >= maxOwned:
		d.Verdict = floor.Unprotected(v1alpha1.ReasonTooManyBudgets, "Berth keeps at most %d PodDisruptionBudgets in a namespace",
			maxOwned).Verdict
		return refusedAgain, nil
	}
	return c.write(ctx, key, g, d, have)
}

// end removes the budget of a group that has no floor any more.
func (c *Controller) end(ctx context.Context, key governing.GroupKey, have *policyv1.PodDisruptionBudget, own bool) (time.Duration, error) {
	delete(c.lost, key)
	delete(c.touched, key)
	delete(c.lower, key)
	if !own {
		return 0, nil
	}
	return c.remove(ctx, have)
}

// budget reads the budget with the name of that of a group, nil if there is none. It must not be changed.
func (c *Controller) budget(ctx context.Context, key governing.GroupKey) (*policyv1.PodDisruptionBudget, error) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: floor.NameOf(governing.FloorLabel(key))}
	have := &policyv1.PodDisruptionBudget{}
	err := c.Reader.Get(ctx, name, have, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("read PodDisruptionBudget %s: %w", name, err)
	}
	return have, nil
}

// protects reports whether the mix that a budget belongs to still has protectFloor.
func (c *Controller) protects(b *policyv1.PodDisruptionBudget) bool {
	ref := metav1.GetControllerOfNoCopy(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref == nil {
		return false
	}
	_, is := c.mixes[b.Namespace][ref.Name]
	return is
}

// write writes the budget and the labels of a group. The floor is protected once there is the budget, and as many replicas have the label
// as it requires.
func (c *Controller) write(
	ctx context.Context, key governing.GroupKey, g *clusterstate.Group, d *floor.Decision, have *policyv1.PodDisruptionBudget,
) (wait time.Duration, err error) {
	wait, unwritten, err := c.keep(ctx, key, g, d.Floor, have)
	if err == nil {
		var more time.Duration
		var verdict floor.Verdict
		more, verdict, err = c.label(ctx, key, d.Changes)
		wait, unwritten = workloads.Earliest(wait, more), cmp.Or(unwritten, verdict)
	}
	if unwritten.Fails() {
		d.Verdict = unwritten
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		d.Verdict = refusal(err)
		return refusedAgain, nil
	}
	return wait, err
}

// remove deletes a budget, and returns how long to wait with that. Replicas keep their label, which nothing selects then.
func (c *Controller) remove(ctx context.Context, b *policyv1.PodDisruptionBudget) (wait time.Duration, err error) {
	if b.DeletionTimestamp != nil {
		return 0, nil // a finalizer keeps it
	}
	object := objectOf(b.Namespace, b.Name)
	if wait = c.pace.wait(b.Namespace, object, "delete "+string(b.UID), true, c.Clock.Now()); wait > 0 {
		return wait, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = c.Kube.PolicyV1().PodDisruptionBudgets(b.Namespace).Delete(ctx, b.Name, *metav1.NewPreconditionDeleteOptions(string(b.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, c.pace.refuse(object, fmt.Errorf("delete PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err))
	}
	log.FromContext(ctx).Info("Deleted the PodDisruptionBudget of a floor", "namespace", b.Namespace, "budget", b.Name)
	return 0, nil
}

func objectOf(namespace, name string) string { return namespace + "/" + name }

// keep writes the budget of a group unless it is there as it has to be. Where it has to wait, the verdict is why.
func (c *Controller) keep(ctx context.Context, key governing.GroupKey, g *clusterstate.Group, n int, have *policyv1.PodDisruptionBudget) (
	wait time.Duration, unwritten floor.Verdict, err error,
) {
	want := budgetOf(key, g.Governing, n)
	if wait = c.lowers(key, have, n); wait > 0 {
		return wait, unwritten, nil
	}
	if have != nil && same(have, want) {
		return 0, unwritten, nil
	}
	object, value, now := objectOf(key.Namespace, *want.Name), fmt.Sprint(n, g.Governing.UID), c.Clock.Now()
	if wait = c.pace.wait(key.Namespace, object, value, true, now); wait > 0 {
		return wait, c.pace.unwritten(object, value, now), nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o := metav1.ApplyOptions{FieldManager: FieldOwner, Force: true}
	_, err = c.Kube.PolicyV1().PodDisruptionBudgets(key.Namespace).Apply(ctx, want, o)
	if apierrors.IsInvalid(err) && have != nil { // another client gave it a field that excludes minAvailable
		wait, err = c.remove(ctx, have)
		return wait, pending, err
	}
	if err != nil {
		return 0, unwritten, c.pace.refuse(object, fmt.Errorf("apply PodDisruptionBudget %s/%s: %w", key.Namespace, *want.Name, err))
	}
	log.FromContext(ctx).Info("Applied the PodDisruptionBudget of a floor", "namespace", key.Namespace, "budget", *want.Name,
		"workload", g.Workload.Name, "minAvailable", n)
	return 0, unwritten, nil
}

// lowers returns how long a budget that has a larger number keeps it. A pod has gone then, and the disruption controller may not have seen
// that yet: it would allow the eviction of another one. Each further pod has it wait again, and once it is lower, it is touched.
func (c *Controller) lowers(key governing.GroupKey, have *policyv1.PodDisruptionBudget, n int) (wait time.Duration) {
	if have == nil || have.Spec.MinAvailable == nil || have.Spec.MinAvailable.IntValue() <= n {
		delete(c.lower, key)
		return 0
	}
	now := c.Clock.Now()
	l, waits := c.lower[key]
	if !waits || n < l.to {
		l = lowering{to: n, at: now.Add(recountAgain)}
		c.lower[key] = l
	}
	if wait = l.at.Sub(now); wait > 0 {
		return wait
	}
	if c.lost[key] == 0 { // the write itself has the pods counted once
		c.lost[key], c.touched[key] = recounts-1, now
	}
	return 0
}

// budgetOf is the budget of a group. A pod that is not Ready does not count for the floor, so it may go.
func budgetOf(key governing.GroupKey, m *governing.Mix, n int) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	label := governing.FloorLabel(key)
	return policyv1ac.PodDisruptionBudget(floor.NameOf(label), key.Namespace).
		WithLabels(map[string]string{v1alpha1.FloorLabel: label}).
		WithAnnotations(map[string]string{v1alpha1.FloorGroupAnnotation: key.ID}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).WithKind("CapacityMix").
			WithName(m.CapacityMix()).WithUID(m.UID).WithController(true)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt32(int32(n))). //nolint:gosec // at most minOnDemand
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{v1alpha1.FloorLabel: label})).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
}

// same reports whether a budget has what is wanted of it.
func same(have *policyv1.PodDisruptionBudget, want *policyv1ac.PodDisruptionBudgetApplyConfiguration) bool {
	ref, group := metav1.GetControllerOfNoCopy(have), have.Annotations[v1alpha1.FloorGroupAnnotation]
	return ref != nil && ref.UID == *want.OwnerReferences[0].UID && group == want.Annotations[v1alpha1.FloorGroupAnnotation] &&
		equality.Semantic.DeepEqual(have.Spec, policyv1.PodDisruptionBudgetSpec{
			MinAvailable: want.Spec.MinAvailable, Selector: &metav1.LabelSelector{MatchLabels: want.Spec.Selector.MatchLabels},
			UnhealthyPodEvictionPolicy: want.Spec.UnhealthyPodEvictionPolicy,
		})
}

// label writes labels of pods, and returns when to go on with those that are left, 0 if none is. Where one of the first ones has to wait,
// the verdict is why.
func (c *Controller) label(ctx context.Context, key governing.GroupKey, changes []floor.Change) (
	wait time.Duration, unwritten floor.Verdict, err error,
) {
	for _, change := range changes {
		p, value, now := change.Pod, "label "+change.Value, c.Clock.Now()
		w := c.pace.wait(key.Namespace, string(p.UID), value, change.First, now)
		if wait = workloads.Earliest(wait, w); w > 0 {
			if change.First {
				unwritten = cmp.Or(unwritten, c.pace.unwritten(string(p.UID), value, now))
			}
			continue
		}
		if _, is := p.Labels[v1alpha1.FloorLabel]; is {
			err = c.relabel(ctx, key, change)
		} else {
			err = c.patch(ctx, p, map[string]any{"uid": p.UID}, change.Value)
		}
		if err != nil {
			return wait, unwritten, c.pace.refuse(string(p.UID), err)
		}
	}
	more, err := c.recount(ctx, key)
	return workloads.Earliest(wait, more), unwritten, err
}

// relabel changes or removes a label that Berth set. The pods of a template with the label have it from their owner, which may select
// them by it and replace each one that loses it.
func (c *Controller) relabel(ctx context.Context, key governing.GroupKey, change floor.Change) error {
	p := change.Pod
	read, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pod, err := c.Kube.CoreV1().Pods(p.Namespace).Get(read, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != p.UID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	if byOthers(pod) {
		c.inUse.add(p.UID)
		c.queue.Add(key) // the verdict is another one
		return nil
	}
	if err := c.patch(ctx, p, map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}, change.Value); err != nil {
		return err
	}
	if of, found := c.budgets.of(key.Namespace, pod.Labels[v1alpha1.FloorLabel]); found {
		c.lost[of] = recounts
		if of != key {
			c.queue.Add(of)
		}
	}
	return nil
}

var labelField = []byte(`"f:` + v1alpha1.FloorLabel + `"`)

// byOthers reports whether another client than Berth set the label of a pod.
func byOthers(pod *corev1.Pod) bool {
	for i := range pod.ManagedFields {
		e := &pod.ManagedFields[i]
		if e.Manager != FieldOwner && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), labelField) {
			return true
		}
	}
	return false
}

// patch writes the label of a pod. Metadata is what has to be as it was.
func (c *Controller) patch(ctx context.Context, p *clusterstate.Pod, metadata map[string]any, value string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	metadata["labels"] = map[string]any{v1alpha1.FloorLabel: nil}
	if value != "" {
		metadata["labels"] = map[string]any{v1alpha1.FloorLabel: value}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = c.Kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldOwner})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the watch will show it
	}
	if err != nil {
		return fmt.Errorf("patch pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}
