// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

// snapshotSource is what a snapshot is made of, and with.
type snapshotSource struct {
	claim, driver, class string
}

// snapshotSource finds what a snapshot of an environment's database would be made of; reason says why there can be none.
func findSnapshotSource(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment) (source *snapshotSource, reason string, err error) {
	claim, reason, err := dataClaim(ctx, c, env)
	if reason != "" || err != nil {
		return nil, reason, err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil, fmt.Sprintf("claim %s is %s", claim.Name, claim.Status.Phase), nil
	}
	volume := &corev1.PersistentVolume{}
	err = c.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	if reason, err := unusable(err, "PersistentVolume "+claim.Spec.VolumeName); reason != "" || err != nil {
		return nil, reason, err
	}
	if volume.Spec.CSI == nil {
		return nil, fmt.Sprintf("PersistentVolume %s is of no CSI driver", volume.Name), nil
	}
	classes := &unstructured.UnstructuredList{}
	kind := render.SnapshotClassKind
	classes.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if reason, err := unusable(c.List(ctx, classes), kind.Kind+"es"); reason != "" || err != nil {
		return nil, reason, err
	}
	class := render.SnapshotClass(classes.Items, volume.Spec.CSI.Driver)
	if class == "" {
		return nil, fmt.Sprintf("there is no %s of driver %s", kind.Kind, volume.Spec.CSI.Driver), nil
	}
	return &snapshotSource{claim.Name, volume.Spec.CSI.Driver, class}, "", nil
}

// dataClaim is the claim that the database of an environment has its data on; reason says why there is none.
func dataClaim(ctx context.Context, c client.Client, env *v1alpha1.Environment) (claim *corev1.PersistentVolumeClaim, reason string, err error) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: env.Status.Namespace, Name: render.Database}
	err = c.Get(ctx, key, set)
	if reason, err := unusable(err, "StatefulSet "+key.String()); reason != "" || err != nil {
		return nil, reason, err
	}
	for label, want := range render.Labels(env) {
		if have := set.Labels[label]; have != want {
			return nil, fmt.Sprintf("StatefulSet %s is of another environment: its label %s is %q", key, label, have), nil
		}
	}
	if key.Name = render.DataClaim(set); key.Name == "" {
		return nil, "the data of the database is on no claim", nil
	}
	claim = &corev1.PersistentVolumeClaim{}
	err = c.Get(ctx, key, claim)
	reason, err = unusable(err, "PersistentVolumeClaim "+key.String())
	return claim, reason, err
}

// unusable makes an error why there can be no snapshot, if that is all that it means.
func unusable(err error, what string) (reason string, _ error) {
	switch {
	case err == nil:
		return "", nil
	case command.NoSuchKind(err):
		return "the cluster does not serve " + render.SnapshotKind.GroupVersion().String(), nil
	case apierrors.IsNotFound(err):
		return what + " is not there", nil
	case apierrors.IsForbidden(err):
		return "you may not read " + what, nil
	}
	return "", fmt.Errorf("read %s: %w", what, err)
}
