// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/apis/v1alpha1"
)

func TestATargetIsANameOrAKindAndAName(t *testing.T) {
	for arg, want := range map[string]Target{"web": {"", "web"}, "deploy/web": {"deploy", "web"}, "deployments.apps/web": {"deployments.apps", "web"}} {
		got, err := TargetOf(arg)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, arg := range []string{"", "/web", "deploy/", "a/b/c"} {
		_, err := TargetOf(arg)
		require.ErrorContains(t, err, "must be NAME or KIND/NAME", arg)
	}
}

func TestAnObjectOfAKindIsNotNamedByAnother(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithRESTMapper(mapper).Build()
	k := &Kind[*v1alpha1.Environment, string]{Kind: "Environment", Resource: "environments.berth.dev"}
	for _, arg := range []string{"shop", "environment/shop", "environments/shop", "environment.berth.dev/shop", "Environments.berth.dev/shop"} {
		name, err := k.nameIn(c, arg)
		require.NoError(t, err, arg)
		assert.Equal(t, "shop", name)
	}
	for _, arg := range []string{"pod/shop", "nothing/shop"} {
		_, err := k.nameIn(c, arg)
		require.ErrorContains(t, err, `"`+arg+`" is of another kind: it must be NAME or environment/NAME`)
	}
}
