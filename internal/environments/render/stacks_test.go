// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
)

func TestStacks(t *testing.T) {
	var known []string
	for _, s := range Stacks() {
		known = append(known, s.Name)
		t.Run(s.Name, func(t *testing.T) {
			assert.Empty(t, validation.Spec(&v1alpha1.EnvironmentSpec{Stack: s.Stack}))
			assert.Equal(t, s.Name, s.Stack.Name)
			assert.Equal(t, s.Version, s.Stack.Version)
			assert.NotEmpty(t, s.Description)
			found, ok := FindStack(s.Name)
			require.True(t, ok)
			assert.Equal(t, s, *found)
			for _, c := range stack.Components(&s.Stack) {
				assert.NotEmpty(t, c.Container.Ports, "%s can be reached", c.Name)
				assert.NotNil(t, c.Container.Resources, "%s has requests", c.Name)
			}
			wellRendered(t, input(t, specOf(func(spec *v1alpha1.EnvironmentSpec) { spec.Stack = s.Stack })))
		})
	}
	assert.Equal(t, []string{"postgres", "web-postgres", "web-postgres-redis"}, known)
	assert.True(t, slices.IsSorted(known))
	_, ok := FindStack("nothing")
	assert.False(t, ok)
}

// A change of one copy does not change the next.
func TestStacksReturnsCopies(t *testing.T) {
	for i, s := range Stacks() {
		s.Stack.Database.Container.Image = "other"
		s.Stack.Database.Container.Ports[0].HostPort = 1
		again := Stacks()[i]
		assert.NotEqual(t, "other", again.Stack.Database.Container.Image)
		assert.Zero(t, again.Stack.Database.Container.Ports[0].HostPort)
	}
}

func TestExpand(t *testing.T) {
	postgres, _ := FindStack("postgres")
	stack := v1alpha1.ApplicationStack{Name: "postgres"}
	require.NoError(t, Expand(&stack))
	assert.Equal(t, postgres.Stack, stack)

	stack = v1alpha1.ApplicationStack{Name: "postgres", Version: "7"}
	require.NoError(t, Expand(&stack))
	assert.Equal(t, "7", stack.Version, "a version is the caller's own")
	assert.NotNil(t, stack.Database)

	stack = v1alpha1.ApplicationStack{Name: "nothing"}
	require.EqualError(t, Expand(&stack),
		`has no component, and its name "nothing" is not one of the known stacks: postgres, web-postgres, web-postgres-redis`)
	assert.Equal(t, v1alpha1.ApplicationStack{Name: "nothing"}, stack)

	for _, own := range []v1alpha1.ApplicationStack{
		{Name: "postgres", Backend: &v1alpha1.BackendComponent{}},
		{Name: "postgres", AdditionalServices: []v1alpha1.AdditionalService{{Name: "cache"}}},
	} {
		before := *own.DeepCopy()
		require.NoError(t, Expand(&own))
		assert.Equal(t, before, own, "what has components is not replaced")
	}
}
