// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/oaashead"
)

// From a client's Deploy to the pods' workload and back, with the controller of records.
func TestADeploymentFromItsClientToTheClusterAndBack(t *testing.T) {
	s := serveWith(t, []string{"manifests/rbac/records", "manifests/templates"}, func(c *controller.Configuration) {
		c.Controllers, c.Records.Profile = []string{"*", controller.ControllerRecords}, "dev"
	})
	unit := func(image string, replicas uint32) *oaashead.DeployRequest {
		return &oaashead.DeployRequest{DeploymentUnit: &oaashead.DeploymentUnit{
			Id: "Cart@1", ClassKey: "shop.Cart", Functions: []*oaashead.FunctionDeploymentSpec{{
				FunctionKey: "add", ProvisionConfig: &oaashead.ProvisionConfig{ContainerImage: &image, MinScale: &replicas},
			}},
		}}
	}
	require.NoError(t, servicetest.Err(s.head().Deploy(s.As(s.Editor), unit("registry.example/add:1", 0))))
	get := func() *oaashead.GetDeploymentStatusResponse {
		r, err := s.head().GetDeploymentStatus(s.As(s.Editor), &oaashead.GetDeploymentStatusRequest{DeploymentId: "Cart@1"})
		require.NoError(t, err)
		return r
	}
	s.Eventually("it is available", func() (bool, string) { return get().GetMessage() == "Available", get().GetMessage() })
	var kinds []string
	for _, ref := range get().GetStatusResourceRefs() {
		kinds = append(kinds, ref.GetKind()+"/"+ref.GetName())
	}
	assert.Equal(t, []string{"Deployment/cart-1", "Service/cart-1"}, kinds)

	require.NoError(t, servicetest.Err(s.head().Deploy(s.As(s.Editor), unit("registry.example/add:2", 0))))
	s.Eventually("the change has converged", func() (bool, string) {
		d, err := s.Kube.AppsV1().Deployments(s.Namespace).Get(s.Ctx, "cart-1", metav1.GetOptions{})
		require.NoError(t, err)
		got := d.Spec.Template.Spec.Containers[0].Image
		return got == "registry.example/add:2", got
	})

	// An ODGM is requested, and the profile has none.
	asks := unit("registry.example/add:1", 0)
	asks.DeploymentUnit.Id, asks.DeploymentUnit.Functions[0].ProvisionConfig.WasmModuleUrl = "wasm", new("https://registry.example/a.wasm")
	_, err := s.head().Deploy(s.As(s.Editor), asks)
	assert.Equal(t, codes.FailedPrecondition, status.Code(err), err)

	require.NoError(t, servicetest.Err(s.remove("Cart@1")))
	s.Eventually("it is gone", func() (bool, string) {
		_, err := s.head().GetDeploymentStatus(s.As(s.Editor), &oaashead.GetDeploymentStatusRequest{DeploymentId: "Cart@1"})
		return status.Code(err) == codes.NotFound, fmt.Sprint(err)
	})
	left, err := s.Kube.AppsV1().Deployments(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}
