// SPDX-License-Identifier: Apache-2.0

// Package features_test is about what Kubernetes 1.35 to 1.37 added to pods and nodes, with all feature gates as they are by default:
// nominations by others, resources that change in place, devices. docs/compatibility.md has the list.
package features_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// resize changes in place what a pod requests of CPU, as a user or an autoscaler of pods does.
func resize(w *testenv.World, pod, cpu string) {
	w.T.Helper()
	p := testenv.Read(w, pod, &corev1.Pod{})
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	_, err := w.Kube.CoreV1().Pods(w.Namespace).UpdateResize(w.Ctx, pod, p, metav1.UpdateOptions{})
	require.NoError(w.T, err, "resize pod %s to %s", pod, cpu)
}

// report writes what a running pod has, as its kubelet does once a resize is done. KWOK reports no resources, and without them the API
// server refuses to resize the pod.
func report(w *testenv.World, pod string) {
	w.T.Helper()
	p := testenv.WaitFor(w, pod, "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	before, has := p.DeepCopy(), p.Spec.Containers[0].Resources
	p.Status.ContainerStatuses[0].AllocatedResources, p.Status.ContainerStatuses[0].Resources = has.Requests, &has
	require.NoError(w.T, w.Client.Status().Patch(w.Ctx, p, client.MergeFrom(before)), "report the resources of pod %s", pod)
}
