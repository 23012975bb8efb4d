// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
)

// Suggest returns what the mixes of the workloads of a namespace could be, or of all with "". What may not be read is a warning, and
// unknown in the result.
func (u *User) Suggest(ctx context.Context, namespace string, selector labels.Selector, options prices.Options,
) (*overview.Suggestions, *prices.Book, error) {
	cluster, err := u.Load(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	if cluster.Missing("pods") {
		return nil, nil, errors.New("cannot list pods: suggestions depend on them")
	}
	in := overview.SuggestInput{Cluster: cluster, Selector: selector, Now: u.Now()}
	if in.Book, err = u.Prices(ctx, options); err != nil {
		return nil, nil, err
	}
	if err := u.volumes(ctx, &in, namespace); err != nil {
		return nil, nil, err
	}
	if in.Interruptions, err = u.Interruptions(ctx, u.Client, cluster.Settings, u.Now()); err != nil {
		in.Interruptions = nil
		u.Warn("%s: domains in quarantine are unknown", Unread("ConfigMap "+interruptions.ConfigMap, err))
	}
	return overview.Suggest(in), in.Book, nil
}

// volumes reads the claims and volumes of pods, if a pod has a claim.
func (u *User) volumes(ctx context.Context, in *overview.SuggestInput, namespace string) error {
	if !slices.ContainsFunc(in.Pods, claims) {
		return nil
	}
	already := len(in.Problems)
	err := load(ctx, u.Client, in.Cluster, func(l *loader) {
		in.Claims = objects[*corev1.PersistentVolumeClaim](l, namespace, overview.ClaimsResource, &corev1.PersistentVolumeClaimList{})
		in.Volumes = objects[*corev1.PersistentVolume](l, "", overview.VolumesResource, &corev1.PersistentVolumeList{})
	})
	u.warnOf(in.Problems[already:])
	return err
}

// claims reports whether a pod has a claim of a volume.
func claims(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}
