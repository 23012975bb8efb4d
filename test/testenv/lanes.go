// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// Lane is a part of a world: nodes and pods that meet only each other. Cases
// that have to wait share one world and wait at the same time.
type Lane string

const laneLabel = "test.berth.dev/lane"

// Node is a node of the lane, named after it.
func (l Lane) Node(name, capacityType, cpus string, changes ...func(*cluster.NodeSpec)) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: l.Name(name), CapacityType: capacityType, CPU: cpus, Labels: map[string]string{laneLabel: string(l)}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// Name is the full name of one of the lane's nodes.
func (l Lane) Name(node string) string { return string(l) + "-" + node }

// Pods ties a template's pods to the lane's nodes.
func (l Lane) Pods(t *corev1.PodTemplateSpec) { builders.OnNodesWith(laneLabel, string(l))(t) }
