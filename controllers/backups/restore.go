// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/pods"
)

// jobTimeout is how long after the start the Job of a restore is created. One that is missing later was deleted by someone: what was
// written since would be lost a second time.
const jobTimeout = time.Minute

// claimInterval is how often a claim is read that is being replaced. The controller of Environments would create an empty one 200 ms
// after the deletion.
const claimInterval = 50 * time.Millisecond

var restoreKind = v1alpha1.SchemeGroupVersion.WithKind("DatabaseRestore")

// restoreReasons are those of the events about phases.
var restoreReasons = map[v1alpha1.DatabaseBackupPhase]string{
	v1alpha1.DatabaseBackupRunning:   v1alpha1.EventReasonRestoreStarted,
	v1alpha1.DatabaseBackupCompleted: v1alpha1.EventReasonRestoreCompleted,
	v1alpha1.DatabaseBackupFailed:    v1alpha1.EventReasonRestoreFailed,
}

// restores reconciles DatabaseRestores.
type restores struct {
	Options
	// deleted are the claims that were deleted to be replaced, by the UID of the restore. Without it, after a restart, the empty claim is
	// replaced that the controller of Environments creates.
	deleted sync.Map
}

// Reconcile implements reconcile.Reconciler.
func (r *restores) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.serial.Lock()
	defer r.serial.Unlock()
	x := &v1alpha1.DatabaseRestore{}
	if err := r.Client.Get(ctx, req.NamespacedName, x); err != nil || !r.reconciles(x.Namespace) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	op := &operation{x, &x.Status.DatabaseOperationStatus, r.Clock.Now()}
	if x.Status.Phase.Ended() || x.DeletionTimestamp != nil && !r.replacing(ctx, x) {
		return r.release(ctx, op, x)
	}
	next, err := r.setFinalizer(ctx, x, v1alpha1.DatabaseRestoreFinalizer, controllerutil.AddFinalizer)
	if err != nil || next.RequeueAfter > 0 {
		return next, err
	}
	before := x.DeepCopy()
	next, err = r.advance(ctx, op, x)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("restore the database of Environment %s/%s: %w", x.Namespace, x.Spec.Environment, err)
	}
	was, about := change{&before.Status, &x.Status, before.Status.Phase, x.Status.Phase}, "from DatabaseBackup "+x.Spec.Backup
	return unlessConflict(next, r.write(ctx, restoreKind, before, was, restoreReasons, cmp.Or(x.Status.Message, about)))
}

// advance does the next step of a restore, and returns when the one after that is due.
func (r *restores) advance(ctx context.Context, op *operation, x *v1alpha1.DatabaseRestore) (reconcile.Result, error) {
	snapshot, err := r.step(ctx, op, x)
	if wait, waits := errors.AsType[waitError](err); waits && x.DeletionTimestamp != nil {
		err = failError(wait)
	}
	next, err := op.conclude(err)
	if err == nil && op.failed() {
		err = r.stop(ctx, op.ownJob(x.Spec.Environment, render.RestoreLabel))
	}
	switch {
	case x.Status.Phase.Ended():
		next = reconcile.Result{RequeueAfter: busyInterval} // to release it
	case snapshot && x.Status.Message == "":
		next.RequeueAfter = claimInterval
	}
	return next, err
}

// replacing reports whether a restore is replacing a volume, which is not left half done.
func (r *restores) replacing(ctx context.Context, x *v1alpha1.DatabaseRestore) bool {
	if x.Status.StartedAt == nil {
		return false
	}
	b := &v1alpha1.DatabaseBackup{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: x.Namespace, Name: x.Spec.Backup}, b)
	return err == nil && b.Status.Method == v1alpha1.DatabaseBackupSnapshot
}

// release lets a restore be deleted that has ended, or ends now: the transaction of a Job that is deleted is rolled back.
func (r *restores) release(ctx context.Context, op *operation, x *v1alpha1.DatabaseRestore) (reconcile.Result, error) {
	r.deleted.Delete(x.UID)
	if x.Status.Namespace != "" && !x.Status.Phase.Ended() {
		if err := r.stop(ctx, op.ownJob(x.Spec.Environment, render.RestoreLabel)); err != nil {
			return reconcile.Result{}, fmt.Errorf("cancel the restore of Environment %s/%s: %w", x.Namespace, x.Spec.Environment, err)
		}
	}
	return r.setFinalizer(ctx, x, v1alpha1.DatabaseRestoreFinalizer, controllerutil.RemoveFinalizer)
}

