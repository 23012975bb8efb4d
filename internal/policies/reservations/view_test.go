// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func list(cpu, memory, storage, gpus string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, q := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: storage, gpu: gpus,
	} {
		if q != "" {
			l[name] = resource.MustParse(q)
		}
	}
	return l
}

// node has 8 CPUs, 8 Gi of memory and storage, 8 GPUs and room for some pods, one of which runs and requests one of each.
func node(name, pods string) fwk.NodeInfo { return nodeOf(name, pods, list("1", "1Gi", "1Gi", "1")) }

// sized is such a node, whose pod requests CPUs.
func sized(name, cpu string) fwk.NodeInfo { return nodeOf(name, "110", list(cpu, "", "", "")) }

func nodeOf(name, pods string, requests corev1.ResourceList) fwk.NodeInfo {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = list("8", "8Gi", "8Gi", "8")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(pods)
	p := &corev1.Pod{}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	info := framework.NewNodeInfo(p)
	info.SetNode(n)
	return info
}

// On each node with capacity for 8 and one pod, a Reservation holds 2, another one 1, of each resource.
func TestLacking(t *testing.T) {
	of := func(n int64) func(*v1alpha1.ReservationSpec) {
		return func(s *v1alpha1.ReservationSpec) {
			s.CPU, s.Memory = resource.NewQuantity(n, resource.DecimalSI), resource.NewQuantity(n<<30, resource.BinarySI)
			s.EphemeralStorage, s.ExtendedResources = s.Memory, map[string]int64{string(gpu): n}
		}
	}
	own, other := reservation("own", of(2)), reservation("other", of(1))
	l := leader(own, other)
	l.hold("own", began, "n1", "n2")
	l.hold("other", began, "n1")
	r := l.named("own").r
	for name, tc := range map[string]struct {
		node     string
		pods     string
		requests corev1.ResourceList
		own      *Reservation
		want     corev1.ResourceName
	}{
		"what is free":                                       {requests: list("4", "4Gi", "4Gi", "4")},
		"cpu":                                                {requests: list("4001m", "", "", ""), want: corev1.ResourceCPU},
		"memory":                                             {requests: list("", "4097Mi", "", ""), want: corev1.ResourceMemory},
		"storage":                                            {requests: list("", "", "4097Mi", ""), want: corev1.ResourceEphemeralStorage},
		"an extended resource":                               {requests: list("", "", "", "5"), want: gpu},
		"what is free and its own":                           {requests: list("6", "6Gi", "6Gi", "6"), own: r},
		"cpu beyond its own":                                 {requests: list("6001m", "", "", ""), own: r, want: corev1.ResourceCPU},
		"memory beyond its own":                              {requests: list("", "6145Mi", "", ""), own: r, want: corev1.ResourceMemory},
		"storage beyond its own":                             {requests: list("", "", "6145Mi", ""), own: r, want: corev1.ResourceEphemeralStorage},
		"an extended resource beyond its own":                {requests: list("", "", "", "7"), own: r, want: gpu},
		"a resource of which nothing is held":                {requests: corev1.ResourceList{"example.com/x": resource.MustParse("1")}, want: "example.com/x"},
		"places for pods are held too":                       {pods: "3", requests: list("1", "", "", ""), want: corev1.ResourcePods},
		"the last place for a pod":                           {pods: "4", requests: list("1", "", "", "")},
		"its own place for a pod":                            {pods: "3", requests: list("1", "", "", ""), own: r},
		"no place for a pod, with its own":                   {pods: "2", requests: list("1", "", "", ""), own: r, want: corev1.ResourcePods},
		"a pod that requests nothing needs a place":          {pods: "3", want: corev1.ResourcePods},
		"a pod that requests nothing lacks nothing":          {},
		"a node where nothing is held is left to others":     {node: "n3", pods: "1", requests: list("100", "", "", "")},
		"on another node only what is held there counts":     {node: "n2", requests: list("5", "5Gi", "5Gi", "5")},
		"on another node what is held there is out of reach": {node: "n2", requests: list("5001m", "", "", ""), want: corev1.ResourceCPU},
	} {
		t.Run(name, func(t *testing.T) {
			n, pods := tc.node, tc.pods
			if n == "" {
				n = "n1"
			}
			if pods == "" {
				pods = "110"
			}
			held := l.View(began).nodes[n]
			if held == nil {
				assert.Empty(t, tc.want)
				return
			}
			assert.Equal(t, tc.want, held.lacking(node(n, pods), new(AmountsOf(tc.requests)), tc.own))
		})
	}
}

func TestAViewIsImmutable(t *testing.T) {
	l := leader(reservation("r"))
	before := l.View(began)
	l.hold("r", began, "n1")
	assert.True(t, before.Empty())
	assert.False(t, l.View(began).Empty())
	assert.Same(t, l.View(began), l.View(began), "it is determined once")
}
