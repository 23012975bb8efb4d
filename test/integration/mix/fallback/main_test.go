// SPDX-License-Identifier: Apache-2.0

// Package fallback_test proves, on a real control plane, what happens to pods
// whose slot's capacity type has no free capacity: when they borrow, when they wait, what
// wakes them and what their conditions have meanwhile.
package fallback_test

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// stays is how long something that must not happen is watched for.
	stays = 2 * time.Second
)

var (
	// wakeBound is the time from the moment a pod fits to its binding. The promise is 2 s, which other suites at the same time make
	// longer; a pod that nothing wakes waits for 5 minutes.
	wakeBound = testenv.Length(20*time.Second, 2*time.Second)
	// borrowBound is the time from the moment a pod may borrow to its binding. The promise is 5 s.
	borrowBound = testenv.Length(20*time.Second, 5*time.Second)
)

// oneCPU makes every pod take a whole CPU, so that nodes are filled exactly.
var oneCPU = builders.CPU("1")

// node is one node of a type, with capacity for so many pods of one CPU.
func node(name, capacityType, cpus string, changes ...func(*cluster.NodeSpec)) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: name, CapacityType: capacityType, CPU: cpus, Zone: "zone-a", InstanceType: "m5.large"}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// tainted puts a taint on a node.
func tainted(key string, effect corev1.TaintEffect) func(*cluster.NodeSpec) {
	return func(n *cluster.NodeSpec) {
		n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: effect})
	}
}

func other(capacityType string) string {
	if capacityType == spot {
		return onDemand
	}
	return spot
}

// allOf returns the mix percentage that makes every slot of one type.
func allOf(capacityType string) int32 {
	if capacityType == spot {
		return 100
	}
	return 0
}
