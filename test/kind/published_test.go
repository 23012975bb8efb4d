// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"cmp"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/published"
)

// The published examples run on real nodes as they are sent by a client without a token. Their images are not there: the image of
// hack/kind replaces them under each name. It listens where published images do.
func TestThePublishedExamplesRun(t *testing.T) {
	w := testenv.New(t)
	units := published.Units(t)
	standIn(w, units)
	// The chart installs the templates with its second release. If they stayed, it would not take them over.
	if len(w.Names(&v1alpha1.DeploymentTemplateList{}, client.InNamespace(berthNamespace))) == 0 {
		w.Tool("kubectl", "apply", "-k", "manifests/templates")
		t.Cleanup(func() { w.Tool("kubectl", "delete", "-k", "manifests/templates") })
	}
	c := oaashead.NewDeploymentServiceClient(wire.Conn{ClientConnInterface: proxied(w,
		builders.Rule(v1alpha1.GroupName, []string{"deploymentrecords"}, "create", "get", "list", "update", "patch", "delete"))})
	for _, u := range units {
		_, err := c.Deploy(w.Ctx, &oaashead.DeployRequest{DeploymentUnit: u})
		require.NoError(t, err, u.GetClassKey())
	}
	for _, u := range units {
		name := u.GetPackageName() + "." + u.GetClassKey()
		w.Within(startTimeout, name+" is available", func() (bool, string) {
			r, err := c.GetDeploymentStatus(w.Ctx, &oaashead.GetDeploymentStatusRequest{DeploymentId: u.GetId()})
			return err == nil && r.GetMessage() == "Available", r.GetMessage()
		})
	}
	records := testenv.List(w, &v1alpha1.DeploymentRecordList{}).Items
	require.Len(t, records, len(units))
	for i := range records {
		for _, f := range records[i].Status.Functions {
			if records[i].Spec.DeploymentUnit.Functions[0].WASMModuleURL != "" {
				continue // it runs in the ODGM
			}
			body, err := w.Kube.CoreV1().Services(w.Namespace).ProxyGet("http", f.Service, "80", "/", nil).DoRaw(w.Ctx)
			require.NoError(t, err, "%s of %s answers", f.FunctionKey, records[i].Name)
			assert.Contains(t, string(body), f.Service)
		}
	}
	for _, u := range units {
		_, err := c.DeleteDeployment(w.Ctx, &oaashead.DeleteDeploymentRequest{DeploymentId: u.GetId()})
		require.NoError(t, err)
	}
	for _, u := range units {
		w.Within(startTimeout, u.GetClassKey()+" is gone", func() (bool, string) {
			_, err := c.GetDeploymentStatus(w.Ctx, &oaashead.GetDeploymentStatusRequest{DeploymentId: u.GetId()})
			return status.Code(err) == codes.NotFound, status.Code(err).String()
		})
	}
}

// standIn gives the image of hack/kind the names of the images of units, on all nodes.
func standIn(w *testenv.World, units []*oaashead.DeploymentUnit) {
	w.T.Helper()
	load := []string{"load", "docker-image", "--name", cmp.Or(os.Getenv("KIND_CLUSTER"), "berth")}
	tagged := map[string]bool{}
	for _, u := range units {
		for _, f := range u.GetFunctions() {
			if image := f.GetProvisionConfig().GetContainerImage(); image != "" && !tagged[image] {
				docker(w, "tag", "example.com/app:1", image)
				load, tagged[image] = append(load, image), true
			}
		}
	}
	w.Tool("kind", load...)
}
