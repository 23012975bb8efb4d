// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/orphans"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/clitest"
)

func TestADryRunChangesNoEnvironment(t *testing.T) {
	for dryRun, text := range map[string]string{command.DryRunClient: " (dry run)", command.DryRunServer: " (server dry run)"} {
		c := envCluster(t, interceptor.Funcs{}, store())
		before := reread(t, c)
		o, out, _ := clitest.Screen("table")
		stop := &runFlags{dryRun: dryRun, waitFlags: waitFlags{wait: true}}
		require.NoError(t, runEnvironment(t.Context(), o, c, before, stop, "stopping", func(e *v1alpha1.Environment, _ *runFlags) error {
			return render.Stop(e, false)
		}), "it does not wait for what does not happen")
		scale := &scaleFlags{dryRun: dryRun, waitFlags: waitFlags{wait: true}}
		require.NoError(t, scaleEnvironment(t.Context(), o, c, before, []change.Replicas{{Component: "backend", Replicas: 5}}, scale))
		assert.Equal(t, "environment.berth.dev/store-1a2b stopping"+text+"\nenvironment.berth.dev/store-1a2b backend scaled from 3 to 5"+text+"\n",
			out.String())
		assert.Equal(t, before.Spec, reread(t, c).Spec)
		assert.Equal(t, before.ResourceVersion, reread(t, c).ResourceVersion)
	}
}

func TestADryRunDeletesNoOrphan(t *testing.T) {
	asked := 0
	c := envCluster(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
		o := &client.DeleteOptions{}
		o.ApplyOptions(opts)
		assert.Equal(t, []string{"All"}, o.DryRun)
		asked++
		return nil
	}})
	orphan := &orphans.Orphan{Kind: "Namespace", APIVersion: "v1", Name: "env-gone", Environment: "shop/gone", State: orphans.Unused}
	for dryRun, text := range map[string]string{command.DryRunClient: "deleted (dry run)", command.DryRunServer: "deleted (server dry run)"} {
		outcome, err := deleteOrphan(t.Context(), c, orphan, &orphansFlags{remove: true, dryRun: dryRun})
		require.NoError(t, err)
		assert.Equal(t, text, outcome)
	}
	assert.Equal(t, 1, asked, "only by the dry run of the server")
}
