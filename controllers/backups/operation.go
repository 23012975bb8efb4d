// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"errors"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

// deadline is how long an operation may run. The Jobs have the same, and a margin is left to read their end.
const deadline = render.BackupDeadlineSeconds*time.Second + 10*time.Minute

// operation is a backup or a restore, whose status is about to change.
type operation struct {
	object client.Object
	status *v1alpha1.DatabaseOperationStatus
	now    time.Time
}

// begin makes an operation Running, whose objects are in a namespace. They are created after that is written: they are found then.
func (op *operation) begin(namespace string) {
	op.status.Phase, op.status.Message, op.status.Namespace = v1alpha1.DatabaseBackupRunning, "", namespace
	op.status.StartedAt = op.time()
}

// end makes an operation Completed or Failed.
func (op *operation) end(phase v1alpha1.DatabaseBackupPhase, message string) {
	op.status.Phase, op.status.Message, op.status.CompletedAt = phase, message, op.time()
}

func (op *operation) time() *metav1.Time { return new(metav1.NewTime(op.now.Truncate(time.Second))) }

// ownJob is what identifies the Job of an operation, about the database of an environment. Label has the name of the operation.
func (op *operation) ownJob(environment, label string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: op.status.Namespace, Name: op.object.GetName(), Labels: map[string]string{
			render.BackupOfLabel: environment, render.OperationNamespaceLabel: op.object.GetNamespace(), label: op.object.GetName(),
		},
	}}
}

// failed reports whether an operation failed after it had started.
func (op *operation) failed() bool {
	return op.status.Phase == v1alpha1.DatabaseBackupFailed && op.status.Namespace != ""
}

// conclude turns the error of a step into the status, and returns when the next step is due. It returns other errors as they are.
func (op *operation) conclude(err error) (reconcile.Result, error) {
	var wait waitError
	var fail failError
	switch {
	case errors.As(err, &fail):
		op.end(v1alpha1.DatabaseBackupFailed, fail.Error())
	case errors.As(err, &wait), apierrors.IsForbidden(err), apierrors.IsInvalid(err): // a quota or a policy may change
		op.status.Message = err.Error()
		if op.status.Phase == "" {
			op.status.Phase = v1alpha1.DatabaseBackupPending
		}
	case err != nil:
		return reconcile.Result{}, err
	}
	switch since := op.now.Sub; {
	case op.status.Phase.Ended():
	case op.status.StartedAt == nil && since(op.object.GetCreationTimestamp().Time) > startTimeout:
		op.end(v1alpha1.DatabaseBackupFailed, "not started within "+startTimeout.String()+": "+op.status.Message)
	case op.status.StartedAt != nil && since(op.status.StartedAt.Time) > deadline:
		op.end(v1alpha1.DatabaseBackupFailed, strings.TrimSuffix("not completed within "+deadline.String()+": "+op.status.Message, ": "))
	}
	op.status.Message = applyset.Shorten(op.status.Message, maxMessage)
	op.status.ObservedGeneration = op.object.GetGeneration()
	op.condition()
	if op.status.Phase.Ended() {
		return reconcile.Result{RequeueAfter: resyncInterval}, nil
	}
	if op.status.Phase == v1alpha1.DatabaseBackupRunning {
		return reconcile.Result{RequeueAfter: busyInterval}, nil
	}
	return reconcile.Result{RequeueAfter: retryInterval}, nil
}

func (op *operation) condition() {
	c := metav1.Condition{
		Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionFalse, Reason: string(op.status.Phase), Message: op.status.Message,
		ObservedGeneration: op.object.GetGeneration(), LastTransitionTime: *op.time(),
	}
	if op.status.Phase == v1alpha1.DatabaseBackupCompleted {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&op.status.Conditions, c)
}

// change is a change of the status of an operation, and of its phase.
type change struct {
	before, after any
	from, to      v1alpha1.DatabaseBackupPhase
}

// write writes a status if it has changed, with an event about a new phase.
func (o Options) write(ctx context.Context, kind schema.GroupVersionKind, object client.Object, c change,
	reasons map[v1alpha1.DatabaseBackupPhase]string, message string,
) error {
	if equality.Semantic.DeepEqual(c.before, c.after) {
		return nil
	}
	version, err := applyset.Status(ctx, o.Client, kind, object, c.after, FieldOwner, applyset.OptimisticLock)
	if err != nil || version == "" || c.from == c.to || reasons[c.to] == "" {
		return err
	}
	severity := corev1.EventTypeNormal
	if c.to == v1alpha1.DatabaseBackupFailed {
		severity = corev1.EventTypeWarning
	}
	o.Recorder.Event(object, severity, reasons[c.to], message)
	return nil
}

// unlessConflict returns when an object is reconciled again whose status was written: soon if the cache had an old one.
func unlessConflict(next reconcile.Result, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: busyInterval}, nil
	}
	return next, err
}

// secretData returns what a Job needs and its namespace does not have.
type secretData func() (map[string][]byte, error)