// step does the next step of a restore. It reports whether that is one of a snapshot.
func (r *restores) step(ctx context.Context, op *operation, x *v1alpha1.DatabaseRestore) (snapshot bool, err error) {
	b, err := r.backup(ctx, x)
	if err != nil {
		return false, err
	}
	target, err := r.environmentOf(ctx, op, x.Spec.Environment)
	if err != nil {
		return false, err
	}
	if b.Status.Method == v1alpha1.DatabaseBackupSnapshot {
		if b.Spec.Environment != target.Name {
			return true, fails("spec.environment: a snapshot can be restored only into its own Environment, %s", b.Spec.Environment)
		}
		return true, r.snapshot(ctx, op, x, b, target)
	}
	source := target
	if b.Spec.Environment != target.Name {
		if source, err = r.environmentOf(ctx, op, b.Spec.Environment); err != nil {
			return false, err
		}
	}
	return false, r.dump(ctx, op, x, b, source, target)
}

// backup returns the backup of a restore, once it is completed.
func (r *restores) backup(ctx context.Context, x *v1alpha1.DatabaseRestore) (*v1alpha1.DatabaseBackup, error) {
	b := &v1alpha1.DatabaseBackup{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: x.Namespace, Name: x.Spec.Backup}, b)
	switch {
	case apierrors.IsNotFound(err) && x.Status.StartedAt != nil:
		return nil, fails("spec.backup: DatabaseBackup %s was deleted", x.Spec.Backup)
	case apierrors.IsNotFound(err):
		return nil, waits("spec.backup: DatabaseBackup %s does not exist", x.Spec.Backup)
	case err != nil:
		return nil, fmt.Errorf("read DatabaseBackup %s/%s: %w", x.Namespace, x.Spec.Backup, err)
	case b.Status.Phase == v1alpha1.DatabaseBackupFailed || b.DeletionTimestamp != nil:
		return nil, fails("spec.backup: DatabaseBackup %s failed or is being deleted", b.Name)
	case b.Status.Phase != v1alpha1.DatabaseBackupCompleted:
		return nil, waits("spec.backup: DatabaseBackup %s is not completed", b.Name)
	}
	return b, ofAuthor(x, b)
}

// ofAuthor fails a restore of an encrypted dump that does not name the key: the API server has checked at admission that the author may get
// the Secret that is named.
func ofAuthor(x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup) error {
	key := b.Spec.EncryptionSecretRef
	if key == nil || x.Spec.EncryptionSecretRef != nil && x.Spec.EncryptionSecretRef.Name == key.Name {
		return nil
	}
	return fails("spec.encryptionSecretRef: DatabaseBackup %s is encrypted with the key of Secret %s, which must be named", b.Name, key.Name)
}

// dump runs the Job that restores a dump.
func (r *restores) dump(ctx context.Context, op *operation, x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup,
	source, target *v1alpha1.Environment,
) error {
	if n := target.Spec.Network; n != nil && n.Isolated && source.Name != target.Name {
		return fails("spec.environment: network.isolated of Environment %s keeps out the Job, which runs in namespace %s", target.Name,
			source.Status.Namespace)
	}
	if x.Status.StartedAt == nil {
		if err := ready(target); err != nil {
			return err
		}
		if err := r.idle(ctx, op, source.Status.Namespace, x.Name); err != nil {
			return err
		}
		op.begin(source.Status.Namespace)
		return nil
	}
	var lost error
	if op.now.Sub(x.Status.StartedAt.Time) > jobTimeout {
		lost = fails("Job %s/%s was deleted before its end: whether the data was replaced is unknown", x.Status.Namespace, x.Name)
	}
	var data secretData
	if b.Spec.EncryptionSecretRef != nil || source.Status.Namespace != target.Status.Namespace {
		data = func() (map[string][]byte, error) { return r.secrets(ctx, b, source, target) }
	}
	out, err := r.job(ctx, render.RestoreJob(source, target, x, b), lost, data)
	if err != nil {
		return err
	}
	x.Status.Message = out.Message
	if out.Phase.Ended() {
		op.end(out.Phase, out.Message)
	}
	return nil
}

