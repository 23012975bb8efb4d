// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthControllerUser, ClusterRoles: []string{"berth-controller"}, Roles: []string{"berth-controller"}, Applied: true,
	SometimesUsed: map[string]string{"patch /events": "the recorder increments the count of a repeated event"},
	NeverUsed: map[string]string{
		"get */*/scale":                "it is read of owners of kinds that Berth does not watch",
		"list /services":               ofProfiles,
		"list /replicationcontrollers": ofProfiles,
	},
}

const ofProfiles = "PodTopologySpread reads them where the scheduler's profile spreads by hard constraints of its own"

// The rights that no other test of the package uses.
func TestRightsThatTakeAnOccasion(t *testing.T) {
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	w.ReadMetricsAsSomebody(c.URL)
	w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	w.Create(builders.ResourceLimit("size")) // it is given a finalizer and a status
	young := w.Slots(w.Live("web"))[replicas-1]
	testenv.Patch(w, young, func(p *corev1.Pod) { p.Annotations[v1alpha1.SlotAnnotation] = "0" })
	w.Eventually("the finalizer and the annotation are written", func() (bool, string) {
		used, _ := w.RightsUsedBy(cluster.BerthControllerUser)
		return used["patch berth.dev/resourcelimits"] && used["patch berth.dev/resourcelimits/status"] && used["patch /pods"], ""
	})
}
