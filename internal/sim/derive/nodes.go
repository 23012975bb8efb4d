// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	"berth.dev/berth/internal/mix/capacity"
)

// controlPlaneKeys are those of labels and taints of the nodes of the control plane.
var controlPlaneKeys = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// keepsOut reports whether a taint keeps pods away that do not tolerate it.
func keepsOut(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// exclusion is why a node is left out.
func (d *deriver) exclusion(n *corev1.Node, t capacity.Type, tolerated func(*corev1.Node, capacity.Type) bool) (c cause, is bool) {
	_, leaving := capacity.Departing(n)
	switch {
	case slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return keepsOut(&t) && slices.Contains(controlPlaneKeys, t.Key) }):
		return controlPlane, true
	case leaving:
		return departing, true
	case n.Spec.Unschedulable:
		return cordoned, true
	case slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}):
		return notReady, true
	case t == capacity.Unknown:
		return untyped, true
	case !tolerated(n, t):
		return tainted, true
	}
	return 0, false
}

// tolerance returns a function that reports whether a workload tolerates the taints of a node by their keys: add-ons tolerate all taints,
// and do not show that a node is for workloads.
func (d *deriver) tolerance() func(*corev1.Node, capacity.Type) bool {
	var lists [2][][]corev1.Toleration
	seen := map[string]bool{}
	for _, w := range d.workloads {
		own := slices.DeleteFunc(slices.Clone(w.like().Spec.Tolerations), func(t corev1.Toleration) bool { return t.Key == "" })
		for i, t := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
			list := own
			if w.mix != nil {
				list = slices.Concat(own, w.mix.Tolerations[t])
			}
			if key := fmt.Sprint(i, list); len(list) > 0 && !seen[key] {
				seen[key] = true
				lists[i] = append(lists[i], list)
			}
		}
	}
	known := map[string]bool{}
	return func(n *corev1.Node, t capacity.Type) bool {
		var taints []corev1.Taint
		for i := range n.Spec.Taints {
			if keepsOut(&n.Spec.Taints[i]) {
				taints = append(taints, n.Spec.Taints[i])
			}
		}
		if len(taints) == 0 {
			return true
		}
		of, key := 0, textOf(taints, t)
		if t == capacity.OnDemand {
			of = 1
		}
		is, done := known[key]
		if !done {
			is = slices.ContainsFunc(lists[of], func(list []corev1.Toleration) bool {
				_, untolerated := corehelpers.FindMatchingUntoleratedTaint(logr.Discard(), taints, list, nil, true)
				return !untolerated
			})
			known[key] = is
		}
		return is
	}
}

func textOf(taints []corev1.Taint, t capacity.Type) string {
	var b strings.Builder
	b.WriteString(t.String())
	for i := range taints {
		fmt.Fprintf(&b, " %q %q %q", taints[i].Key, taints[i].Value, taints[i].Effect)
	}
	return b.String()
}
