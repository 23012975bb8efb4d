// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// limitRangerAnnotation is written by the API server where it set resources from a LimitRange.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// Bounds are the quotas and limit ranges of a namespace.
type Bounds struct {
	Quotas []corev1.ResourceQuota
	Ranges []corev1.LimitRange
}

// Creatable returns why a pod is forbidden in the place of another one, which goes: the message names the object, the resource and
// its figures. It has no reason if the pod is allowed.
func (b *Bounds) Creatable(next, old *corev1.Pod) (v Verdict) {
	for i := range b.Quotas {
		if text := exceeded(next, old, &b.Quotas[i]); text != "" {
			return ReasonQuota.because("%s", text)
		}
	}
	for i := range b.Ranges {
		for j := range b.Ranges[i].Spec.Limits {
			if text := outside(next, &b.Ranges[i].Spec.Limits[j]); text != "" {
				return ReasonLimitRange.because("LimitRange %q forbids a pod like %s: %s", b.Ranges[i].Name, old.Name, text)
			}
		}
	}
	return v
}

// Crowded names a quota that does not allow a pod beside all those that are there, "" if each does.
func (b *Bounds) Crowded(next *corev1.Pod) string {
	for i := range b.Quotas {
		if exceeded(next, nil, &b.Quotas[i]) != "" {
			return b.Quotas[i].Name
		}
	}
	return ""
}

// entered names a quota that a pod as it will be is covered by, as it is now is not, and has no place in; "" for none.
func (b *Bounds) entered(next, now *corev1.Pod) string {
	for i := range b.Quotas {
		if q := &b.Quotas[i]; !covers(q, now) && exceeded(next, nil, q) != "" {
			return q.Name
		}
	}
	return ""
}

// Replace counts a pod in the place of another one: the next pod of the same unit needs what is left.
func (b *Bounds) Replace(next, old *corev1.Pod) {
	for i := range b.Quotas {
		q := &b.Quotas[i]
		freed, taken, used := countedBy(q, old), countedBy(q, next), corev1.ResourceList{}
		for kind := range q.Spec.Hard {
			now := q.Status.Used[kind].DeepCopy()
			now.Sub(freed.of(kind))
			now.Add(taken.of(kind))
			used[kind] = now
		}
		q.Status.Used = used
	}
}

// exceeded returns how a quota forbids a pod once another one is gone, which is nil if none goes; "" if it does not.
func exceeded(next, old *corev1.Pod, q *corev1.ResourceQuota) string {
	freed, taken, name := countedBy(q, old), countedBy(q, next), cmp.Or(next.Name, next.GenerateName)
	if old != nil {
		name = old.Name
	}
	for _, kind := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		hard, used := q.Spec.Hard[kind], q.Status.Used[kind].DeepCopy()
		takes := taken.of(kind)
		if takes.Sign() <= 0 {
			continue
		}
		was := used.DeepCopy()
		used.Sub(freed.of(kind))
		used.Add(takes)
		if used.Cmp(hard) > 0 {
			return fmt.Sprintf("ResourceQuota %q allows %s of %s, and %s is used: a replacement of pod %s would be refused", q.Name,
				hard.String(), kind, was.String(), name)
		}
	}
	return ""
}

// usage is what a pod takes of a quota.
type usage struct {
	pods             int64
	requests, limits corev1.ResourceList
}

// countedBy is what a quota counts of a pod: nothing of nil, and of a pod outside of its scopes.
func countedBy(q *corev1.ResourceQuota, pod *corev1.Pod) usage {
	if pod == nil || !covers(q, pod) {
		return usage{}
	}
	return usageOf(pod)
}

func usageOf(pod *corev1.Pod) usage {
	return usage{
		pods: 1, requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		limits: resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}),
	}
}

// of returns how much of a resource of a quota is taken.
func (u usage) of(name corev1.ResourceName) resource.Quantity {
	switch kind, what, cut := strings.Cut(string(name), "."); {
	case name == corev1.ResourcePods, name == "count/pods":
		return *resource.NewQuantity(u.pods, resource.DecimalSI)
	case cut && kind == "requests":
		return u.requests[corev1.ResourceName(what)].DeepCopy()
	case cut && kind == "limits":
		return u.limits[corev1.ResourceName(what)].DeepCopy()
	}
	return u.requests[name].DeepCopy()
}

