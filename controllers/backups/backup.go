// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

var backupKind = v1alpha1.SchemeGroupVersion.WithKind("DatabaseBackup")

// backupReasons are those of the events about phases.
var backupReasons = map[v1alpha1.DatabaseBackupPhase]string{
	v1alpha1.DatabaseBackupRunning:   v1alpha1.EventReasonBackupStarted,
	v1alpha1.DatabaseBackupCompleted: v1alpha1.EventReasonBackupCompleted,
	v1alpha1.DatabaseBackupFailed:    v1alpha1.EventReasonBackupFailed,
}

// backups reconciles DatabaseBackups.
type backups struct{ Options }

// Reconcile implements reconcile.Reconciler.
func (r *backups) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.serial.Lock()
	defer r.serial.Unlock()
	b := &v1alpha1.DatabaseBackup{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil || !r.reconciles(b.Namespace) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if b.DeletionTimestamp != nil {
		return r.remove(ctx, b)
	}
	if b.Status.Phase.Ended() {
		return r.keep(ctx, b)
	}
	next, err := r.setFinalizer(ctx, b, v1alpha1.DatabaseBackupFinalizer, controllerutil.AddFinalizer)
	if err != nil || next.RequeueAfter > 0 {
		return next, err
	}
	before := b.DeepCopy()
	op := &operation{b, &b.Status.DatabaseOperationStatus, r.Clock.Now()}
	next, err = r.advance(ctx, op, b)
	if err == nil && op.failed() {
		err = r.stop(ctx, op.ownJob(b.Spec.Environment, render.BackupLabel))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("back up the database of Environment %s/%s: %w", b.Namespace, b.Spec.Environment, err)
	}
	about := "method " + string(b.Status.Method)
	if b.Status.Size != "" {
		about += ", size " + b.Status.Size
	}
	was := change{&before.Status, &b.Status, before.Status.Phase, b.Status.Phase}
	return unlessConflict(next, r.write(ctx, backupKind, before, was, backupReasons, cmp.Or(b.Status.Message, about)))
}

// advance pins the image of a backup, or does its next step. The image is stored before anything is done with it: after an error, another
// reading could have another image.
func (r *backups) advance(ctx context.Context, op *operation, b *v1alpha1.DatabaseBackup) (reconcile.Result, error) {
	before := b.Status.Image
	err := r.pin(ctx, b)
	pinned := b.Status.Image != before
	if err == nil && !pinned {
		err = r.step(ctx, op, b)
	}
	next, err := op.conclude(err)
	if pinned {
		next.RequeueAfter = time.Second
	}
	return next, err
}

// pin sets the image of an encrypted dump when its object is first observed, before anything that waits: until the backup begins, whoever
// may change the Environment, or create it, may set another image without the right to get the key.
func (r *backups) pin(ctx context.Context, b *v1alpha1.DatabaseBackup) error {
	if b.Spec.EncryptionSecretRef == nil || b.Status.Image != "" || b.Status.StartedAt != nil {
		return nil
	}
	image, err := r.databaseImage(ctx, b.Namespace, b.Spec.Environment)
	switch image = cmp.Or(b.Spec.Image, image); {
	case err != nil:
		return err
	case image == "":
		return fails("spec.environment: Environment %s did not exist or had no database when the DatabaseBackup was first observed, and an "+
			"encrypted dump runs with the image of that time: create another DatabaseBackup when it exists", b.Spec.Environment)
	}
	b.Status.Image = image
	if b.Status.Phase == "" {
		b.Status.Phase = v1alpha1.DatabaseBackupPending
	}
	return nil
}

// databaseImage returns the image of the database of an Environment, "" if there is none. It reads the API server: the cache can be older
// than the object that the image is for.
func (o Options) databaseImage(ctx context.Context, namespace, name string) (string, error) {
	env := &v1alpha1.Environment{}
	err := o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, env)
	if err != nil || env.Spec.Stack.Database == nil {
		return "", client.IgnoreNotFound(err)
	}
	return env.Spec.Stack.Database.Container.Image, nil
}

// step does the next step of a backup.
func (r *backups) step(ctx context.Context, op *operation, b *v1alpha1.DatabaseBackup) error {
	env, err := r.environmentOf(ctx, op, b.Spec.Environment)
	if err != nil {
		return err
	}
	switch b.Status.Method {
	case v1alpha1.DatabaseBackupSnapshot:
		return r.snapshot(ctx, op, b, env)
	case v1alpha1.DatabaseBackupDump:
		return r.dump(ctx, op, b, env)
	}
	method, err := r.method(ctx, op, b, env)
	if err != nil {
		return err
	}
	b.Status.Method, b.Status.Encrypted = method, b.Spec.EncryptionSecretRef != nil
	if method == v1alpha1.DatabaseBackupDump {
		b.Status.Image = render.ImageOf(b, env)
	}
	op.begin(env.Status.Namespace)
	return nil
}

