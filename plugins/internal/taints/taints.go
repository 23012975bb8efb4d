// SPDX-License-Identifier: Apache-2.0

// Package taints compares taints with tolerations as the plugin TaintToleration does.
package taints

import (
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// Compared reports whether tolerations with the operators Gt and Lt count.
func Compared() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}

// Repels reports whether a taint keeps pods without a toleration off its node.
func Repels(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// Deters reports whether pods without a toleration avoid the node of a taint where they can.
func Deters(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }

// Untolerated returns the first taint of a node that a pod does not tolerate, of those that count.
func Untolerated(node *corev1.Node, pod *corev1.Pod, counts func(*corev1.Taint) bool) (corev1.Taint, bool) {
	if len(node.Spec.Taints) == 0 {
		return corev1.Taint{}, false
	}
	return corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, counts, Compared())
}
