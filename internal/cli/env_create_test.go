// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

func TestStacksAreShown(t *testing.T) {
	for name, output := range map[string]string{"env-stacks.txt": "table", "env-stacks-wide.txt": asWide, "env-stacks.yaml": asYAML, "env-stacks.names": asName} {
		o, out, _ := screen(output)
		require.NoError(t, o.showStacks(stacksOf(render.Stacks())))
		golden(t, name, out.String())
	}
}

func TestAnEnvironmentIsPrintedWithoutACluster(t *testing.T) {
	out, err := run(t, "env", "create", "store", "--stack", "postgres", "--display-name", "The Store", "--dry-run=client", "-o", "yaml", "-n", "shop")
	require.NoError(t, err)
	golden(t, "env-create.yaml", out)
	env := &v1alpha1.Environment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(out), env))
	assert.Empty(t, render.Validate(&env.Spec))
	out, err = run(t, "env", "create", "store", "--stack", "postgres", "--dry-run=client")
	require.NoError(t, err)
	assert.Equal(t, "environment.berth.dev/store created (dry run)\n", out)
}

func TestAnEnvironmentIsMadeOnce(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{})
	for _, stack := range stackNames() {
		env, err := environmentOfStack("of-"+stack, &envCreate{stack: stack})
		require.NoError(t, err)
		env.Namespace = "shop"
		o, out, _ := screen("table")
		require.NoError(t, o.createEnvironment(t.Context(), c, env, dryRunServer))
		assert.Equal(t, "environment.berth.dev/of-"+stack+" created (server dry run)\n", out.String())
		env.ResourceVersion = ""
		require.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(env), &v1alpha1.Environment{}), "a dry run keeps nothing")
		require.NoError(t, o.createEnvironment(t.Context(), c, env, dryRunNone))
		have := &v1alpha1.Environment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(env), have))
		found, _ := render.FindStack(stack)
		assert.Equal(t, found.Stack, have.Spec.Stack)
		assert.Equal(t, "bob", have.Annotations[v1alpha1.ActorAnnotation])
		again, _ := environmentOfStack("of-"+stack, &envCreate{stack: stack})
		again.Namespace = "shop"
		require.EqualError(t, o.createEnvironment(t.Context(), c, again, dryRunNone), `there is an environment "of-`+stack+`" in namespace shop already`)
	}
}
