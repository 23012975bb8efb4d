// SPDX-License-Identifier: Apache-2.0

// Package change writes what a user changes of an environment.
package change

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/uncached"
)

// Environment applies a change to an environment, again if others change it in between, and returns the result. It does not write a spec
// that stays the same. The revision has the name of the user whom the API server authenticates.
func Environment(ctx context.Context, c client.Client, env *v1alpha1.Environment,
	once func(e *v1alpha1.Environment) error,
) (*v1alpha1.Environment, error) {
	who, known := "", false
	var out *v1alpha1.Environment
	fresh := func() (*v1alpha1.Environment, error) {
		e := &v1alpha1.Environment{}
		return e, c.Get(ctx, client.ObjectKeyFromObject(env), e)
	}
	_, err := uncached.Change(env, fresh, func(env *v1alpha1.Environment) error {
		after := env.DeepCopy()
		if err := once(after); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(&env.Spec, &after.Spec) {
			out = env
			return nil
		}
		if !known {
			who, known = CallerOf(ctx, c), true
		}
		render.Sign(after, who)
		// A patch keeps fields that this version does not have.
		patch := client.MergeFromWithOptions(env, client.MergeFromWithOptimisticLock{})
		out = after
		return c.Patch(ctx, after, patch, client.FieldOwner(render.CommandManager))
	})
	if err != nil {
		return nil, fmt.Errorf("environment.%s/%s: %w", v1alpha1.GroupName, env.Name, err)
	}
	return out, nil
}

// CallerOf returns the user name that the API server authenticated, "" if it is unknown.
func CallerOf(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// Run starts, stops or restarts an environment, by the verb, and returns the result.
func Run(ctx context.Context, c client.Client, env *v1alpha1.Environment, verb string) (*v1alpha1.Environment, error) {
	return Environment(ctx, c, env, func(e *v1alpha1.Environment) error {
		switch render.Verb(verb) {
		case render.VerbStart:
			return render.Start(e)
		case render.VerbStop:
			return render.Stop(e, false)
		}
		return render.Restart(e, time.Now())
	})
}
