// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"slices"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// mayGetSecret refuses a caller that may not get a Secret. The policies about Secrets see the service, not its caller.
func (c *service) mayGetSecret(ctx context.Context, namespace, name string) error {
	return c.access.Authorize(ctx, server.Access{Verb: "get", Version: "v1", Resource: "secrets", Namespace: namespace, Name: name})
}

// mayUseSecrets refuses a change of what runs with Secrets to a caller that may not get them: the image that is changed would read them.
// The Secret that the service has made for the caller is the caller's own.
func (c *service) mayUseSecrets(ctx context.Context, before, after *environment) error {
	if was, is := uses(&before.Spec), uses(&after.Spec); sameSpec(&was, &is) {
		return nil
	}
	for _, name := range secretsOf(&after.Spec) {
		own, err := c.madeFor(ctx, before, name)
		if err != nil {
			return err
		}
		if own {
			continue
		}
		if err := c.mayGetSecret(ctx, before.Namespace, name); err != nil {
			return err
		}
	}
	return nil
}

// uses is what runs with the Secrets of an environment: all but what only describes, starts and stops it, as in the policy
// berth-environment-secrets.
func uses(s *v1alpha1.EnvironmentSpec) v1alpha1.EnvironmentSpec {
	return v1alpha1.EnvironmentSpec{Stack: s.Stack, Network: s.Network, Placement: s.Placement}
}

// secretsOf are the Secrets that a specification names, each once.
func secretsOf(s *v1alpha1.EnvironmentSpec) (names []string) {
	if d := s.Stack.Database; d != nil && d.SecretRef != nil {
		names = append(names, d.SecretRef.Name)
	}
	if b := s.Stack.Backend; b != nil && b.SecretRef != nil && !slices.Contains(names, b.SecretRef.Name) {
		names = append(names, b.SecretRef.Name)
	}
	return names
}

// madeFor reports whether a Secret is one that the service has made of credentials of the caller alone, or makes now.
func (c *service) madeFor(ctx context.Context, e *environment, name string) (bool, error) {
	secret, err := c.store.secret(ctx, e.Namespace, name)
	if err != nil || secret == nil {
		return err == nil && name == render.CredentialsName(e.Name), err
	}
	return isOwn(secret, e) && secret.Annotations[v1alpha1.ActorAnnotation] == c.caller(ctx), nil
}
