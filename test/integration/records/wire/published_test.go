// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/published"
)

// Each published example becomes Available as it is sent, with numbers of nodes that fill 64 bits, and is gone after its deletion.
func TestThePublishedExamples(t *testing.T) {
	s := serveWith(t, []string{"manifests/rbac/records", "manifests/templates"}, func(c *controller.Configuration) {
		c.Controllers, c.Records.Profile = []string{"*", controller.ControllerRecords}, "full"
	})
	s.AddNodes(append(cluster.Nodes("spot", 3), cluster.Nodes("on-demand", 3)...)...)
	s.RunScheduler(s.Variant(testenv.SecondScheduler))
	units := published.Units(t)
	require.Len(t, units, 8)
	for _, u := range units {
		require.NoError(t, s.deploy(u), u.GetClassKey())
	}
	for _, u := range units {
		s.Eventually(u.GetPackageName()+"."+u.GetClassKey()+" is available", func() (bool, string) {
			r, err := s.status(u.GetId())
			require.NoError(t, err)
			return r.GetMessage() == "Available", r.GetMessage()
		})
		s.requireRendered(u)
	}
	for _, u := range units {
		require.NoError(t, servicetest.Err(s.remove(u.GetId())))
	}
	for _, u := range units {
		s.WaitCode(u.GetClassKey()+" is gone", codes.NotFound, func() error { return servicetest.Err(s.status(u.GetId())) })
	}
	assert.Empty(t, s.Names(&appsv1.DeploymentList{}))
}

// requireRendered demands what the published images read: functions listen where the unit configures it, and the ODGM has its number and
// has where each method is called.
func (s *scene) requireRendered(u *oaashead.DeploymentUnit) {
	s.T.Helper()
	var list appsv1.DeploymentList
	name, err := render.RecordName(u.GetId())
	require.NoError(s.T, err)
	require.NoError(s.T, s.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{"oaas.io/owner": name}))
	ports := map[string]int32{}
	env := map[string]string{}
	for i := range list.Items {
		c := &list.Items[i].Spec.Template.Spec.Containers[0]
		if strings.Contains(list.Items[i].Name, "-odgm") {
			for _, v := range c.Env {
				env[v.Name] = v.Value
			}
			continue
		}
		ports[c.Image] = c.Ports[0].ContainerPort
	}
	assert.Equal(s.T, strconv.FormatUint(u.GetOdgmConfig().GetOdgmNodeId(), 10), env["ODGM_NODE_ID"])
	want := map[string]int32{}
	for _, f := range u.GetFunctions() {
		switch p := f.GetProvisionConfig(); {
		case p.GetWasmModuleUrl() != "":
			assert.Contains(s.T, env["ODGM_COLLECTION"], p.GetWasmModuleUrl())
		case f.GetConfig()["HTTP_PORT"] == "8080":
			want[p.GetContainerImage()] = 8080
		default:
			want[p.GetContainerImage()] = 80
		}
	}
	assert.Equal(s.T, want, ports)
	assert.Equal(s.T, u.GetOdgmConfig().GetLog(), env["ODGM_LOG"])
}
