// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/kinds"
)

// newSnapshot returns a snapshot of the volume of a database; missing is the reason why none is possible.
func (o Options) newSnapshot(ctx context.Context, b *v1alpha1.DatabaseBackup, env *v1alpha1.Environment) (
	snapshot *unstructured.Unstructured, missing string, err error,
) {
	claim, missing, err := o.dataClaim(ctx, env)
	if missing != "" || err != nil {
		return nil, missing, err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil, fmt.Sprintf("claim %s is %s", claim.Name, claim.Status.Phase), nil
	}
	volume := &corev1.PersistentVolume{}
	err = o.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	if missing, err := absent(err, "PersistentVolume "+claim.Spec.VolumeName); missing != "" || err != nil {
		return nil, missing, err
	}
	if volume.Spec.CSI == nil {
		return nil, fmt.Sprintf("PersistentVolume %s has no CSI driver", volume.Name), nil
	}
	driver, kind := volume.Spec.CSI.Driver, render.SnapshotClassKind
	classes := kinds.ListOf(kind)
	if missing, err := absent(o.Live.List(ctx, classes), kind.Kind+"es"); missing != "" || err != nil {
		return nil, missing, err
	}
	class := render.SnapshotClass(classes.Items, driver)
	if class == "" {
		return nil, fmt.Sprintf("no %s is for driver %s", kind.Kind, driver), nil
	}
	return render.Snapshot(env, b, claim.Name, class), "", nil
}

// dataClaim returns the volume claim that a database has its data on; missing is the reason why there is none.
func (o Options) dataClaim(ctx context.Context, env *v1alpha1.Environment) (
	claim *corev1.PersistentVolumeClaim, missing string, err error,
) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: env.Status.Namespace, Name: stack.Database}
	err = o.Live.Get(ctx, key, set)
	if missing, err := absent(err, "StatefulSet "+key.String()); missing != "" || err != nil {
		return nil, missing, err
	}
	for label, want := range render.Labels(env) {
		if have := set.Labels[label]; have != want {
			return nil, fmt.Sprintf("StatefulSet %s belongs to another environment: its label %s is %q", key, label, have), nil
		}
	}
	if key.Name = render.DataClaim(set); key.Name == "" {
		return nil, "the data of the database is not on a volume claim", nil
	}
	claim = &corev1.PersistentVolumeClaim{}
	err = o.Live.Get(ctx, key, claim)
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
	}
	return "", fmt.Errorf("read %s: %w", what, err)
}