// method chooses the method of a backup, and waits until it can start.
func (r *backups) method(
	ctx context.Context, op *operation, b *v1alpha1.DatabaseBackup, env *v1alpha1.Environment,
) (v1alpha1.DatabaseBackupMethod, error) {
	if b.Spec.Method != v1alpha1.DatabaseBackupDump {
		switch _, missing, err := r.newSnapshot(ctx, b, env); {
		case err != nil:
			return "", err
		case missing == "":
			return v1alpha1.DatabaseBackupSnapshot, nil
		case b.Spec.Method == v1alpha1.DatabaseBackupSnapshot:
			return "", waits("no snapshot is possible: %s", missing)
		}
	}
	if err := ready(env); err != nil {
		return "", err
	}
	if _, err := r.encryptionKey(ctx, b.Namespace, b.Spec.EncryptionSecretRef); err != nil {
		return "", err
	}
	return v1alpha1.DatabaseBackupDump, r.idle(ctx, op, env.Status.Namespace, b.Name)
}

// dump runs the Job of a dump.
func (r *backups) dump(ctx context.Context, op *operation, b *v1alpha1.DatabaseBackup, env *v1alpha1.Environment) error {
	if err := r.ensureClaim(ctx, b, env); err != nil {
		return err
	}
	var data secretData
	if b.Spec.EncryptionSecretRef != nil {
		data = func() (map[string][]byte, error) {
			key, err := r.encryptionKey(ctx, b.Namespace, b.Spec.EncryptionSecretRef)
			return map[string][]byte{v1alpha1.DatabaseEncryptionKey: key}, err
		}
	}
	out, err := r.job(ctx, render.DumpJob(env, b), nil, data)
	if err != nil {
		return err
	}
	b.Status.Message = out.Message
	if out.Phase.Ended() {
		b.Status.Size, b.Status.Tables, b.Status.Verified = out.Size, out.Tables, out.Tables != nil
		op.end(out.Phase, out.Message)
	}
	return nil
}

// ensureClaim creates the claim of dumps if it does not exist.
func (r *backups) ensureClaim(ctx context.Context, b *v1alpha1.DatabaseBackup, env *v1alpha1.Environment) error {
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: env.Status.Namespace, Name: render.BackupsClaim}
	switch err := r.Live.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		return r.create(ctx, render.ClaimOfBackups(env, b.Spec.Storage))
	case err != nil:
		return err
	case claim.Labels[render.BackupOfLabel] != env.Name:
		return fails("PersistentVolumeClaim %s exists and is not for backups of this environment: its label %s is %q", key,
			render.BackupOfLabel, claim.Labels[render.BackupOfLabel])
	case claim.DeletionTimestamp != nil:
		return waits("PersistentVolumeClaim %s is being deleted", key)
	}
	return nil
}

// snapshot creates a VolumeSnapshot if it does not exist, and reads it.
func (r *backups) snapshot(ctx context.Context, op *operation, b *v1alpha1.DatabaseBackup, env *v1alpha1.Environment) error {
	have, err := r.readSnapshot(ctx, b)
	if apierrors.IsNotFound(err) {
		want, missing, err := r.newSnapshot(ctx, b, env)
		if err == nil && missing != "" {
			err = waits("no snapshot is possible: %s", missing)
		}
		if err != nil {
			return err
		}
		return r.create(ctx, want)
	}
	if err != nil {
		return err
	}
	out := render.OutcomeOfSnapshot(have)
	b.Status.Message, b.Status.Size = out.Message, out.Size
	if out.Phase.Ended() {
		op.end(out.Phase, out.Message)
	}
	return nil
}

// readSnapshot reads the VolumeSnapshot of a backup.
func (r *backups) readSnapshot(ctx context.Context, b *v1alpha1.DatabaseBackup) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(render.SnapshotKind)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: b.Status.Namespace, Name: b.Name}, u)
	if err == nil && (u.GetLabels()[render.BackupLabel] != b.Name || u.GetLabels()[render.OperationNamespaceLabel] != b.Namespace) {
		return nil, fails("VolumeSnapshot %s/%s exists and is not of this object", b.Status.Namespace, b.Name)
	}
	return u, err
}
