// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/kinds"
)

// Claim describes the volume claim for dumps, which the first dump creates.
type Claim struct {
	Size resource.Quantity
	// Class is the StorageClass, "" for the default of the cluster.
	Class string
	// Given is set where the user chose size or class.
	Given bool
}

// Plan is how a backup is made: the objects to create, the backup itself last.
type Plan struct {
	Method render.BackupMethod
	// Why is the reason for the method.
	Why     string
	Objects []*unstructured.Unstructured
}

// Plan chooses the method of a backup if that is auto, and returns what is to be created.
func (d *Database) Plan(ctx context.Context, name string, method render.BackupMethod, claim Claim) (*Plan, error) {
	why := "as configured"
	if method != render.BackupDump {
		snapshot, how, err := d.snapshot(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case snapshot != nil:
			return &Plan{Method: render.BackupSnapshot, Why: how, Objects: []*unstructured.Unstructured{snapshot}}, nil
		case method == render.BackupSnapshot:
			return nil, fmt.Errorf("no snapshot is possible: %s", how)
		}
		why = "no snapshot is possible: " + how
	}
	if err := d.Ready(); err != nil {
		return nil, fmt.Errorf("method dump (%s): %w", why, err)
	}
	objects, err := d.dump(ctx, name, claim)
	if err != nil {
		return nil, err
	}
	return &Plan{Method: render.BackupDump, Why: why, Objects: objects}, nil
}

// Create creates an object of a plan.
func (d *Database) Create(ctx context.Context, u *unstructured.Unstructured) error {
	err := d.Writer.Create(ctx, u.DeepCopy())
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s already exists", backup.KeyOf(u))
	case err != nil:
		return fmt.Errorf("create %s: %w", backup.KeyOf(u), err)
	}
	return nil
}

// dump returns the objects that make a dump: the Job, and the claim if it does not exist.
func (d *Database) dump(ctx context.Context, name string, wanted Claim) (list []*unstructured.Unstructured, err error) {
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: d.Of.Status.Namespace, Name: render.BackupsClaim}
	var objects []client.Object
	switch err := d.Reader.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		objects = append(objects, render.ClaimOfBackups(d.Of, wanted.Size, wanted.Class))
	case err != nil:
		return nil, fmt.Errorf("read PersistentVolumeClaim %s: %w", key, err)
	case claim.Labels[render.BackupOfLabel] != d.Of.Name:
		return nil, fmt.Errorf("PersistentVolumeClaim %s exists and is not for backups of this environment: its label %s is %q", key,
			render.BackupOfLabel, claim.Labels[render.BackupOfLabel])
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("PersistentVolumeClaim %s is being deleted", key)
	case wanted.Given:
		d.Warn("PersistentVolumeClaim %s already exists: --size and --storage-class are ignored", key)
	}
	for _, object := range append(objects, render.DumpJob(d.Of, name)) {
		u, err := backup.PlainObject(object)
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

// snapshot returns a snapshot of the volume of the database; how says from what, or, if it is nil, why no snapshot is possible.
func (d *Database) snapshot(ctx context.Context, name string) (snapshot *unstructured.Unstructured, how string, err error) {
	claim, missing, err := d.claim(ctx)
	if missing != "" || err != nil {
		return nil, missing, err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil, fmt.Sprintf("claim %s is %s", claim.Name, claim.Status.Phase), nil
	}
	volume := &corev1.PersistentVolume{}
	err = d.Reader.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	if missing, err := absent(err, "PersistentVolume "+claim.Spec.VolumeName); missing != "" || err != nil {
		return nil, missing, err
	}
	if volume.Spec.CSI == nil {
		return nil, fmt.Sprintf("PersistentVolume %s has no CSI driver", volume.Name), nil
	}
	driver := volume.Spec.CSI.Driver
	kind := render.SnapshotClassKind
	classes := kinds.ListOf(kind)
	if missing, err := absent(d.Reader.List(ctx, classes), kind.Kind+"es"); missing != "" || err != nil {
		return nil, missing, err
	}
	class := render.SnapshotClass(classes.Items, driver)
	if class == "" {
		return nil, fmt.Sprintf("no %s is for driver %s", kind.Kind, driver), nil
	}
	return render.Snapshot(d.Of, name, claim.Name, class), fmt.Sprintf("claim %s has driver %s, which has VolumeSnapshotClass %s",
		claim.Name, driver, class), nil
}

// claim returns the volume claim of the database; missing says why there is none.
func (d *Database) claim(ctx context.Context) (claim *corev1.PersistentVolumeClaim, missing string, err error) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: d.Of.Status.Namespace, Name: render.Database}
	err = d.Reader.Get(ctx, key, set)
	if missing, err := absent(err, "StatefulSet "+key.String()); missing != "" || err != nil {
		return nil, missing, err
	}
	for label, want := range render.Labels(d.Of) {
		if have := set.Labels[label]; have != want {
			return nil, fmt.Sprintf("StatefulSet %s belongs to another environment: its label %s is %q", key, label, have), nil
		}
	}
	if key.Name = render.DataClaim(set); key.Name == "" {
		return nil, "the data of the database is not on a volume claim", nil
	}
	claim = &corev1.PersistentVolumeClaim{}
	err = d.Reader.Get(ctx, key, claim)
	missing, err = absent(err, "PersistentVolumeClaim "+key.String())
	return claim, missing, err
}

// absent turns an error into the reason why something cannot be used, if that is all that the error means.
func absent(err error, what string) (missing string, _ error) {
	switch {
	case err == nil:
		return "", nil
	case kinds.NotServed(err):
		return "the API server does not serve " + render.SnapshotKind.GroupVersion().String(), nil
	case apierrors.IsNotFound(err):
		return what + " does not exist", nil
	case apierrors.IsForbidden(err):
		return "you are not allowed to read " + what, nil
	}
	return "", fmt.Errorf("read %s: %w", what, err)
}
