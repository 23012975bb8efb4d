// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"os"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// operators are those that the tests of the package share, as namespaces of a cluster do. The first test that needs one starts it.
var operators struct {
	mu      sync.Mutex
	running map[string]*cluster.Operator
}

// probes are pods that the webhooks of operators label.
var probes = map[string]struct {
	template func(*corev1.PodTemplateSpec)
	label    string
}{
	cluster.LWS: {func(t *corev1.PodTemplateSpec) {
		const labels = "leaderworkerset.sigs.k8s.io/"
		t.Labels[labels+"name"], t.Labels[labels+"worker-index"], t.Annotations[labels+"size"] = "probe", "0", "1"
	}, "leaderworkerset.sigs.k8s.io/group-index"},
	cluster.JobSet: {func(t *corev1.PodTemplateSpec) {
		const name = "jobset.sigs.k8s.io/jobset-name"
		t.Labels[name], t.Annotations[name] = "probe", "probe"
	}, "jobset.sigs.k8s.io/priority"},
}

// Operator has an operator run, for all namespaces.
func (w *World) Operator(name string) {
	w.T.Helper()
	operators.mu.Lock()
	defer operators.mu.Unlock()
	if operators.running[name] == nil {
		w.startOperator(name)
	}
	w.T.Cleanup(func() {
		if w.T.Failed() {
			w.T.Logf("end of the log of %s:\n%s", name, operators.running[name].LogTail(40))
		}
	})
}

// RestartOperator kills an operator, and starts it again after something has happened.
func (w *World) RestartOperator(name string, meanwhile func()) {
	w.T.Helper()
	operators.mu.Lock()
	defer operators.mu.Unlock()
	o := operators.running[name]
	o.Kill()
	<-o.Done()
	meanwhile()
	w.startOperator(name)
}

// startOperator starts an operator, and waits until pods pass its webhook: the API server takes a moment to see a new configuration.
func (w *World) startOperator(name string) {
	w.T.Helper()
	o, err := w.Cluster.StartOperator(w.Ctx, os.Stderr, name)
	require.NoError(w.T, err)
	if operators.running == nil {
		operators.running = map[string]*cluster.Operator{}
	}
	operators.running[name] = o
	w.Eventually("pods pass the webhook of "+name, func() (bool, string) {
		p := builders.Pod("probe", "probe-7", probes[name].template)
		err := w.DryRun(p)
		return p.Labels[probes[name].label] != "", fmt.Sprint(err, p.Labels)
	})
}
