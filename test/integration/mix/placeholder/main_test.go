// SPDX-License-Identifier: Apache-2.0

// Package placeholder_test lets a real controller request nodes by placeholder
// pods, and plays the autoscaler that launches them, or does not.
package placeholder_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// holds is how long something that must not happen is watched for.
	holds = 4 * time.Second
)

// half is the mix of the tests: of four replicas, slots 0 and 2 are on-demand.
var half = split.New(50, 1)

// placeholders makes a mix request capacity, and lets replicas borrow spot, which is
// how they come to be on the wrong type.
func placeholders(m *v1alpha1.CapacityMix) {
	builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableSpot)(m)
	builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })(m)
}

// strayed makes a world without an on-demand node, and a workload of four that
// is on spot as a whole.
func strayed(t *testing.T, changes ...func(*v1alpha1.CapacityMix)) *testenv.World {
	t.Helper()
	return strayedAs(t, func(*corev1.PodTemplateSpec) {}, changes...)
}

// strayedAs is strayed with a change of the pods.
func strayedAs(t *testing.T, template func(*corev1.PodTemplateSpec), changes ...func(*v1alpha1.CapacityMix)) *testenv.World {
	t.Helper()
	w := testenv.New(t, cluster.Nodes(spot, 2)...)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.CapacityMix("web", 50, 1, append([]func(*v1alpha1.CapacityMix){placeholders}, changes...)...), builders.Deployment("web", 4, template))
	w.WaitReady("web", 4)
	return w
}

// launch adds an on-demand node with capacity for one replica, as an autoscaler does.
func launch(w *testenv.World, name string) {
	w.T.Helper()
	w.AddNodes(cluster.NodeSpec{Name: name, CapacityType: onDemand, CPU: "150m"})
}

// holders returns the placeholders of the test, oldest first.
func holders(w *testenv.World) []corev1.Pod {
	w.T.Helper()
	list := w.Pods(client.HasLabels{v1alpha1.PlaceholderLabel})
	slices.SortFunc(list, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list
}

// waitHolders waits until there are n placeholders.
func waitHolders(w *testenv.World, n int) []corev1.Pod {
	w.T.Helper()
	var list []corev1.Pod
	testenv.Becomes(w, "placeholders", n, func() int { list = holders(w); return len(list) })
	return list
}

func names(pods []corev1.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name+" "+string(p.Status.Phase))
	}
	return strings.Join(list, ", ")
}

// asked returns the controller's requests of a verb for pods that succeeded.
func asked(w *testenv.World, verb, resource string) []testenv.Request {
	w.T.Helper()
	return w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthControllerUser && r.Verb == verb && r.Resource == resource && r.OK() && !r.DryRun
	})
}

// assertUntouched demands that nothing was evicted and every replica is the same.
func assertUntouched(w *testenv.World, before []corev1.Pod) {
	w.T.Helper()
	assert.Empty(w.T, w.Evictions())
	now := w.UIDs()
	for _, p := range before {
		assert.Contains(w.T, now, p.UID, "pod %s is still the same", p.Name)
	}
}

// waitProvisioning waits until the status of the mix reports that capacity is requested.
func waitProvisioning(w *testenv.World, mix string) {
	w.T.Helper()
	w.WaitStatus(mix, "capacity is requested", func(s *v1alpha1.CapacityMixStatus) bool {
		return testenv.Condition(s, v1alpha1.ConditionRebalancing, true, v1alpha1.ReasonProvisioning) && s.Workloads[0].Blocked == nil
	})
}
