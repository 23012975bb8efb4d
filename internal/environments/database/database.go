// SPDX-License-Identifier: Apache-2.0

// Package database backs up the databases of Environments and restores them: by a VolumeSnapshot, or by a Job that dumps.
package database

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/kinds"
)

// Database is the database of an Environment.
type Database struct {
	// Reader reads the cluster, Writer writes to it, or only pretends to in a dry run.
	Reader client.Reader
	Writer client.Client
	Of     *v1alpha1.Environment
	// Warn is called with what the user should know although the operation continues.
	Warn func(format string, args ...any)
}

// Check returns an error if there is no database that could be backed up.
func (d *Database) Check() error {
	if err := render.May(d.Of, render.VerbUpdate); err != nil {
		return err
	}
	switch {
	case d.Of.Spec.Stack.Database == nil:
		return fmt.Errorf("no database: spec.stack.database is not set")
	case d.Of.Status.Namespace == "":
		return fmt.Errorf("the database is not created yet: status.namespace is empty")
	}
	return nil
}

// Ready returns an error if the database does not accept connections. Other components need not be ready: a restore may be what repairs
// them.
func (d *Database) Ready() error {
	if d.Of.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		return fmt.Errorf("a dump requires a running database, and spec.runPolicy is Stopped (kubectl berth env start %s --wait)",
			d.Of.Name)
	}
	for i := range d.Of.Status.Components {
		switch s := &d.Of.Status.Components[i]; {
		case s.Name != render.Database:
		case s.Ready:
			return nil
		default:
			return fmt.Errorf("a dump requires a database that is ready, and component database is not: %s",
				strings.Trim(s.Reason+": "+s.Message, ": "))
		}
	}
	return fmt.Errorf("a dump requires a database that is ready, and status.phase is %s", render.PhaseOf(d.Of))
}

func (d *Database) labels() client.MatchingLabels {
	return client.MatchingLabels{render.BackupOfLabel: d.Of.Name}
}

// Backups lists the backups, the newest last. A cluster without the API of snapshots has no snapshots.
func (d *Database) Backups(ctx context.Context) ([]render.Backup, error) {
	list := []render.Backup{}
	namespace := d.Of.Status.Namespace
	if namespace == "" {
		return list, nil
	}
	jobs, snapshots := &batchv1.JobList{}, kinds.ListOf(render.SnapshotKind)
	if err := d.Reader.List(ctx, jobs, client.InNamespace(namespace), d.labels()); err != nil {
		return nil, fmt.Errorf("list Jobs of namespace %s: %w", namespace, err)
	}
	pods := d.pods(ctx)
	for i := range jobs.Items {
		if jobs.Items[i].Labels[render.RestoredFromLabel] == "" {
			list = append(list, render.BackupOfJob(&jobs.Items[i], pods))
		}
	}
	switch err := d.Reader.List(ctx, snapshots, client.InNamespace(namespace), d.labels()); {
	case err == nil, kinds.NotServed(err):
	case apierrors.IsForbidden(err):
		d.Warn("not allowed: list VolumeSnapshots of namespace %s", namespace)
	default:
		return nil, fmt.Errorf("list VolumeSnapshots of namespace %s: %w", namespace, err)
	}
	for i := range snapshots.Items {
		list = append(list, render.BackupOfSnapshot(&snapshots.Items[i]))
	}
	slices.SortFunc(list, func(a, b render.Backup) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// pods returns the pods of the Jobs. They have details that the Jobs do not have, and are not required.
func (d *Database) pods(ctx context.Context) []corev1.Pod {
	pods := &corev1.PodList{}
	if err := d.Reader.List(ctx, pods, client.InNamespace(d.Of.Status.Namespace), d.labels()); err != nil {
		d.Warn("cannot read the size of a dump, or why it failed: list pods: %v", err)
	}
	return pods.Items
}

// KindOf is the kind of the object that a method of backup creates.
func KindOf(method render.BackupMethod) schema.GroupVersionKind {
	if method == render.BackupSnapshot {
		return render.SnapshotKind
	}
	return batchv1.SchemeGroupVersion.WithKind("Job")
}

// Replaceable returns what a backup would replace: the claim for a snapshot, nil for a dump. It returns an error if the backup cannot be
// restored now: the deletion of a claim cannot be undone.
func (d *Database) Replaceable(ctx context.Context, b *render.Backup) (*corev1.PersistentVolumeClaim, error) {
	if b.Method != render.BackupSnapshot {
		return nil, d.Ready()
	}
	if err := d.stopped(); err != nil {
		return nil, err
	}
	claim, missing, err := d.claim(ctx)
	switch {
	case err != nil:
		return nil, err
	case missing != "":
		return nil, fmt.Errorf("no volume can be replaced: %s", missing)
	}
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if needed, err := resource.ParseQuantity(b.Size); err == nil && requested.Cmp(needed) < 0 {
		return nil, fmt.Errorf("claim %s requests %s, and snapshot %s needs %s: set spec.stack.database.container.resources.disk",
			claim.Name, requested.String(), b.Name, needed.String())
	}
	pods := &corev1.PodList{}
	if err := d.Reader.List(ctx, pods, client.InNamespace(claim.Namespace)); err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", claim.Namespace, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; mounts(p, claim.Name) {
			return nil, fmt.Errorf("pod %s uses claim %s", p.Name, claim.Name)
		}
	}
	return claim, nil
}

