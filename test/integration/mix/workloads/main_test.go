// SPDX-License-Identifier: Apache-2.0

// Package workloads_test places the pods of every kind of owner by their mix on
// a real control plane.
package workloads_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

// requireAssignments demands that pods are bound, each with the slot that is wanted
// for it and on the type of that slot.
func requireAssignments(w *testenv.World, pods []corev1.Pod, m split.Mix, want func(*corev1.Pod) int) {
	w.T.Helper()
	types := w.Types()
	for i := range pods {
		p := &pods[i]
		slot, ok := governing.ClaimedSlot(p)
		require.True(w.T, ok, "pod %s has a slot: %v", p.Name, p.Annotations)
		require.Equal(w.T, want(p), slot, "the slot of pod %s", p.Name)
		require.Equal(w.T, m.TypeOf(slot), types[p.Spec.NodeName], "the type that pod %s of slot %d runs on", p.Name, slot)
	}
}

// byName returns pods by their names.
func byName(pods []corev1.Pod) map[string]corev1.Pod {
	named := map[string]corev1.Pod{}
	for _, p := range pods {
		named[p.Name] = p
	}
	return named
}

// waitReplaced waits until an app has n pods, all Ready, and none of the old ones.
func waitReplaced(w *testenv.World, app string, n int, old ...corev1.Pod) []corev1.Pod {
	w.T.Helper()
	w.WaitGone(old)
	return w.WaitReady(app, n)
}

func name(app string, ordinal int) string { return fmt.Sprintf("%s-%d", app, ordinal) }
