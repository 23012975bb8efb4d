// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const driver = "devices.example.com"

// publish publishes devices of nodes, as their driver does.
func publish(w *testenv.World, devices int, nodes ...cluster.NodeSpec) {
	w.T.Helper()
	for _, n := range nodes {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: new(n.Name), Pool: resourcev1.ResourcePool{Name: n.Name, ResourceSliceCount: 1},
		}}
		for i := range devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
		}
		w.CreateForTest(slice)
	}
}

// claiming gives a template's pods a claim of their own for one device.
func claiming(t *corev1.PodTemplateSpec) {
	t.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: new("device")}}
	t.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
}

// The scheduler writes the claims before it binds the pods, and nominates them meanwhile: then a status patch of each pod comes
// before its Binding, which has the slot.
func TestReplicasWithResourceClaimsAreExact(t *testing.T) {
	for name, args := range map[string][]string{
		"calls in order":     nil,
		"asynchronous calls": {"--feature-gates=SchedulerAsyncAPICalls=true"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := append(cluster.Nodes("spot", 3), cluster.Nodes("on-demand", 3)...)
			w := newWorld(t, args, nodes...)
			publish(w, 4, nodes...)
			class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.DeviceClassSpec{
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
			}}
			w.CreateForTest(class)
			template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "device"}}
			template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
				Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver},
			}}
			w.Create(template)

			seen := w.Record("web")
			w.Create(builders.CapacityMix("web", 60, 2), builders.Deployment("web", 16, claiming))
			pods := w.RequireExact("web", split.New(60, 2), 16)
			nominated := seen.Nominated("web")
			for i := range pods {
				p := &pods[i]
				require.Len(t, p.Status.ResourceClaimStatuses, 1)
				c := testenv.Read(w, *p.Status.ResourceClaimStatuses[0].ResourceClaimName, &resourcev1.ResourceClaim{})
				require.NotNil(t, c.Status.Allocation, p.Name)
				assert.Equal(t, p.Spec.NodeName, c.Status.Allocation.Devices.Results[0].Pool, "the device is on the node of %s", p.Name)
				if n, ok := nominated[p.Name]; ok {
					assert.Equal(t, p.Spec.NodeName, n.Pod.Status.NominatedNodeName, p.Name)
				}
				assert.Empty(t, p.Status.NominatedNodeName, "the API server clears it in the transaction that binds %s", p.Name)
			}
			assert.NotEmpty(t, nominated, "the scheduler names the node while it writes the claims")
		})
	}
}
