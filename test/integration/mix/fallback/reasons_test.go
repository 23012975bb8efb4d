// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAPodRejectedForItsTypeReportsIt(t *testing.T) {
	// One workload is short of CPU on on-demand, the other of memory on spot.
	w := testenv.New(t, append(
		cluster.Nodes(onDemand, 4, func(n *cluster.NodeSpec) { n.CPU = "1500m" }),
		cluster.Nodes(spot, 6, func(n *cluster.NodeSpec) { n.Memory = "1500Mi" })...)...)
	w.Fill("on-demand-3", 1)
	memory := func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Requests = builders.Requests("10m", "1Gi")
	}
	w.Create(builders.CapacityMix("cpu", 0, 0, onDemandOrWait), builders.Deployment("cpu", 4, oneCPU))
	w.Create(builders.CapacityMix("memory", 100, 0, spotOrWait), builders.Deployment("memory", 7, memory))
	for app, reason := range map[string]string{
		"cpu":    "0/10 nodes are available: 4 Insufficient cpu, 6 node(s) are spot, slot 3 needs on-demand.",
		"memory": "0/10 nodes are available: 4 node(s) are on-demand, slot 6 needs spot, 6 Insufficient memory.",
	} {
		requireReason(w, &w.WaitUnschedulable(app, 1)[0], reason)
	}
}

// requireReason demands that a pod's condition begins with a text and that an
// event on it has the same text. The first attempt may be one during which the mixes of other workloads are created.
func requireReason(w *testenv.World, pod *corev1.Pod, want string) {
	w.T.Helper()
	w.Eventually("the condition of "+pod.Name+" begins with "+want, func() (bool, string) {
		has := testenv.Unschedulable(testenv.Read(w, pod.Name, &corev1.Pod{}))
		return strings.HasPrefix(has, want), has
	})
	w.WaitEvent(pod.Name, "it waits: "+want, func(e *corev1.Event) bool {
		return e.Reason == "FailedScheduling" && e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.Message, want)
	})
}

// A node of unknown type satisfies nothing, and a departing one takes no pods: neither a pod on its
// own type nor one that borrows, whatever it tolerates.
func TestNodesOfUnknownTypeAndDepartingNodesTakeNoPodOfAMix(t *testing.T) {
	// A lifecycle label with an unknown value leaves the type unknown.
	strange := func(n *cluster.NodeSpec) { n.Labels = map[string]string{"lifecycle": "blue"} }
	w := testenv.New(t,
		node("unknown-0", "", "16"), node("unknown-1", "", "16", strange),
		node("spot-departing", spot, "16", tainted("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule)),
		node("on-demand-departing", onDemand, "16", tainted(departingTaint, corev1.TaintEffectNoSchedule)),
	)
	seen := w.RecordAll()
	apps := map[string]struct {
		percent int32
		mix     changes
	}{
		"spot-waits":         {100, changes{spotOrWait}},
		"spot-borrows":       {100, changes{spotThenOnDemand}},
		"on-demand-waits":    {0, changes{onDemandOrWait}},
		"on-demand-borrows":  {0, changes{onDemandThenSpot}},
		"half-and-half-does": {50, changes{spotThenOnDemand, onDemandThenSpot}},
	}
	for app, a := range apps {
		w.Create(builders.CapacityMix(app, a.percent, 0, a.mix...), builders.Deployment(app, 2, oneCPU, builders.TolerateAll))
	}
	for app := range apps {
		for _, p := range w.WaitUnschedulable(app, 2) {
			requireReason(w, &p, "0/4 nodes are available: 2 node(s) are departing, 2 node(s) have no known capacity type.")
		}
	}
	w.Always(stays, "no pod of a mix is bound", func() (bool, string) {
		for app := range apps {
			if n := len(seen.Bound(app)); n > 0 {
				return false, fmt.Sprintf("%d of %s", n, app)
			}
		}
		return true, ""
	})

	// It is the type that keeps them away: the same pods without a mix run there.
	for _, name := range []string{"unknown-0", "unknown-1", "spot-departing", "on-demand-departing"} {
		w.Create(builders.Pod("free", "on-"+name, builders.TolerateAll, builders.OnNode(name)))
	}
	w.WaitBound("free", 4)

	// One node of a known type is enough for all whose slot it is or who may borrow.
	w.AddNodes(node("spot-0", spot, "16"))
	for app := range apps {
		if app == "on-demand-waits" {
			continue
		}
		for _, s := range seen.WaitBound(app, 2, wakeBound) {
			assert.Equal(t, "spot-0", s.Pod.Spec.NodeName, app)
		}
	}
	w.Eventually("the reason follows the nodes", func() (bool, string) {
		var saw []string
		for _, p := range w.WaitUnschedulable("on-demand-waits", 2) {
			saw = append(saw, testenv.Unschedulable(&p))
		}
		all := strings.Join(saw, "\n")
		return strings.Contains(all, "0/5 nodes are available: 1 node(s) are spot, slot 0 needs on-demand, 2 node(s) are departing, 2 node(s) have no known capacity type.") &&
			strings.Contains(all, "1 node(s) are spot, slot 1 needs on-demand, 2 node(s)"), all
	})
}
