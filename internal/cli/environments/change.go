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
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

// envFieldOwner is who sets the fields of an environment that are set here.
const envFieldOwner = "kubectl-berth-env"

// creates are the options of making an object, for a --dry-run that is not client.
func creates(dryRun string) []client.CreateOption {
	options := []client.CreateOption{client.FieldOwner(envFieldOwner)}
	if dryRun == command.DryRunServer {
		options = append(options, client.DryRunAll)
	}
	return options
}

// changeEnvironment writes what one makes of an environment, of what others made of it too if they write in between. It
// returns what the cluster has then. What comes out as it was is not written.
func changeEnvironment(ctx context.Context, c client.Client, env *v1alpha1.Environment, once func(e *v1alpha1.Environment) error, options ...client.PatchOption) (*v1alpha1.Environment, error) {
	who, asked := "", false
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
		if !asked {
			who, asked = callerOf(ctx, c), true
		}
		render.Sign(after, who)
		// A patch leaves fields alone that this plugin does not know.
		err := c.Patch(ctx, after, client.MergeFromWithOptions(env, client.MergeFromWithOptimisticLock{}), append(options, client.FieldOwner(envFieldOwner))...)
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

// callerOf is who the API server takes this command for, "" if it does not say.
func callerOf(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}
