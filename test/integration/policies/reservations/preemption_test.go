// SPDX-License-Identifier: Apache-2.0

package reservations_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// important makes a priority class for a test, and has pods use it.
func important(w *testenv.World) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Value: 1000}
	w.CreateForTest(class)
	with := builders.PriorityClass(class.Name)
	w.Succeeds("the API server has the class", func() error { // which reads classes from a watch
		probe := builders.Pod("probe", "probe", with)
		probe.Namespace = w.Namespace
		return w.Client.Create(w.Ctx, probe, client.DryRunAll)
	})
	return with
}

// A pod that may not use what is held evicts none of the pods that use it: it would have no place after it either.
func TestAnOutsiderEvictsNoPodThatUsesHeldCapacity(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(builders.Reservation("often", "web", "3", repeatedly, replicas(2)))
	waitFor(w, "often", v1alpha1.ReasonReserved, 2, 0)
	w.Create(builders.Deployment("web", 2, builders.CPU("3")))
	w.WaitBound("web", 2)
	waitFor(w, "often", v1alpha1.ReasonReserved, 0, 2)
	before := uids(w, "web")

	outsider := builders.Pod("outsider", "outsider", builders.CPU("2"), important(w))
	w.Create(outsider)
	w.Eventually("it is tried", func() (bool, string) {
		why := testenv.Unschedulable(testenv.Read(w, outsider.Name, &corev1.Pod{}))
		return why != "", why
	})
	w.Always(3*testenv.Short, "no pod is evicted", func() (bool, string) {
		now := uids(w, "web")
		return assert.ObjectsAreEqual(before, now), fmt.Sprintf("before %v, now %v", before, now)
	})

	// A pod that fits beside the capacity evicts what runs beside it.
	w.Create(builders.Deployment("beside", 2, builders.CPU("1")))
	w.WaitBound("beside", 2)
	w.Create(builders.Pod("small", "small", builders.CPU("1"), builders.PriorityClass(w.Namespace)))
	w.WaitBound("small", 1)
	assert.Equal(t, before, uids(w, "web"))
}

// uids are the pods of an app by name.
func uids(w *testenv.World, app string) map[string]string {
	all := map[string]string{}
	for _, p := range w.Live(app) {
		all[p.Name] = string(p.UID)
	}
	return all
}
