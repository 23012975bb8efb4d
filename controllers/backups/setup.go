// SPDX-License-Identifier: Apache-2.0

// Package backups runs DatabaseBackups, DatabaseRestores and DatabaseBackupSchedules: it creates the Jobs and VolumeSnapshots, deletes
// the data of backups that are deleted, and writes the status. internal/environments/render decides what the Jobs run, and
// internal/environments/schedule when backups are due.
package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
)

// FieldOwner is the manager of the fields that the controller writes.
const FieldOwner = client.FieldOwner("berth-backups")

const (
	// retryInterval is how often it is checked whether an operation can start, and busyInterval how often a snapshot and a claim are
	// read, which are not watched.
	retryInterval, busyInterval = 10 * time.Second, 2 * time.Second
	// resyncInterval is how often it is checked whether the data of a backup still exists.
	resyncInterval = 10 * time.Minute
	// startTimeout is how long an operation may be Pending. One that starts much later than requested would be a surprise.
	startTimeout = time.Hour
	maxMessage   = 1024
)

// Options configure the controller.
type Options struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	// SchedulerName is the scheduler of the pods of Jobs, as of those of environments; "" is that of the cluster.
	SchedulerName string
	// Namespaces are the only ones whose objects are reconciled; empty means all.
	Namespaces []string
	// serial is held by each reconciliation of a backup or a restore: one of them at a time decides that no other has begun.
	serial *sync.Mutex
}

// SetupWithManager adds the controller to a manager that is not started yet. The manager's cache must have the Jobs with ComponentLabel.
func SetupWithManager(mgr manager.Manager, o Options) error {
	o.serial = &sync.Mutex{}
	changed := builder.WithPredicates(predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
	))
	err := errors.Join(
		ctrl.NewControllerManagedBy(mgr).Named("databasebackup").For(&v1alpha1.DatabaseBackup{}, changed).
			Watches(&batchv1.Job{}, toOperation(render.BackupLabel)).
			Watches(&v1alpha1.Environment{}, handler.EnqueueRequestsFromMapFunc(o.backupsOf), builder.WithPredicates(onlyDeletion)).
			Complete(&backups{o}),
		ctrl.NewControllerManagedBy(mgr).Named("databaserestore").For(&v1alpha1.DatabaseRestore{}, changed).
			Watches(&batchv1.Job{}, toOperation(render.RestoreLabel)).Complete(&restores{Options: o}),
		ctrl.NewControllerManagedBy(mgr).Named("databasebackupschedule").For(&v1alpha1.DatabaseBackupSchedule{}, changed).
			Watches(&v1alpha1.DatabaseBackup{}, handler.EnqueueRequestsFromMapFunc(toSchedule)).Complete(&schedules{o}),
	)
	if err != nil {
		return fmt.Errorf("add the controllers of DatabaseBackups: %w", err)
	}
	for _, collector := range NewCollectors(mgr.GetClient()) {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("add the metrics of DatabaseBackups: %w", err)
		}
	}
	return nil
}

// onlyDeletion lets deletions pass.
var onlyDeletion = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })

// toOperation enqueues the object whose name a label of a Job has.
func toOperation(label string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return named(o.GetLabels()[render.OperationNamespaceLabel], o.GetLabels()[label])
	})
}

func toSchedule(_ context.Context, o client.Object) []reconcile.Request {
	return named(o.GetNamespace(), o.GetLabels()[v1alpha1.DatabaseScheduleLabel])
}

