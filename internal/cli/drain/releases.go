// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/controllerref"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// releasers returns a function that has the mix which releases a pod, by what governs the pods of its namespace.
func (d *drainer) releasers(ctx context.Context, pods []corev1.Pod) (func(*corev1.Pod) (string, bool), error) {
	r := governing.Resolver{
		Conventions: arguments.Conventions(d.settings.Profile.Args), Mixes: governing.NewRegistry(), Controllers: d.owners,
	}
	mixes := map[client.ObjectKey]*v1alpha1.CapacityMix{}
	read := map[string]bool{}
	for i := range pods {
		if err := d.readOwner(ctx, &pods[i]); err != nil {
			return nil, err
		}
		namespace := pods[i].Namespace
		if read[namespace] {
			continue
		}
		read[namespace] = true
		list := &v1alpha1.CapacityMixList{}
		if err := d.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list the CapacityMixes of namespace %s: %w", namespace, err)
		}
		for j := range list.Items {
			cm := &list.Items[j]
			_ = r.Mixes.Set(cm) // one that is not valid selects nothing
			mixes[client.ObjectKeyFromObject(cm)] = cm
		}
	}
	return d.releaser(&r, mixes), nil
}

// releaser is the function of releasers, by the CapacityMixes that were read.
func (d *drainer) releaser(
	r *governing.Resolver, mixes map[client.ObjectKey]*v1alpha1.CapacityMix,
) func(pod *corev1.Pod) (mix string, is bool) {
	return func(pod *corev1.Pod) (string, bool) {
		mix, _ := r.Resolve(pod)
		if mix == nil {
			mix = governing.DefaultOf(pod, d.settings.Defaults)
		}
		if mix == nil {
			return "", false
		}
		cm := mixes[client.ObjectKey{Namespace: pod.Namespace, Name: mix.CapacityMix()}]
		s, err := d.settings.RebalanceSettings(mix, cm)
		named := cm != nil && cm.Spec.Rebalance != nil && cm.Spec.Rebalance.Strategy != ""
		if !named && d.settings.ControllerSource == overview.ShippedDefaults {
			d.assume(nameOf(mix), s.Strategy)
		}
		return nameOf(mix), err == nil && s.Strategy.Releases()
	}
}

// assume warns once of a strategy that is not known.
func (d *drainer) assume(mix string, s rebalance.Strategy) {
	if !d.assumed {
		d.assumed = true
		d.Warn("the configuration of berth-controller cannot be read in namespace %s (--system-namespace): %s has no rebalance.strategy, and "+
			"is taken to have %s", d.SystemNamespace, mix, s)
	}
}

// nameOf names a mix in a sentence.
func nameOf(m *governing.Mix) string {
	if name := m.CapacityMix(); name != "" {
		return "mix " + name
	}
	if m.Source == governing.SourceDefault {
		return overview.SourceText(m.Source)
	}
	return "the mix in " + overview.SourceText(m.Source)
}

// owners are the ReplicaSets of the pods that were seen, by UID, nil for one that is not there. Their annotations are those of their
// Deployments.
type owners map[types.UID]*appsv1.ReplicaSet

// Controller implements governing.Controllers.
func (o owners) Controller(_ string, ref *metav1.OwnerReference) metav1.Object {
	if rs := o[ref.UID]; rs != nil {
		return rs
	}
	return nil
}

// readOwner reads the ReplicaSet of a pod, once.
func (d *drainer) readOwner(ctx context.Context, pod *corev1.Pod) error {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || controllerref.KindOf(ref) != controllerref.ReplicaSet {
		return nil
	}
	if _, known := d.owners[ref.UID]; known {
		return nil
	}
	rs := &appsv1.ReplicaSet{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: ref.Name}, rs)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the ReplicaSet of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err != nil || rs.UID != ref.UID {
		rs = nil
	}
	d.owners[ref.UID] = rs
	return nil
}
