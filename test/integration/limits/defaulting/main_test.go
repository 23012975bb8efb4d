// SPDX-License-Identifier: Apache-2.0

// Package defaulting_test proves, on a real control plane, what the webhook makes
// of pods and what the controller reports of ResourceLimits.
package defaulting_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Rights: []testenv.Rights{rights}}))
}

const disk = "example.com/disk"

// fast and slow are nodes that rules distinguish.
func fast() cluster.NodeSpec {
	return cluster.NodeSpec{Name: "fast", Labels: map[string]string{disk: "ssd"}}
}

func slow() cluster.NodeSpec {
	return cluster.NodeSpec{Name: "slow", Labels: map[string]string{disk: "hdd"}}
}

// bare is a pod that names a limit, "" for none, and sets no requests.
func bare(name, limit string, changes ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	return builders.Pod(name, name, append([]func(*corev1.PodTemplateSpec){sized(limit)}, changes...)...)
}

// sized has a template's pods name a limit and request nothing.
func sized(limit string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		if limit != "" {
			t.Labels[v1alpha1.ResourceLimitLabel] = limit
		}
	}
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func figures(cpu, memory string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.CPU, s.Memory = quantity(cpu), quantity(memory) }
}

func changeLimit(w *testenv.World, name string, change func(*v1alpha1.ResourceLimit)) {
	w.T.Helper()
	testenv.Patch(w, &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, change)
}

// guarded is a world with a controller, which guards limits.
func guarded(t *testing.T) *testenv.World {
	t.Helper()
	w := testenv.New(t, fast())
	w.Controller(testenv.Impatient)
	return w
}

// get reads a limit of the test.
func get(w *testenv.World, name string) *v1alpha1.ResourceLimit {
	w.T.Helper()
	return testenv.Read(w, name, &v1alpha1.ResourceLimit{})
}

// waitLimit waits until a limit is as wanted.
func waitLimit(w *testenv.World, name, what string, ok func(*v1alpha1.ResourceLimit) bool) *v1alpha1.ResourceLimit {
	w.T.Helper()
	return testenv.WaitFor(w, name, what, func(l *v1alpha1.ResourceLimit) bool {
		return l.Status.ObservedGeneration == l.Generation && ok(l)
	})
}

// conditionIs reports whether a condition has a reason, and a status.
func conditionIs(l *v1alpha1.ResourceLimit, name, reason string, is bool) bool {
	c := meta.FindStatusCondition(l.Status.Conditions, name)
	return c != nil && c.Reason == reason && (c.Status == metav1.ConditionTrue) == is
}

// inUse reports whether InUse has a reason.
func inUse(l *v1alpha1.ResourceLimit, reason string) bool {
	return conditionIs(l, v1alpha1.ConditionInUse, reason, reason != v1alpha1.ReasonNotReferenced)
}

// used returns the check of inUse for waitLimit.
func used(reason string) func(*v1alpha1.ResourceLimit) bool {
	return func(l *v1alpha1.ResourceLimit) bool { return inUse(l, reason) }
}

func waitGone(w *testenv.World, name string) {
	w.T.Helper()
	w.WaitDeleted(&v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})
}

// names are the workloads of a status, as kind/name.
func names(l *v1alpha1.ResourceLimit) (all []string) {
	for _, x := range l.Status.Workloads {
		all = append(all, x.Kind+"/"+x.Name)
	}
	return all
}

// waitNode waits until a pod has a node.
func waitNode(w *testenv.World, name string) string {
	w.T.Helper()
	return testenv.WaitFor(w, name, "it has a node", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }).Spec.NodeName
}

// eventSays waits for an event about an object with words in its message.
func eventSays(w *testenv.World, name, reason string, words ...string) {
	w.T.Helper()
	w.WaitEvent(name, reason, func(e *corev1.Event) bool {
		return e.Reason == reason && !slices.ContainsFunc(words, func(s string) bool { return !strings.Contains(e.Message, s) })
	})
}

// hear collects the warnings that a client gets.
type hear struct {
	mu  sync.Mutex
	all []string
}

func (h *hear) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if code == 299 && strings.HasPrefix(text, "berth: ") {
		h.all = append(h.all, text)
	}
}
