// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// PauseConfigMap is the name of the ConfigMap that pauses the moves of the cluster, in the namespace of Berth.
const PauseConfigMap = "berth-controller" + v1alpha1.PauseConfigMapSuffix

// ClusterPause returns the pause of the moves of the cluster, nil if there is none.
func (i Installation) ClusterPause(ctx context.Context, c client.Reader) (*rebalance.Pause, error) {
	var object corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: i.SystemNamespace, Name: PauseConfigMap}, &object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pauseOf(rebalance.PausedCluster, "", &object), nil
}

// NamespacePause returns the pause of the moves of a namespace, nil if there is none.
func NamespacePause(ctx context.Context, c client.Reader, name string) (*rebalance.Pause, error) {
	var object corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pauseOf(rebalance.PausedNamespace, name, &object), nil
}

func pauseOf(scope rebalance.PauseScope, name string, object client.Object) *rebalance.Pause {
	if !rebalance.IsPaused(object) {
		return nil
	}
	return new(rebalance.PauseOf(scope, name, object))
}

// PausesOver returns the pauses that the mixes of a namespace are under, the widest first. The error names what could not be read; the
// pauses are then those that could.
func (i Installation) PausesOver(ctx context.Context, c client.Reader, namespace string) (list []rebalance.Pause, err error) {
	add := func(p *rebalance.Pause, what string, failed error) {
		switch {
		case apierrors.IsForbidden(failed):
			err = errors.Join(err, fmt.Errorf("not allowed: read whether %s is paused", what))
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("read whether %s is paused: %w", what, failed))
		case p != nil:
			list = append(list, *p)
		}
	}
	p, failed := i.ClusterPause(ctx, c)
	add(p, "the cluster", failed)
	p, failed = NamespacePause(ctx, c, namespace)
	add(p, "namespace "+namespace, failed)
	return list, err
}

// Unread is why something is not known that was to be read, "" without an error.
func Unread(what string, err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "not allowed: read " + what
	}
	return fmt.Sprintf("cannot read %s: %v", what, err)
}

// pauses reads those over each namespace once.
func (u *User) pauses() func(context.Context, string) []rebalance.Pause {
	known := map[string][]rebalance.Pause{}
	return func(ctx context.Context, namespace string) []rebalance.Pause {
		list, there := known[namespace]
		if there {
			return list
		}
		list, err := u.PausesOver(ctx, u.Client, namespace)
		if err != nil {
			u.Warn("%v", err)
		}
		known[namespace] = list
		return list
	}
}
