// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// realNode has as many labels as a managed node.
func realNode(extra ...string) *corev1.Node {
	pairs := extra
	for i := range 25 {
		pairs = append(pairs, fmt.Sprintf("example.com/label-%d", i), "value")
	}
	return labelled(append(pairs, "topology.kubernetes.io/zone", "europe-west4-a", "node.kubernetes.io/instance-type", "n2-standard-8")...)
}

func BenchmarkClassify(b *testing.B) {
	c := defaults(b)
	for name, node := range map[string]*corev1.Node{
		"first-rule": realNode("karpenter.sh/capacity-type", "spot"),
		"last-rule":  realNode("kubernetes.azure.com/cluster", "MC_x"),
		"unknown":    realNode(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(node)
			}
		})
	}
}

func BenchmarkPins(b *testing.B) {
	c := defaults(b)
	zone := expression("topology.kubernetes.io/zone", corev1.NodeSelectorOpIn, "a", "b")
	selector := &corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/os": "linux", "team": "x", "pool": "y"}}
	for name, spec := range map[string]*corev1.PodSpec{
		"no-selector":         {},
		"selector-3":          selector,
		"affinity-2x2":        requiring(term(zone, zone), term(zone, zone)),
		"affinity-names-last": requiring(term(zone), term(zone, expression("karpenter.sh/capacity-type", corev1.NodeSelectorOpIn, "spot"))),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Pins(spec)
			}
		})
	}
}

func BenchmarkDomain(b *testing.B) {
	labels, keys := realNode().Labels, []string{"topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"}
	b.ReportAllocs()
	for b.Loop() {
		Domain(labels, keys)
	}
}

func BenchmarkAccepting(b *testing.B) {
	node := tainted(realNode(), "cloud.google.com/gke-spot=true:NoSchedule")
	b.ReportAllocs()
	for b.Loop() {
		Accepting(node)
	}
}

func TestAllocations(t *testing.T) {
	c, node := defaults(t), realNode("kubernetes.azure.com/cluster", "MC_x")
	keys := []string{"topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"}
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Classify(node) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { Accepting(node) }))
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { Domain(node.Labels, keys) }), 1.0, "the string itself")
}