// covers reports whether a quota counts a pod, by its scopes.
func covers(q *corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range q.Spec.Scopes {
		if !inScope(pod, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if q.Spec.ScopeSelector != nil {
		for _, r := range q.Spec.ScopeSelector.MatchExpressions {
			if !inScope(pod, r) {
				return false
			}
		}
	}
	return true
}

func inScope(pod *corev1.Pod, r corev1.ScopedResourceSelectorRequirement) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return inClass(pod.Spec.PriorityClassName, r)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod)
	}
	return false // of claims, or not known
}

func bestEffort(pod *corev1.Pod) bool {
	for _, list := range []corev1.ResourceList{
		resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true}), resourcehelper.PodLimits(pod,
			resourcehelper.PodResourcesOptions{ExcludeOverhead: true}),
	} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, there := list[name]; there && q.Sign() > 0 {
				return false
			}
		}
	}
	return true
}

func inClass(class string, r corev1.ScopedResourceSelectorRequirement) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpIn:
		return slices.Contains(r.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(r.Values, class)
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	}
	return class != ""
}

func crossesNamespaces(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for i := range preferred {
			terms = append(terms, preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// outside returns how a pod breaks a limit, "" if it does not.
func outside(pod *corev1.Pod, limit *corev1.LimitRangeItem) string {
	switch limit.Type {
	case corev1.LimitTypePod:
		return breaks(limit, resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
			resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}))
	case corev1.LimitTypeContainer:
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			// What the API server set for it came of a limit range of then; a replacement has the defaults of now.
			if strings.Contains(pod.Annotations[limitRangerAnnotation], "container "+c.Name) {
				continue
			}
			requests, limits := withDefaults(c.Resources, limit)
			if text := breaks(limit, requests, limits); text != "" {
				return "container " + c.Name + ": " + text
			}
		}
	}
	return ""
}

// withDefaults are the resources that a container is created with.
func withDefaults(r corev1.ResourceRequirements, limit *corev1.LimitRangeItem) (requests, limits corev1.ResourceList) {
	requests, limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, from := range []corev1.ResourceList{limit.DefaultRequest, r.Limits, r.Requests} {
		maps.Copy(requests, from)
	}
	maps.Copy(limits, limit.Default)
	maps.Copy(limits, r.Limits)
	return requests, limits
}

func breaks(limit *corev1.LimitRangeItem, requests, limits corev1.ResourceList) string {
	return cmp.Or(belowMin(limit.Min, requests, limits), aboveMax(limit.Max, requests, limits),
		aboveRatio(limit.MaxLimitRequestRatio, requests, limits))
}

func belowMin(bounds, requests, limits corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		least, request := bounds[name], requests[name]
		if request.Cmp(least) < 0 {
			return fmt.Sprintf("it requests %s of %s, and the minimum is %s", request.String(), name, least.String())
		}
		if l, there := limits[name]; there && l.Cmp(least) < 0 {
			return fmt.Sprintf("its limit of %s is %s, and the minimum is %s", name, l.String(), least.String())
		}
	}
	return ""
}

func aboveMax(bounds, requests, limits corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		most, request := bounds[name], requests[name]
		l, there := limits[name]
		switch {
		case !there:
			return fmt.Sprintf("it has no limit of %s, and the maximum is %s", name, most.String())
		case l.Cmp(most) > 0:
			return fmt.Sprintf("its limit of %s is %s, and the maximum is %s", name, l.String(), most.String())
		case request.Cmp(most) > 0:
			return fmt.Sprintf("it requests %s of %s, and the maximum is %s", request.String(), name, most.String())
		}
	}
	return ""
}

func aboveRatio(bounds, requests, limits corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		request, l, ratio := requests[name], limits[name], bounds[name]
		if request.Sign() <= 0 || l.Sign() <= 0 || above(l, request, ratio) {
			return fmt.Sprintf("its limit of %s is %s and it requests %s, and the limit may be %s times the request at most", name,
				l.String(), request.String(), ratio.String())
		}
	}
	return ""
}

// above reports whether limit/request is more than ratio, which may be a fraction.
func above(limit, request, ratio resource.Quantity) bool {
	request = request.DeepCopy() // what is multiplied below may be shared
	allowed := request.AsDec()
	allowed.Mul(allowed, ratio.AsDec())
	return limit.AsDec().Cmp(allowed) > 0
}
