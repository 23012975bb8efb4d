// SPDX-License-Identifier: Apache-2.0

// Package features_test is about what Kubernetes 1.35 to 1.37 added to pods and nodes, with all feature gates as they are by default:
// nominations by others, resources that change in place, devices. docs/compatibility.md has the list.
package features_test

import (
	"os"
	"testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// newWorld is a world with a scheduler that has more arguments.
func newWorld(t *testing.T, args []string, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Args = args
	w.RunScheduler(o)
	return w
}

// spotOnly has the spot slots of a mix wait for spot nodes.
var spotOnly = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)

// node is a node of a type with so many CPUs.
func node(name, capacityType, cpus string) cluster.NodeSpec {
	return cluster.NodeSpec{Name: name, CapacityType: capacityType, CPU: cpus}
}
