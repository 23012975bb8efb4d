// SPDX-License-Identifier: Apache-2.0

// Package scheduling_test proves, on a real control plane and without the webhook,
// that the scheduler holds pods to their ResourceLimits.
package scheduling_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestPodsRunOnlyOnMatchingNodes",
		"TestAPodWithoutAMatchingNodeNamesItsLimit",
		"TestAChangedLimitAppliesToNewPodsOnly",
		"TestAPodAboveItsSizeWaitsAndReportsBothFigures",
		"TestAMixAndALimitBothHoldAtEverySize",
	}, NoScheduler: true}))
}

// wakeBound is what is promised from the moment a pod can be placed to its binding.
const wakeBound = 2 * time.Second

const pool = "example.com/pool"

// start starts the second scheduler as it is shipped, with arguments changed.
func start(w *testenv.World, args map[string]any) *cluster.Scheduler {
	w.T.Helper()
	return w.RunScheduler(w.Variant(testenv.SecondScheduler, testenv.PluginArgs("ResourceLimit", args)))
}

// node is a node of a pool in a zone.
func node(name, ofPool, zone string, changes ...func(*cluster.NodeSpec)) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: name, Zone: zone, Labels: map[string]string{pool: ofPool}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// four are nodes of two pools in two zones.
func four() []cluster.NodeSpec {
	return []cluster.NodeSpec{
		node("batch-a", "batch", "zone-a"), node("batch-b", "batch", "zone-b"), node("web-a", "web", "zone-a"), node("web-b", "web", "zone-b"),
	}
}

// waitReason waits until an app's pods, which are n, wait for a reason that
// begins so, by their condition and by an event.
func waitReason(w *testenv.World, app string, n int, reason string) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(app+" waits: "+reason, func() (bool, string) {
		pods = w.WaitUnschedulable(app, n)
		for i := range pods {
			if said := testenv.Unschedulable(&pods[i]); !strings.HasPrefix(said, reason) {
				return false, said
			}
		}
		return true, ""
	})
	for i := range pods {
		w.WaitEvent(pods[i].Name, "it waits", func(e *corev1.Event) bool {
			return e.Reason == "FailedScheduling" && e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.Message, reason)
		})
	}
	return pods
}

// staysPending demands that an app's pods, which are n, are not bound for a while.
func staysPending(w *testenv.World, app string, n int) {
	w.T.Helper()
	w.StaysSplit(testenv.Short, app, "it is not bound", testenv.Split{Pending: n})
}

// requireWoken demands that an app's pods, which are n, are bound in time.
func requireWoken(w *testenv.World, app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Within(wakeBound, app+" is bound", func() (bool, string) {
		pods = w.Live(app)
		s := w.SplitOf(pods)
		return len(pods) == n && s.Pending == 0, fmt.Sprint(len(pods), " ", s)
	})
	return pods
}

// change changes a limit.
func change(w *testenv.World, l *v1alpha1.ResourceLimit, changes ...func(*v1alpha1.ResourceLimitSpec)) {
	w.T.Helper()
	require.Equal(w.T, w.Namespace, l.Namespace)
	testenv.Patch(w, l, func(l *v1alpha1.ResourceLimit) {
		for _, change := range changes {
			change(&l.Spec)
		}
	})
}
