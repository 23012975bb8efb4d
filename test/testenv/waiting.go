// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/test/builders"
)

// Unschedulable returns why a pod is unschedulable by its PodScheduled
// condition; empty if it is not.
func Unschedulable(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// WaitUnschedulable waits until n pods of an app have been found unschedulable
// and returns them.
func (w *World) WaitUnschedulable(app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s are unschedulable", n, app), func() (bool, string) {
		live := w.Live(app)
		pods = slices.DeleteFunc(slices.Clone(live), func(p corev1.Pod) bool { return p.Spec.NodeName != "" || Unschedulable(&p) == "" })
		return len(pods) == n, fmt.Sprintf("%d unschedulable, %s", len(pods), w.SplitOf(live))
	})
	return pods
}

// Fill takes so many CPUs of a node with pods of one CPU each, which belong to
// no mix, and waits until they run there. It returns their app.
func (w *World) Fill(node string, cpus int, template ...func(*corev1.PodTemplateSpec)) (app string) {
	w.T.Helper()
	app = "fill-" + node
	changes := append([]func(*corev1.PodTemplateSpec){builders.CPU("1"), builders.OnNode(node)}, template...)
	for i := range cpus {
		w.Create(builders.Pod(app, fmt.Sprintf("%s-%d", app, i), changes...))
	}
	w.WaitBound(app, cpus)
	return app
}

// BerthEvents returns the events about an object that the scheduler records and
// the stock scheduler would not.
func (w *World) BerthEvents(name string) []corev1.Event {
	w.T.Helper()
	stock := []string{"Scheduled", "FailedScheduling", "Preempted"}
	return slices.DeleteFunc(w.Events(name), func(e corev1.Event) bool {
		return e.ReportingController != builders.Scheduler || slices.Contains(stock, e.Reason)
	})
}