func named(namespace, name string) []reconcile.Request {
	if name == "" || namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// backupsOf enqueues the backups of an environment.
func (o Options) backupsOf(ctx context.Context, env client.Object) (requests []reconcile.Request) {
	all := &v1alpha1.DatabaseBackupList{}
	if err := o.Client.List(ctx, all, client.InNamespace(env.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the resync finds them
	}
	for i := range all.Items {
		if b := &all.Items[i]; b.Spec.Environment == env.GetName() {
			requests = append(requests, named(b.Namespace, b.Name)...)
		}
	}
	return requests
}

// reconciles reports whether objects of a namespace are reconciled.
func (o Options) reconciles(namespace string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// waitError is why an operation does not proceed, until something else changes.
type waitError struct{ error }

// waits returns a waitError.
func waits(format string, args ...any) error { return waitError{fmt.Errorf(format, args...)} }

// failError is why an operation can never succeed.
type failError struct{ error }

func fails(format string, args ...any) error { return failError{fmt.Errorf(format, args...)} }

// environmentOf returns the environment of an operation. One that is missing is waited for until the operation has started, and ends it
// then.
func (o Options) environmentOf(ctx context.Context, op *operation, name string) (*v1alpha1.Environment, error) {
	env, err := o.environment(ctx, op.object.GetNamespace(), name)
	if wait := (waitError{}); op.status.StartedAt != nil && errors.As(err, &wait) {
		return nil, failError(wait)
	}
	return env, err
}

// environment returns an environment that has a database and runs somewhere.
func (o Options) environment(ctx context.Context, namespace, name string) (*v1alpha1.Environment, error) {
	env := &v1alpha1.Environment{}
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, env)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waits("Environment %s does not exist", name)
	case err != nil:
		return nil, fmt.Errorf("read Environment %s/%s: %w", namespace, name, err)
	case env.DeletionTimestamp != nil:
		return nil, waits("Environment %s is being deleted", name)
	case env.Spec.Stack.Database == nil:
		return nil, waits("Environment %s has no database", name)
	case env.Status.Namespace == "":
		return nil, waits("the database of Environment %s is not created yet", name)
	}
	return env, nil
}

// ready waits for a database that accepts connections. Other components need not be ready: a restore may be what repairs them.
func ready(env *v1alpha1.Environment) error {
	if env.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		return waits("a dump requires a running database, and Environment %s is stopped", env.Name)
	}
	for i := range env.Status.Components {
		switch s := &env.Status.Components[i]; {
		case s.Name != stack.Database:
		case s.Ready:
			return nil
		default:
			return waits("the database of Environment %s is not ready: %s %s", env.Name, s.Reason, s.Message)
		}
	}
	return waits("the database of Environment %s is not ready", env.Name)
}

// idle waits while another backup or restore uses the claim of dumps: while its Job runs, or once it has begun and has none yet.
func (o Options) idle(ctx context.Context, op *operation, namespace, ownJob string) error {
	jobs := &batchv1.JobList{}
	component := client.MatchingLabels{v1alpha1.ComponentLabel: render.BackupComponent}
	if err := o.Live.List(ctx, jobs, client.InNamespace(namespace), component); err != nil {
		return fmt.Errorf("list Jobs of namespace %s: %w", namespace, err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Name != ownJob && !render.OutcomeOfJob(job, nil).Phase.Ended() && job.DeletionTimestamp == nil {
			return waits("Job %s/%s is running", namespace, job.Name)
		}
	}
	return o.noneBegan(ctx, op, namespace)
}

// noneBegan waits while another backup or restore has begun.
func (o Options) noneBegan(ctx context.Context, op *operation, namespace string) error {
	others, restores := &v1alpha1.DatabaseBackupList{}, &v1alpha1.DatabaseRestoreList{}
	in := client.InNamespace(op.object.GetNamespace())
	if err := errors.Join(o.Live.List(ctx, others, in), o.Live.List(ctx, restores, in)); err != nil {
		return fmt.Errorf("list the backups and restores of namespace %s: %w", op.object.GetNamespace(), err)
	}
	begun := func(x client.Object, s *v1alpha1.DatabaseOperationStatus) bool {
		return x.GetUID() != op.object.GetUID() && s.StartedAt != nil && !s.Phase.Ended() && s.Namespace == namespace
	}
	for i := range others.Items {
		b := &others.Items[i]
		if b.Status.Method == v1alpha1.DatabaseBackupDump && b.DeletionTimestamp == nil && begun(b, &b.Status.DatabaseOperationStatus) {
			return waits("DatabaseBackup %s is running", b.Name)
		}
	}
	for i := range restores.Items {
		if x := &restores.Items[i]; begun(x, &x.Status.DatabaseOperationStatus) {
			return waits("DatabaseRestore %s is running", x.Name)
		}
	}
	return nil
}
