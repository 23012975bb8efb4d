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
		return nil, fmt.Errorf("%s: %w", nameOf(env.Name), err)
	}
	return out, nil
}

// nameOf is how kubectl names an environment.
func nameOf(name string) string { return "environment." + v1alpha1.GroupName + "/" + name }

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

// Replicas is how many replicas a component should have.
type Replicas struct {
	Component string
	Replicas  int32
}

// Scaled is a component whose replicas were set, with the number that it had and the one that it has.
type Scaled struct {
	Component     string
	Before, After int32
}

// Scale sets the replicas of components, of all or of none, and returns the result.
func Scale(ctx context.Context, c client.Client, env *v1alpha1.Environment, wanted []Replicas,
) (did []Scaled, after *v1alpha1.Environment, err error) {
	after, err = Environment(ctx, c, env, func(e *v1alpha1.Environment) (err error) {
		if err := render.May(e, render.VerbUpdate); err != nil {
			return err
		}
		did, err = scaled(e, wanted)
		return err
	})
	return did, after, err
}

func scaled(e *v1alpha1.Environment, wanted []Replicas) (did []Scaled, err error) {
	for _, w := range wanted {
		before, err := render.Scale(e, w.Component, w.Replicas)
		if err != nil {
			return nil, err
		}
		did = append(did, Scaled{w.Component, before, w.Replicas})
	}
	return did, nil
}
