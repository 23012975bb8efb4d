// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The workloads that move: "web" has five replicas, "one" has one. A change of the mix moves all of them, so nine changes are 54 moves.
const (
	movedReplicas = 5
	mixChanges    = 9
)

// moveStrategies are compared in the page of rebalancing.
var moveStrategies = []v1alpha1.RebalanceStrategy{v1alpha1.RebalanceStrategySurge, v1alpha1.RebalanceStrategyEvict}

// serving has a container serve for as long as proxies may send it requests after its end began, and run on every node of the cluster.
func serving(t *corev1.PodTemplateSpec) {
	t.Spec.TerminationGracePeriodSeconds = new(int64(10))
	t.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}
	t.Spec.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
}

// clients are pods that send requests to a Service: the sum of answers and failures is the last line of what they write.
type clients struct {
	w     *testenv.World
	names []string
}

// startClients starts clients that send 50 requests a second each, and waits for their first answers.
func startClients(w *testenv.World, app string, n int) *clients {
	w.T.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}}
	service.Spec.Selector = builders.Labels(app)
	service.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	w.Create(service)
	c := &clients{w: w}
	for i := range n {
		pod := builders.Pod("load", fmt.Sprintf("load-%s-%d", app, i), func(t *corev1.PodTemplateSpec) {
			t.Spec.TerminationGracePeriodSeconds = new(int64(30))
			t.Spec.Containers[0].Args = []string{"-load", "http://" + service.Spec.ClusterIP} // names would cost more than the requests
		})
		w.Create(pod)
		c.names = append(c.names, pod.Name)
	}
	for _, name := range c.names {
		w.Within(startTimeout, name+" is answered", func() (bool, string) {
			out, err := w.TryTool("kubectl", "--namespace", w.Namespace, "logs", name)
			return err == nil && strings.Contains(string(out), "answered\n"), fmt.Sprint(string(out), err)
		})
	}
	return c
}

// end ends the clients and returns their sums.
func (c *clients) end() (answered, failed int) {
	c.w.T.Helper()
	sums := make(chan string)
	for _, name := range c.names {
		go func() {
			out, err := c.w.TryTool("kubectl", "--namespace", c.w.Namespace, "logs", "--follow", "--tail=1", name)
			if err != nil {
				out = []byte(err.Error())
			}
			sums <- string(out)
		}()
	}
	c.w.Tool("kubectl", append([]string{"--namespace", c.w.Namespace, "delete", "pod", "--wait=false"}, c.names...)...)
	for range c.names {
		lines := strings.Split(strings.TrimSpace(<-sums), "\n")
		var yes, no int
		_, err := fmt.Sscanf(lines[len(lines)-1], "%d answered, %d failed", &yes, &no)
		require.NoError(c.w.T, err, "%v", lines)
		answered, failed = answered+yes, failed+no
	}
	return answered, failed
}

// nodesWithReplicas are the nodes on which replicas of the workloads run.
func nodesWithReplicas(w *testenv.World) map[string]int {
	w.T.Helper()
	return testenv.NodesOf(append(w.Live("web"), w.Live("one")...))
}

// drainNode empties a node of its replicas, with the command that fits the strategy, and gives it back.
func drainNode(w *testenv.World, node string, strategy v1alpha1.RebalanceStrategy) {
	w.T.Helper()
	if strategy == v1alpha1.RebalanceStrategyEvict {
		w.Tool("kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", "--pod-selector=app in (web,one)")
		w.Tool("kubectl", "uncordon", node)
		return
	}
	berth(w, "drain", node, "--timeout=2m")
	assert.Zero(w.T, nodesWithReplicas(w)[node], "replicas on %s after its drain", node)
	berth(w, "drain", node, "--undo")
}

// setSpot changes the mix of a workload.
func setSpot(w *testenv.World, app string, percent int32) {
	w.T.Helper()
	m := builders.CapacityMix(app, 0, 0)
	m.Namespace = w.Namespace
	testenv.Patch(w, m, func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = percent })
}

// moveEverything has all replicas change their type again and again, then drains each node.
func moveEverything(w *testenv.World, strategy v1alpha1.RebalanceStrategy) {
	w.T.Helper()
	settled := func(percent int32) {
		w.Within(startTimeout, fmt.Sprintf("all replicas run at %d %% spot, and no other pod does", percent), func() (bool, string) {
			ok, text := true, ""
			for app, n := range map[string]int{"web": movedReplicas, "one": 1} {
				pods := w.Live(app)
				s := w.SplitOf(pods)
				text += fmt.Sprintf("%s: %s; ", app, s)
				ok = ok && s == testenv.SplitBy(split.New(percent, 0), n) && len(testenv.Where(pods, testenv.Ready)) == n
			}
			return ok, text
		})
	}
	percent := int32(0)
	for range mixChanges {
		percent = 100 - percent
		for _, app := range []string{"web", "one"} {
			setSpot(w, app, percent)
		}
		settled(percent)
	}
	for _, at := range []int32{100, 0} {
		for _, app := range []string{"web", "one"} {
			setSpot(w, app, at)
		}
		settled(at)
		for _, node := range nodesOf(w, map[int32]string{100: v1alpha1.CapacityTypeSpot, 0: v1alpha1.CapacityTypeOnDemand}[at]) {
			drainNode(w, node, strategy)
			settled(at)
		}
	}
}

// Replicas move fifty times and each node is drained, while clients send 200 requests a second to the Service of one workload and 50 to that
// of another. With Surge no request fails; with Evict the only replica of a workload is missed.
func TestMovesAndDrainsFailNoRequest(t *testing.T) {
	for _, strategy := range moveStrategies {
		t.Run(string(strategy), func(t *testing.T) {
			w := testenv.New(t)
			rebalance := []func(*v1alpha1.CapacityMix){builders.RebalanceStrategy(strategy), builders.MaxConcurrent(2)}
			w.Create(
				builders.CapacityMix("web", 0, 0, rebalance...), builders.Deployment("web", movedReplicas, probed, serving),
				builders.CapacityMix("one", 0, 0, rebalance...), builders.Deployment("one", 1, probed, serving),
			)
			w.WaitReady("web", movedReplicas)
			w.WaitReady("one", 1)
			load := map[string]*clients{"web": startClients(w, "web", 4), "one": startClients(w, "one", 1)}
			recordings := map[string]*testenv.Recording{"web": w.Record("web"), "one": w.Record("one")}
			began := time.Now()
			moveEverything(w, strategy)
			took := time.Since(began).Round(time.Second)
			for app, n := range map[string]int{"web": movedReplicas, "one": 1} {
				moved := len(recordings[app].Created(app)) - n
				_, fewest := recordings[app].FewestReady(capacity.Spot, n)
				answered, failed := load[app].end()
				t.Logf("%s, %d replicas, %s: %d moved in %s, fewest Ready %d; %d requests answered, %d failed", strategy, n, app, moved, took, fewest, answered, failed)
				assert.GreaterOrEqual(t, moved, mixChanges*n, "moves")
				if strategy == v1alpha1.RebalanceStrategySurge {
					assert.Zero(t, failed, "failed requests")
					assert.Equal(t, n, fewest, "fewest Ready replicas at any instant")
				} else if n == 1 {
					assert.Positive(t, failed, "the clients see what is missing")
				}
			}
		})
	}
}
