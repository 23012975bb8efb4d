// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/kinds"
)

// keep deletes a backup whose data no longer exists, for instance because its environment was deleted: it cannot be restored. One that
// failed is kept as long as its environment exists.
func (r *backups) keep(ctx context.Context, b *v1alpha1.DatabaseBackup) (reconcile.Result, error) {
	env := &v1alpha1.Environment{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.Environment}, env)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	next := reconcile.Result{RequeueAfter: resyncInterval}
	switch {
	case err != nil: // it is gone, and its volumes were retained if they exist
	case env.DeletionTimestamp != nil:
		next.RequeueAfter = retryInterval
	case b.Status.Phase == v1alpha1.DatabaseBackupFailed:
		return next, nil
	}
	exists, err := r.hasData(ctx, b)
	if err != nil || exists {
		return next, err
	}
	log.FromContext(ctx).Info("Deleting a backup whose data no longer exists", "environment", b.Spec.Environment)
	return reconcile.Result{}, applyset.Delete(ctx, r.Client, b)
}

// hasData reports whether the volume or the snapshot of a backup exists.
func (r *backups) hasData(ctx context.Context, b *v1alpha1.DatabaseBackup) (bool, error) {
	var err error
	switch b.Status.Method {
	case v1alpha1.DatabaseBackupSnapshot:
		_, err = r.readSnapshot(ctx, b)
	case v1alpha1.DatabaseBackupDump:
		err = r.Live.Get(ctx, client.ObjectKey{Namespace: b.Status.Namespace, Name: render.BackupsClaim}, &corev1.PersistentVolumeClaim{})
	default:
		return false, nil
	}
	var foreign failError
	if apierrors.IsNotFound(err) || kinds.NotServed(err) || errors.As(err, &foreign) {
		return false, nil
	}
	return err == nil, err
}

// remove deletes the data of a backup that is being deleted.
func (r *backups) remove(ctx context.Context, b *v1alpha1.DatabaseBackup) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.DatabaseBackupFinalizer) {
		return reconcile.Result{}, nil
	}
	exists, err := r.hasData(ctx, b)
	if err == nil && exists {
		if b.Status.Method == v1alpha1.DatabaseBackupSnapshot {
			err = r.removeSnapshot(ctx, b)
		} else {
			err = r.removeDump(ctx, b)
		}
	}
	var wait waitError
	switch {
	case errors.As(err, &wait), apierrors.IsForbidden(err):
		log.FromContext(ctx).Info("The data of a backup is not deleted yet", "reason", err.Error())
		return reconcile.Result{RequeueAfter: busyInterval}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return r.setFinalizer(ctx, b, v1alpha1.DatabaseBackupFinalizer, controllerutil.RemoveFinalizer)
}

// removeSnapshot deletes the VolumeSnapshot, and waits until it is gone.
func (r *backups) removeSnapshot(ctx context.Context, b *v1alpha1.DatabaseBackup) error {
	u, err := r.readSnapshot(ctx, b)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := applyset.Delete(ctx, r.Client, u); err != nil {
		return err
	}
	return waits("VolumeSnapshot %s is being deleted", b.Name)
}

// removeDump deletes the Job of a dump, and the file by another Job. Without an environment there is no image to run: the file then
// stays on the claim, which was retained.
func (r *backups) removeDump(ctx context.Context, b *v1alpha1.DatabaseBackup) error {
	env, err := r.environment(ctx, b.Namespace, b.Spec.Environment)
	if _, missing := errors.AsType[waitError](err); missing {
		r.Recorder.Eventf(b, corev1.EventTypeWarning, v1alpha1.EventReasonBackupLeft,
			"%v: the file %s.dump stays on claim %s of namespace %s", err, b.Name, render.BackupsClaim, b.Status.Namespace)
		return nil
	}
	if err != nil {
		return err
	}
	// The deletion of the Job has the backup reconciled again, when the cache may still have it: it would get another Job, which nothing
	// deletes.
	now := &v1alpha1.DatabaseBackup{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), now); err != nil || now.UID != b.UID {
		return client.IgnoreNotFound(err)
	}
	dump, removal := render.DumpJob(env, b), render.DeleteDumpJob(env, b)
	err = errors.Join(r.deleteOurs(ctx, dump, &batchv1.Job{}), r.deleteOurs(ctx, dump, &corev1.Secret{}),
		r.idle(ctx, &operation{object: b}, b.Status.Namespace, removal.Name))
	if err != nil {
		return err
	}
	out, err := r.job(ctx, removal, nil, nil)
	switch {
	case err != nil:
		return err
	case !out.Phase.Ended():
		return waits("Job %s is running: %s", removal.Name, out.Message)
	}
	if err := r.deleteOurs(ctx, removal, &batchv1.Job{}); err != nil {
		return err
	}
	if out.Phase == v1alpha1.DatabaseBackupFailed { // and again
		r.Recorder.Eventf(b, corev1.EventTypeWarning, v1alpha1.EventReasonBackupFailed, "the dump could not be deleted: %s", out.Message)
		return waits("Job %s failed: %s", removal.Name, out.Message)
	}
	return nil
}
