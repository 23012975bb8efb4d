// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/clitest"
)

func TestStacksAreShown(t *testing.T) {
	clitest.Goldens(t, "", map[string]string{
		"stacks.txt": printers.Text, "stacks-wide.txt": printers.Wide, "stacks.yaml": printers.YAML, "stacks.names": printers.Name,
	}, func(o *command.Options) error { return showStacks(o, stacksOf(render.Stacks())) })
}

func TestAnEnvironmentIsCreatedOnce(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{})
	for _, stack := range stackNames() {
		env, err := environmentOfStack("of-"+stack, &createFlags{stack: stack})
		require.NoError(t, err)
		env.Namespace = "shop"
		o, out, _ := clitest.Screen("table")
		require.NoError(t, createEnvironment(t.Context(), o, c, env, command.DryRunServer))
		assert.Equal(t, "environment.berth.dev/of-"+stack+" created (server dry run)\n", out.String())
		env.ResourceVersion = ""
		require.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(env), &v1alpha1.Environment{}), "a dry run keeps nothing")
		require.NoError(t, createEnvironment(t.Context(), o, c, env, command.DryRunNone))
		have := &v1alpha1.Environment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(env), have))
		found, _ := render.FindStack(stack)
		assert.Equal(t, found.Stack, have.Spec.Stack)
		assert.Equal(t, "bob", have.Annotations[v1alpha1.ActorAnnotation])
		again, _ := environmentOfStack("of-"+stack, &createFlags{stack: stack})
		again.Namespace = "shop"
		require.EqualError(t, createEnvironment(t.Context(), o, c, again, command.DryRunNone), `environment "of-`+stack+`" already exists in namespace shop`)
	}
}
