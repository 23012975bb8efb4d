// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

// fieldOwner is the manager of the fields that the env commands set.
const fieldOwner = "kubectl-berth-env"

// changeEnvironment applies a change to an environment, again if others change it in between, and returns the result. It does not
// write a spec that stays the same.
func changeEnvironment(ctx context.Context, c client.Client, env *v1alpha1.Environment, once func(e *v1alpha1.Environment) error) (*v1alpha1.Environment, error) {
	who, known := "", false
	var out *v1alpha1.Environment
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		after := env.DeepCopy()
		if err := once(after); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(&env.Spec, &after.Spec) {
			out = env
			return nil
		}
		if !known {
			who, known = callerOf(ctx, c), true
		}
		render.Sign(after, who)
		// A patch keeps fields that this version does not have.
		err := c.Patch(ctx, after, client.MergeFromWithOptions(env, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
		if apierrors.IsConflict(err) {
			fresh := &v1alpha1.Environment{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(env), fresh); err != nil {
				return err
			}
			env = fresh
		}
		out = after
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	return out, nil
}

// callerOf returns the user name that the API server authenticated, "" if it is unknown.
func callerOf(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}