// secrets returns what the Job needs and its namespace does not have: the key of an encrypted dump, and the password of another
// environment.
func (r *restores) secrets(
	ctx context.Context, b *v1alpha1.DatabaseBackup, source, target *v1alpha1.Environment,
) (map[string][]byte, error) {
	data := map[string][]byte{}
	key, err := r.encryptionKey(ctx, b.Namespace, b.Spec.EncryptionSecretRef)
	if err != nil {
		return nil, err
	}
	if key != nil {
		data[v1alpha1.DatabaseEncryptionKey] = key
	}
	if source.Status.Namespace != target.Status.Namespace {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: target.Status.Namespace, Name: stack.Database}, secret); err != nil {
			return nil, fmt.Errorf("read the password of the database of Environment %s: %w", target.Name, err)
		}
		data[render.TargetPasswordKey] = secret.Data[render.PostgresPassword]
	}
	return data, nil
}

// snapshot replaces the claim of a stopped database by one that is created from a snapshot, step by step. While the old claim is being
// deleted, the controller of Environments may create an empty one, which is deleted too: no pod has written to it, because none runs.
func (r *restores) snapshot(ctx context.Context, op *operation, x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup,
	env *v1alpha1.Environment,
) error {
	if err := stopped(env); err != nil {
		return err
	}
	claim, missing, err := r.dataClaim(ctx, env)
	switch {
	case err != nil:
		return err
	case missing != "":
		return r.missing(ctx, x, b, missing)
	case claim.DeletionTimestamp != nil:
		return nil
	case x.Status.StartedAt != nil && render.MadeFrom(claim, b.Name) && claim.Annotations[render.RestoreLabel] == string(x.UID):
		op.end(v1alpha1.DatabaseBackupCompleted, "")
		return nil
	}
	if err := r.replaceable(ctx, claim, b); err != nil {
		return err
	}
	if x.Status.StartedAt == nil {
		op.begin(env.Status.Namespace)
		return nil
	}
	return r.replace(ctx, claim, x, b)
}

// missing creates the claim that was deleted to be replaced.
func (r *restores) missing(ctx context.Context, x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup, why string) error {
	if x.Status.StartedAt == nil {
		return waits("no volume can be replaced: %s", why)
	}
	if old, known := r.deleted.Load(x.UID); known {
		return r.recreate(ctx, old.(*corev1.PersistentVolumeClaim), x, b) //nolint:forcetypeassert // of no other type
	}
	return nil
}

// replace deletes a claim, and creates one from a snapshot in its place once it is gone.
func (r *restores) replace(
	ctx context.Context, old *corev1.PersistentVolumeClaim, x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup,
) error {
	r.deleted.Store(x.UID, old)
	if err := applyset.Delete(ctx, r.Client, old); err != nil {
		return err
	}
	return r.recreate(ctx, old, x, b)
}

func (r *restores) recreate(
	ctx context.Context, old *corev1.PersistentVolumeClaim, x *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup,
) error {
	want := render.ClaimFrom(old, b.Name)
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[render.RestoreLabel] = string(x.UID)
	err := r.Client.Create(ctx, want, FieldOwner)
	if apierrors.IsAlreadyExists(err) { // the old one, which has a finalizer, or an empty one
		return nil
	}
	return err
}

// replaceable waits until a claim is large enough and no pod uses it.
func (r *restores) replaceable(ctx context.Context, claim *corev1.PersistentVolumeClaim, b *v1alpha1.DatabaseBackup) error {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if needed, err := budget.ParseQuantity(b.Status.Size); err == nil && requested.Cmp(needed) < 0 {
		return waits("claim %s requests %s, and the snapshot needs %s: set spec.stack.database.container.resources.disk", claim.Name,
			requested.String(), needed.String())
	}
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.InNamespace(claim.Namespace)); err != nil {
		return fmt.Errorf("list pods of namespace %s: %w", claim.Namespace, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; mounts(p, claim.Name) {
			return waits("pod %s uses claim %s", p.Name, claim.Name)
		}
	}
	return nil
}

// stopped waits until an environment is stopped.
func stopped(env *v1alpha1.Environment) error {
	phase := render.PhaseOf(env)
	if env.Spec.RunPolicy == v1alpha1.RunPolicyStopped && phase == v1alpha1.EnvironmentStopped &&
		env.Status.ObservedGeneration >= env.Generation {
		return nil
	}
	return waits("a snapshot can be restored only while the environment is Stopped, and Environment %s is %s", env.Name, phase)
}

// mounts reports whether a pod that has not ended uses a claim.
func mounts(p *corev1.Pod, claim string) bool {
	if pods.Finished(p) {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}
