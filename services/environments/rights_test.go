// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// The service may get every Secret, so it reviews the callers whose image would read one.
func TestAChangeOfWhatRunsRequiresTheRightToGetItsSecrets(t *testing.T) {
	of := map[string]func(*schedulerv1.EnvironmentSpecification){
		"an image":      func(s *schedulerv1.EnvironmentSpecification) { s.ApplicationStack.Backend.Container.Image = "evil" },
		"another image": func(s *schedulerv1.EnvironmentSpecification) { s.ApplicationStack.Database.Container.Image = "evil" },
		"a variable": func(s *schedulerv1.EnvironmentSpecification) {
			s.ApplicationStack.Backend.Container.EnvironmentVariables = map[string]string{"X": "y"}
		},
	}
	for name, what := range of {
		t.Run(name, func(t *testing.T) {
			w, c, _ := created(t, smoke())
			spec := withoutSecrets(smoke())
			what(spec)
			w.denied["get"] = true
			c.caller = func(context.Context) string { return "bob" }
			w.asked = nil
			requireCode(t, codes.PermissionDenied, errOf(update(t, c, spec)))
			assert.Contains(t, w.asked, server.Access{
				Verb: "get", Version: "v1", Resource: "secrets", Namespace: "default", Name: smokeID + "-credentials",
			})
			c.caller = func(context.Context) string { return "alice" }
			require.NoError(t, errOf(update(t, c, spec)), "the Secret is made of what she has sent")
		})
	}
}

func TestWhatOnlyDescribesOrStopsRequiresNoSecret(t *testing.T) {
	w, c, _ := created(t, smoke())
	c.caller = func(context.Context) string { return "bob" }
	w.denied["get"] = true
	spec := withoutSecrets(smoke())
	spec.Description = "new"
	require.NoError(t, errOf(update(t, c, spec)))
	require.NoError(t, errOf(c.run(t.Context(), "default", smokeID, func(e *environment) error {
		e.Spec.RunPolicy = v1alpha1.RunPolicyStopped
		return nil
	})))
	requireCode(t, codes.PermissionDenied, errOf(c.scale(t.Context(), "default", smokeID, map[string]int32{"backend": 2})))
}

// The Secret that only has the right name was not made of what a caller has sent.
func TestTheSecretOfAnotherOwnerRequiresTheRightToGetIt(t *testing.T) {
	w, c, _ := created(t, withoutSecrets(smoke()))
	w.environments["default/"+smokeID].Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: "theirs"}
	spec := withoutSecrets(smoke())
	spec.ApplicationStack.Backend.Container.Image = "evil"
	w.denied["get"] = true
	requireCode(t, codes.PermissionDenied, errOf(update(t, c, spec)))
}

// A new Secret has the password of the first caller as well: it is not one caller's own.
func TestCredentialsOfSeveralCallersAreTheOwnOfNone(t *testing.T) {
	w, c, _ := created(t, smoke())
	w.denied["get"] = true
	for _, caller := range []string{"bob", "alice"} {
		c.caller = func(context.Context) string { return caller }
		spec := withoutSecrets(smoke())
		spec.ApplicationStack.Backend.ApiKeys = map[string]string{"JWT_SECRET": "of " + caller}
		require.NoError(t, errOf(update(t, c, spec)), caller)
		spec = withoutSecrets(smoke())
		spec.ApplicationStack.Backend.Container.Image = "evil"
		requireCode(t, codes.PermissionDenied, errOf(update(t, c, spec)))
	}
}