// stopped returns an error unless the environment is stopped.
func (d *Database) stopped() error {
	phase := render.PhaseOf(d.Of)
	if d.Of.Spec.RunPolicy == v1alpha1.RunPolicyStopped && phase == v1alpha1.EnvironmentStopped &&
		d.Of.Status.ObservedGeneration >= d.Of.Generation {
		return nil
	}
	return fmt.Errorf("status.phase is %s: a snapshot can be restored only while the environment is Stopped (kubectl berth env stop %s --wait)", phase, d.Of.Name)
}

// mounts reports whether a pod that has not ended uses a claim.
func mounts(p *corev1.Pod, claim string) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// RestoreDump creates the Job that restores a dump.
func (d *Database) RestoreDump(ctx context.Context, name, dump string) error {
	u, err := backup.PlainObject(render.RestoreJob(d.Of, name, dump))
	if err != nil {
		return err
	}
	return d.Create(ctx, u)
}

// Restored is the state of the Job that restores a dump.
func (d *Database) Restored(ctx context.Context, name string) (render.Backup, error) {
	job := &batchv1.Job{}
	if err := d.Reader.Get(ctx, client.ObjectKey{Namespace: d.Of.Status.Namespace, Name: name}, job); err != nil {
		return render.Backup{}, err
	}
	return render.BackupOfJob(job, d.pods(ctx)), nil
}

// RestoreSnapshot replaces a claim by one that is created from a snapshot.
func (d *Database) RestoreSnapshot(ctx context.Context, old *corev1.PersistentVolumeClaim, snapshot string, poll,
	timeout time.Duration,
) error {
	key := client.ObjectKeyFromObject(old)
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		return d.replaced(ctx, old, snapshot)
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("PersistentVolumeClaim %s is not recreated after %s: run the command again to continue", key, timeout)
	case err != nil:
		return fmt.Errorf("recreate PersistentVolumeClaim %s from VolumeSnapshot %s: %w", key, snapshot, err)
	}
	return nil
}

// replaced does the next step towards a claim that is created from a snapshot, and reports whether it was the last one. While the old
// claim is being deleted, the controller may create an empty one, which is deleted too: no pod has written to it, because none runs.
func (d *Database) replaced(ctx context.Context, old *corev1.PersistentVolumeClaim, snapshot string) (done bool, err error) {
	have := &corev1.PersistentVolumeClaim{}
	err = d.Reader.Get(ctx, client.ObjectKeyFromObject(old), have)
	switch {
	case apierrors.IsNotFound(err):
		err = d.Writer.Create(ctx, render.ClaimFrom(old, snapshot))
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
	err = d.Writer.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return false, client.IgnoreNotFound(err)
}
