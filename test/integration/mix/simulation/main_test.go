// SPDX-License-Identifier: Apache-2.0

// Package simulation_test compares, on a real control plane, what the replay of the
// scheduler's filters predicts with what the scheduler then does.
package simulation_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = "spot"
	onDemand = "on-demand"
	victim   = "victim"
)

// node is one node of a type in a zone, with capacity for so many pods of one CPU.
func node(name, capacityType, zone, cpus string, changes ...func(*cluster.NodeSpec)) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: name, CapacityType: capacityType, CPU: cpus, Zone: "zone-" + zone, InstanceType: "m5.large"}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// placed is a pod that is on a node, without the scheduler's doing.
func placed(name, onNode string, template ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	p := builders.Pod("web", name, append([]func(*corev1.PodTemplateSpec){builders.CPU("1")}, template...)...)
	p.Spec.NodeName = onNode
	return p
}

// onSpot accepts the nodes that the victim's replacement has to go to.
func onSpot(n *corev1.Node) bool { return n.Labels[cluster.CapacityTypeLabel] == spot }

func take(w *testenv.World) *simulation.Snapshot {
	w.T.Helper()
	profile, err := simulation.LoadProfile(testenv.Path(testenv.SecondScheduler))
	require.NoError(w.T, err)
	s, err := simulation.Take(w.Ctx, w.Cluster.Config(), profile)
	require.NoError(w.T, err)
	w.T.Cleanup(s.Close)
	return s
}

func live(w *testenv.World, name string) *corev1.Pod {
	w.T.Helper()
	return testenv.Read(w, name, &corev1.Pod{})
}

// ask simulates whether the victim's replacement fits on spot.
func ask(w *testenv.World) simulation.Answer {
	w.T.Helper()
	p := live(w, victim)
	a, err := take(w).Fits(w.Ctx, simulation.Question{Pod: p, Gone: []types.UID{p.UID}, Nodes: onSpot})
	require.NoError(w.T, err)
	return a
}

// replace lets the scheduler place the victim's replacement on spot, and
// returns its node, or else the scheduler's words.
func replace(w *testenv.World) (onNode, message string) {
	w.T.Helper()
	old := live(w, victim)
	w.Delete(old)
	w.WaitGone([]corev1.Pod{*old})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "replacement", Labels: old.Labels}, Spec: *old.Spec.DeepCopy()}
	p.Spec.NodeName = ""
	if p.Spec.NodeSelector == nil {
		p.Spec.NodeSelector = map[string]string{}
	}
	p.Spec.NodeSelector[cluster.CapacityTypeLabel] = spot
	w.Create(p)
	w.Eventually("the scheduler decides on the replacement", func() (bool, string) {
		p = live(w, p.Name)
		c := testenv.PodCondition(p, corev1.PodScheduled)
		onNode, message = p.Spec.NodeName, c.Message
		return c.Status == corev1.ConditionTrue || c.Reason == corev1.PodReasonUnschedulable, fmt.Sprint(c)
	})
	return onNode, message
}

// requireSameAsTheScheduler compares an answer with what then happens.
func requireSameAsTheScheduler(w *testenv.World, a simulation.Answer) {
	w.T.Helper()
	onNode, message := replace(w)
	require.Equal(w.T, a.Fits, onNode != "", "the replay predicts %q, the scheduler placed it on %q: %s", a.Message(), onNode, message)
	if a.Fits {
		return
	}
	// The scheduler counts the nodes of the other type as well, some of them
	// with the same reason.
	for reason := range a.Reasons {
		require.Contains(w.T, message, reason)
	}
}
