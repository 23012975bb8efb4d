// SPDX-License-Identifier: Apache-2.0

// Package database backs up the databases of Environments and restores them: by a VolumeSnapshot, or by a Job that dumps.
package database

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
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
		return fmt.Errorf("a dump requires a running database, and spec.runPolicy is Stopped (kubectl berth env start %s --wait)", d.Of.Name)
	}
	for i := range d.Of.Status.Components {
		switch s := &d.Of.Status.Components[i]; {
		case s.Name != render.Database:
		case s.Ready:
			return nil
		default:
			return fmt.Errorf("a dump requires a database that is ready, and component database is not: %s", strings.Trim(s.Reason+": "+s.Message, ": "))
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
	jobs, snapshots := &batchv1.JobList{}, &unstructured.UnstructuredList{}
	snapshots.SetGroupVersionKind(render.SnapshotKind.GroupVersion().WithKind(render.SnapshotKind.Kind + "List"))
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