// job creates a Job and its Secret if they do not exist, and returns the outcome of the Job. Data is nil if the Job needs no Secret. When
// the Job has ended, the Secret is deleted. If the Job does not exist and lost is not nil, it is the error.
func (o Options) job(ctx context.Context, want *batchv1.Job, lost error, data secretData) (out render.Outcome, err error) {
	key := client.ObjectKeyFromObject(want)
	job := &batchv1.Job{}
	err = o.Live.Get(ctx, key, job)
	if apierrors.IsNotFound(err) {
		return render.Outcome{Phase: v1alpha1.DatabaseBackupRunning}, o.createJob(ctx, want, lost, data)
	}
	switch {
	case err != nil:
		return out, err
	case !ours(job, want):
		return out, fails("Job %s exists and is not of this object", key)
	}
	pods := &corev1.PodList{}
	if err := o.Live.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels{batchv1.JobNameLabel: key.Name}); err != nil {
		return out, err
	}
	out = render.OutcomeOfJob(job, pods.Items)
	switch {
	case out.Phase.Ended():
		err = o.deleteOurs(ctx, want, &corev1.Secret{})
	case data != nil:
		err = o.ensureSecret(ctx, job, data)
	}
	return out, err
}

// createJob creates a Job, and then its Secret, which the Job owns: whatever ends the operation, it does not outlive the Job. The pod
// waits for it.
func (o Options) createJob(ctx context.Context, want *batchv1.Job, lost error, data secretData) error {
	if lost != nil {
		return lost
	}
	var secret map[string][]byte
	if data != nil {
		var err error
		if secret, err = data(); err != nil {
			return err
		}
	}
	want.Spec.Template.Spec.SchedulerName = o.SchedulerName
	if err := o.create(ctx, want); err != nil || data == nil || want.UID == "" { // without a UID, it existed: the next step reads it
		return err
	}
	return o.create(ctx, render.OperationSecret(want, secret))
}

// ensureSecret creates the Secret of a Job that exists.
func (o Options) ensureSecret(ctx context.Context, job *batchv1.Job, data secretData) error {
	err := o.Live.Get(ctx, client.ObjectKeyFromObject(job), &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	secret, err := data()
	if err != nil {
		return err
	}
	return o.create(ctx, render.OperationSecret(job, secret))
}

// stop deletes the Job of an operation that ended otherwise, if it is running: it would change a database that no status is about.
func (o Options) stop(ctx context.Context, want *batchv1.Job) error {
	job := &batchv1.Job{}
	exists, err := o.readOurs(ctx, want, job)
	if !exists || render.OutcomeOfJob(job, nil).Phase.Ended() {
		return err
	}
	return applyset.Delete(ctx, o.Client, job)
}

// deleteOurs deletes a Job, or the Secret that has its name. Have is an empty object of the kind.
func (o Options) deleteOurs(ctx context.Context, job *batchv1.Job, have client.Object) error {
	exists, err := o.readOurs(ctx, job, have)
	if !exists {
		return err
	}
	return applyset.Delete(ctx, o.Client, have)
}

// readOurs reads a Job, or the Secret that has its name, and reports whether it exists and has the labels of the operation. One of another
// owner has not.
func (o Options) readOurs(ctx context.Context, job *batchv1.Job, have client.Object) (exists bool, err error) {
	err = o.Live.Get(ctx, client.ObjectKeyFromObject(job), have)
	return err == nil && ours(have, job), client.IgnoreNotFound(err)
}

// create creates an object. It is no error if it exists already and is the same operation's.
func (o Options) create(ctx context.Context, want client.Object) error {
	err := o.Client.Create(ctx, want, FieldOwner)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have := want.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of the same type
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ours(have, want) {
		return fails("%T %s exists and is not of this object", want, client.ObjectKeyFromObject(want))
	}
	return nil
}

// ours reports whether an object has the labels by which a wanted one is found.
func ours(have, want client.Object) bool {
	for _, key := range []string{render.BackupOfLabel, render.OperationNamespaceLabel, render.BackupLabel, render.RestoreLabel} {
		if have.GetLabels()[key] != want.GetLabels()[key] {
			return false
		}
	}
	return true
}

// encryptionKey reads the key of dumps from the namespace of the DatabaseBackup, and requires it to be one that openssl reads whole.
func (o Options) encryptionKey(ctx context.Context, namespace string, ref *v1alpha1.EnvironmentSecret) ([]byte, error) {
	if ref == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, waits("spec.encryptionSecretRef: Secret %s does not exist", ref.Name)
	}
	if err != nil {
		return nil, err
	}
	key := secret.Data[v1alpha1.DatabaseEncryptionKey]
	switch line := strings.TrimSuffix(string(key), "\n"); {
	case len(line) < minKey || len(line) > maxKey:
		return nil, waits("spec.encryptionSecretRef: key %q of Secret %s has %d bytes: it must have %d to %d", v1alpha1.DatabaseEncryptionKey,
			ref.Name, len(line), minKey, maxKey)
	case strings.ContainsAny(line, "\x00\r\n"):
		return nil, waits("spec.encryptionSecretRef: key %q of Secret %s is not one line of text", v1alpha1.DatabaseEncryptionKey, ref.Name)
	default:
		return []byte(line), nil
	}
}

// setFinalizer adds the finalizer of an operation, or removes it. The result requests another reconciliation if the cache had an old
// object.
func (o Options) setFinalizer(
	ctx context.Context, x client.Object, finalizer string, set func(client.Object, string) bool,
) (reconcile.Result, error) {
	stale, err := applyset.SetFinalizer(ctx, o.Client, x, finalizer, set)
	if stale {
		return reconcile.Result{RequeueAfter: busyInterval}, nil
	}
	return reconcile.Result{}, err
}

// minKey and maxKey bound the length of the key that encrypts dumps.
const minKey, maxKey = 16, 512
