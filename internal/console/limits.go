// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// limitView is a ResourceLimit as it is shown. All texts are inert.
type limitView struct {
	Namespace, Name, Description, Age string
	Deleted                           bool
	Sizes                             []fact
	// NodeSelector, Required and Preferred are its scheduling rules, none of them if it has none. A node must match one of Required.
	NodeSelector, Required, Preferred []string
	Volumes                           []string
	Pods, Workloads                   int32
	Users                             []string
	Conditions                        []fact
}

// Schedules reports whether the limit has scheduling rules.
func (v *limitView) Schedules() bool {
	return len(v.NodeSelector)+len(v.Required)+len(v.Preferred) > 0
}

var limitList = listOf[*v1alpha1.ResourceLimit]{
	id: "limits", title: "Resource limits", kind: "ResourceLimit",
	noun: "resource limit", resource: overview.LimitsResource,
	of:   func(r *overview.Reading) []*v1alpha1.ResourceLimit { return r.Limits },
	view: func(l *v1alpha1.ResourceLimit) any { return limitOf(l) },
}

func limitOf(l *v1alpha1.ResourceLimit) *limitView {
	v := &limitView{
		Namespace: inert(l.Namespace), Name: inert(l.Name), Description: inert(l.Spec.Description), Deleted: l.DeletionTimestamp != nil,
		Age:  timeText(l.CreationTimestamp),
		Pods: l.Status.PodCount, Workloads: l.Status.WorkloadCount, Sizes: sizesOf(&l.Spec),
	}
	for _, key := range slices.Sorted(maps.Keys(l.Spec.NodeSelector)) {
		v.NodeSelector = append(v.NodeSelector, inert(key+"="+l.Spec.NodeSelector[key]))
	}
	if a := l.Spec.NodeAffinity; a != nil {
		v.Required, v.Preferred = required(a), preferred(a)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Spec.Volumes)) {
		volume := l.Spec.Volumes[name]
		v.Volumes = append(v.Volumes, inert(strings.TrimSpace(name+": "+volume.Size.String()+" "+volume.MountPath)))
	}
	for _, w := range l.Status.Workloads {
		v.Users = append(v.Users, inert(w.Kind+" "+w.Namespace+"/"+w.Name))
	}
	v.Conditions = conditionsOf(l.Status.Conditions)
	return v
}

// limitDeleted is what follows from the deletion of a limit. One that could not be deleted has no status.
func limitDeleted(o client.Object) string {
	l, is := o.(*v1alpha1.ResourceLimit)
	if !is || l.Status.PodCount+l.Status.WorkloadCount == 0 {
		return "It is deleted once nothing uses it."
	}
	return fmt.Sprintf("It is in use by %s and %s, and is deleted once nothing uses it any more.",
		display.Count(int(l.Status.WorkloadCount), "workload"), display.Count(int(l.Status.PodCount), "pod"))
}

func sizesOf(s *v1alpha1.ResourceLimitSpec) (facts []fact) {
	for _, size := range []struct {
		label string
		of    *resource.Quantity
	}{
		{"CPU", s.CPU},
		{"Memory", s.Memory},
		{"CPU limit", s.CPULimit},
		{"Memory limit", s.MemoryLimit},
		{"Ephemeral storage", s.EphemeralStorage},
	} {
		if size.of != nil {
			facts = append(facts, fact{size.label, inert(size.of.String())})
		}
	}
	return facts
}

// required are the terms of which a node must match one.
func required(a *v1alpha1.NodeAffinity) (terms []string) {
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		terms = append(terms, term(&a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]))
	}
	return terms
}

func preferred(a *v1alpha1.NodeAffinity) (terms []string) {
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		terms = append(terms, fmt.Sprintf("weight %d: %s", p.Weight, term(&p.Preference)))
	}
	return terms
}

// term is a term in words: all of its requirements must be met.
func term(t *v1alpha1.NodeTerm) string {
	var all []string
	for _, r := range t.MatchExpressions {
		all = append(all, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", ")))
	}
	for _, r := range t.MatchFields {
		all = append(all, r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", "))
	}
	return inert(strings.Join(all, " and "))
}
