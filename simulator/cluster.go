// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/simulator/store"
)

// terminates is how long a pod ends. Its successor does not wait for it.
const terminates = 2 * time.Second

// cluster carries out what the scheduler and the rebalancer request.
type cluster struct{ *world }

// Bind binds a pod, as the API server does.
func (c cluster) Bind(pod *corev1.Pod, binding *corev1.Binding) error {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, errBound)
	}
	pod = changing(pod)
	pod.Spec.NodeName = binding.Target.Name
	pod.Annotations, pod.Labels = merged(pod.Annotations, binding.Annotations), merged(pod.Labels, binding.Labels)
	c.setCondition(pod, corev1.PodScheduled, corev1.ConditionTrue)
	c.store.Update(pod)
	return nil
}

func merged(into, from map[string]string) map[string]string {
	if len(from) == 0 {
		return into
	}
	into = maps.Clone(into)
	if into == nil {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}

// Evict evicts a pod, unless a budget forbids it.
func (c cluster) Evict(pod *corev1.Pod, eviction *policyv1.Eviction) error {
	o := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		o = *eviction.DeleteOptions
	}
	if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != pod.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errBound)
	}
	if pod.DeletionTimestamp != nil {
		return nil
	}
	dry := len(o.DryRun) > 0
	for _, budget := range store.List[*policyv1.PodDisruptionBudget](c.store, pod.Namespace) {
		if err := c.spend(budget, pod, dry); err != nil {
			return err
		}
	}
	if dry {
		return nil
	}
	if of := c.serves(pod); of != nil {
		of.moves++
	}
	return c.Delete(pod)
}

// spend has a budget allow one disruption less, if it selects a pod and counts it. The error is that of the Eviction API.
func (c cluster) spend(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod, dry bool) error {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return err
	}
	if !selector.Matches(labels.Set(pod.Labels)) {
		return nil
	}
	healthy := budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
	switch {
	case pod.Status.Phase == corev1.PodPending, !ready(pod) && healthy: // the budget does not count it
	case budget.Status.DisruptionsAllowed <= 0:
		return refusal(budget)
	case !dry:
		budget = budget.DeepCopy()
		budget.Status.DisruptionsAllowed--
		c.store.Update(budget)
	}
	return nil
}

// refusal is the answer of the Eviction API for a budget that allows no disruption.
func refusal(budget *policyv1.PodDisruptionBudget) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + budget.Name + " allows no disruption",
	})
	err.ErrStatus.Code = http.StatusTooManyRequests
	return err
}

// Delete deletes an object. A pod that runs ends first.
func (c cluster) Delete(o store.Object) error {
	pod, is := o.(*corev1.Pod)
	switch {
	case !is:
		c.store.Delete(o)
	case pod.Spec.NodeName == "", c.serves(pod) == nil: // placeholders have no grace period
		c.store.Delete(pod)
	case pod.DeletionTimestamp == nil:
		pod = changing(pod)
		now := c.stamp()
		pod.DeletionTimestamp = &now
		c.store.Update(pod)
		uid := pod.UID
		c.after(terminates, func() {
			if current, found := store.Get[*corev1.Pod](c.store, pod.Namespace, pod.Name); found && current.UID == uid {
				c.store.Delete(current)
			}
		})
	}
	return nil
}

var errBound = errors.New("the pod has a node, is another one, or is being deleted")

// setCondition sets a condition of a pod that is not in the store.
func (w *world) setCondition(pod *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus) {
	condition := corev1.PodCondition{Type: t, Status: status, LastTransitionTime: w.stamp()}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return
	}
	pod.Status.Conditions[i] = condition
}

func hasCondition(pod *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t && c.Status == status })
}

// ready reports whether a pod is Ready and stays.
func ready(pod *corev1.Pod) bool {
	return controller.IsPodActive(pod) && hasCondition(pod, corev1.PodReady, corev1.ConditionTrue)
}
