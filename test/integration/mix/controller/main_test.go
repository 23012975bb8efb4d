// SPDX-License-Identifier: Apache-2.0

// Package controller_test ends the companion controller and the API server at
// bad moments, and looks at what the controller may do and does.
package controller_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Rights: []testenv.Rights{rights}}))
}

const (
	replicas = 10
	// away is how many of them belong on spot and are not there.
	away = 7
)

var seventy = split.New(70, 2)

// stray makes a world with a workload that is on on-demand as a whole, and capacity
// on spot for what belongs there. Its pods take a while to be Ready, so that a
// move takes as long.
func stray(t *testing.T, ready time.Duration) *testenv.World {
	t.Helper()
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas, builders.ReadyAfter(ready)))
	w.WaitReady("web", replicas)
	w.AddNodes(cluster.Nodes("spot", 4)...)
	return w
}

// assertEvicted demands that at most so many pods were evicted, and none twice.
func assertEvicted(w *testenv.World, most int) {
	w.T.Helper()
	var names []string
	for _, e := range w.Evictions() {
		assert.True(w.T, e.OK(), "an eviction that was refused: %s", e)
		names = append(names, e.Name)
	}
	assert.LessOrEqual(w.T, len(names), most, "evictions")
	slices.Sort(names)
	assert.Equal(w.T, slices.Compact(slices.Clone(names)), names, "no pod is evicted twice")
}

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthControllerUser, ClusterRoles: []string{"berth-controller"}, Roles: []string{"berth-controller"}, Applied: true,
	SometimesUsed: map[string]string{"patch /events": "the recorder increments the count of a repeated event"},
	NeverUsed: map[string]string{
		"get */*/scale":                  "it is read of owners of kinds that Berth does not watch",
		"get apps/controllerrevisions":   "they are read of StatefulSets with OnDelete or a partition: mix/replacement",
		"list /replicationcontrollers":   ofProfiles,
		"get lifecycle.k8s.io/evictions": ofEvictions, "list lifecycle.k8s.io/evictions": ofEvictions,
		"watch lifecycle.k8s.io/evictions": ofEvictions, "patch lifecycle.k8s.io/evictions/status": ofEvictions,
		"patch lifecycle.k8s.io/evictionrequests": ofEvictions,
		"patch policy/poddisruptionbudgets":       ofFloors, "delete policy/poddisruptionbudgets": ofFloors,
	},
}

const ofEvictions = "the API server has no Evictions: mix/alpha, and test/evictions"

const ofFloors = "they are written for mixes with protectFloor: mix/floor"

const ofProfiles = "PodTopologySpread reads them where the scheduler's profile spreads by hard constraints of its own"

// The rights that no other test of the package uses.
func TestEveryRemainingRightIsUsed(t *testing.T) {
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	w.ChangeMix("web", builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)) // reads autoscalers
	w.ReadMetricsAsSomebody(c.URL)
	w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	w.Create(builders.ResourceLimit("size"), builders.SchedulingPolicy("all")) // the one is given a finalizer and a status, the other a status
	young := w.Slots(w.Live("web"))[replicas-1]
	testenv.Patch(w, young, func(p *corev1.Pod) { p.Annotations[v1alpha1.SlotAnnotation] = "0" })
	w.Eventually("the finalizer and the annotation are written", func() (bool, string) {
		used := w.RightsUsedBy(cluster.BerthControllerUser)
		return used["patch berth.dev/resourcelimits"] && used["patch berth.dev/resourcelimits/status"] &&
			used["patch berth.dev/schedulingpolicies/status"] && used["patch /pods"], ""
	})
}
