// SPDX-License-Identifier: Apache-2.0

// Package sizing_test proves, on a real control plane, what the webhook makes
// of pods and what the controller says of ResourceLimits. The ids are those of
// the requirements that a test stands for.
package defaulting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Rights: []testenv.Rights{rights}}))
}

const disk = "example.com/disk"

// fast and slow are nodes that rules tell apart.
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

func limit(name string, changes ...func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, change := range changes {
		change(&l.Spec)
	}
	return l
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func figures(cpu, memory string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.CPU, s.Memory = quantity(cpu), quantity(memory) }
}

func onDisk(kind string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.NodeSelector = map[string]string{disk: kind} }
}

func changeLimit(w *testenv.World, name string, change func(*v1alpha1.ResourceLimit)) {
	w.T.Helper()
	testenv.Patch(w, &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, change)
}

// get reads a limit of the test; nil if there is none.
func get(w *testenv.World, name string) *v1alpha1.ResourceLimit {
	w.T.Helper()
	l := &v1alpha1.ResourceLimit{}
	err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, l)
	require.NoError(w.T, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return l
}

// waitLimit waits until a limit is as wanted.
func waitLimit(w *testenv.World, name, what string, ok func(*v1alpha1.ResourceLimit) bool) *v1alpha1.ResourceLimit {
	w.T.Helper()
	var l *v1alpha1.ResourceLimit
	w.Eventually("limit "+name+": "+what, func() (bool, string) {
		if l = get(w, name); l == nil {
			return false, "gone"
		}
		b, _ := json.Marshal(l.Status)
		return l.Status.ObservedGeneration == l.Generation && ok(l), string(b)
	})
	return l
}

// inUse reports whether InUse has a reason.
func inUse(l *v1alpha1.ResourceLimit, reason string) bool {
	c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionInUse)
	return c != nil && c.Reason == reason && (c.Status == metav1.ConditionTrue) == (reason != v1alpha1.ReasonNotReferenced)
}

func waitGone(w *testenv.World, name string) {
	w.T.Helper()
	w.Eventually("limit "+name+" is gone", func() (bool, string) {
		l := get(w, name)
		if l == nil {
			return true, ""
		}
		b, _ := json.Marshal(l)
		return false, string(b)
	})
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
	node := ""
	w.Eventually(name+" has a node", func() (bool, string) {
		p, err := w.Kube.CoreV1().Pods(w.Namespace).Get(w.Ctx, name, metav1.GetOptions{})
		require.NoError(w.T, err)
		node = p.Spec.NodeName
		return node != "", fmt.Sprint(p.Status.Conditions)
	})
	return node
}

// eventSays waits for an event about an object with words in its message.
func eventSays(w *testenv.World, name, reason string, words ...string) {
	w.T.Helper()
	w.Eventually("an event "+reason+" about "+name, func() (bool, string) {
		var saw []string
		for _, e := range w.Events(name) {
			if e.Reason == reason && !slices.ContainsFunc(words, func(s string) bool { return !strings.Contains(e.Message, s) }) {
				return true, ""
			}
			saw = append(saw, e.Reason+": "+e.Message)
		}
		return false, strings.Join(saw, "; ")
	})
}

// hear collects the warnings that a client is sent.
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
