// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

// restoreSnapshot puts a claim that is made of a snapshot in the place of another one.
func restoreSnapshot(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, old *corev1.PersistentVolumeClaim, snapshot string, f *envRestoreDatabase) error {
	key := client.ObjectKeyFromObject(old)
	err := wait.PollUntilContextTimeout(ctx, f.replacePoll, f.timeout, true, func(ctx context.Context) (bool, error) {
		return replacedClaim(ctx, c, old, snapshot)
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("PersistentVolumeClaim %s is not yet recreated after %s: run the command again to go on", key, f.timeout)
	case err != nil:
		return fmt.Errorf("PersistentVolumeClaim %s of %s: %w", key, backupResource(render.BackupSnapshot, snapshot), err)
	}
	fmt.Fprintf(o.Out, "persistentvolumeclaim/%s recreated from %s\n", old.Name, backupResource(render.BackupSnapshot, snapshot))
	fmt.Fprintf(o.ErrOut, "Start the environment with: kubectl berth env start %s -n %s --wait\n", env.Name, env.Namespace)
	return nil
}

// replacedClaim does the next step to have a claim be one of a snapshot, and says whether it was the last. While the old one
// goes the controller may make an empty one, which goes too: nothing runs that could have written to it.
func replacedClaim(ctx context.Context, c client.Client, old *corev1.PersistentVolumeClaim, snapshot string) (done bool, err error) {
	have := &corev1.PersistentVolumeClaim{}
	err = c.Get(ctx, client.ObjectKeyFromObject(old), have)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, render.ClaimFrom(old, snapshot), client.FieldOwner(envFieldOwner))
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	case err != nil:
		return false, err
	case have.DeletionTimestamp != nil:
		return false, nil
	case have.UID != old.UID && render.MadeFrom(have, snapshot):
		return true, nil
	}
	err = c.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return false, client.IgnoreNotFound(err)
}
