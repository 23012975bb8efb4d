// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
)

// bring has the cluster have what it should, and nothing else of the environment but its volumes.
func (r *Reconciler) bring(ctx context.Context, l *look) error {
	applied, refused, err := r.add(ctx, l.env, l.missing())
	if err != nil {
		return err
	}
	dropped, err := r.prune(ctx, l, refused != nil)
	if err != nil {
		return err
	}
	if l.env.Spec.ForceStop && l.env.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		if err := r.endNow(ctx, l); err != nil {
			return err
		}
	}
	if len(applied) > 0 || len(dropped) > 0 {
		log.FromContext(ctx).Info("Applied what was rendered", "objects", strings.Join(applied, ", "), "deleted", strings.Join(dropped, ", "))
	}
	if refused != nil {
		return &refusal{v1alpha1.ReasonRefused, refused}
	}
	return nil
}

// add has the API server take over what is missing. What it refuses, or another user has, leaves the others as they are.
func (r *Reconciler) add(ctx context.Context, env *v1alpha1.Environment, missing []*unstructured.Unstructured) (applied []string, refused, err error) {
	if len(missing) > 0 && own(env) {
		if err := r.namespace(ctx, env); err != nil {
			return nil, nil, err
		}
	}
	for _, want := range missing {
		switch err := r.ofRoute(want, r.apply(ctx, env, want)); {
		case err == nil:
			applied = append(applied, want.GetKind()+" "+want.GetName())
		case uncounted(err):
			return nil, nil, errNotYet
		case isRefusal(err):
			refused = errors.Join(refused, err)
		default:
			return nil, nil, err
		}
	}
	return applied, refused, nil
}

// uncounted reports whether the API server refuses an object because the ResourceQuota of the namespace, which was created a
// moment ago, has no usage yet.
func uncounted(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "status unknown for quota")
}

func isRefusal(err error) bool {
	if _, is := errors.AsType[*applyset.RefusedError](err); is {
		return true
	}
	_, is := errors.AsType[*refusal](err)
	return is
}

// apply has the API server take over an object, unless another user has one of its name.
func (r *Reconciler) apply(ctx context.Context, env *v1alpha1.Environment, want *unstructured.Unstructured) error {
	if !own(env) { // a namespace of its own has nothing of others
		if !(&child{want, want.GetKind()}).holdsData() { // which may outlive the environment
			own := *metav1.NewControllerRef(env, environmentKind)
			own.BlockOwnerDeletion = nil // whoever may delete an environment may not set finalizers on it
			want.SetOwnerReferences([]metav1.OwnerReference{own})
		}
		if err := r.free(ctx, env, want); err != nil {
			return err
		}
	}
	return applyset.Object(ctx, r.Client, want.DeepCopy(), FieldOwner)
}

// free refuses to take over what another user made.
func (r *Reconciler) free(ctx context.Context, env *v1alpha1.Environment, want *unstructured.Unstructured) error {
	have, err := applyset.Metadata(ctx, r.Live, want)
	if err != nil || have == nil || madeFor(have, env) {
		return err
	}
	return &refusal{v1alpha1.ReasonNameTaken, fmt.Errorf("there is a %s %s already that was not made for this environment", want.GetKind(), want.GetName())}
}

// prune deletes what was made for the environment and is not requested any more. What holds data stays: a component that is
// taken out by mistake finds its volume again. So does what leads domains to the frontend, while what takes its place may be refused.
func (r *Reconciler) prune(ctx context.Context, l *look, refused bool) (dropped []string, err error) {
	for i := range l.there {
		c := &l.there[i]
		asked := slices.ContainsFunc(l.wanted, func(w *unstructured.Unstructured) bool {
			return w.GetKind() == c.kind && w.GetName() == c.GetName()
		})
		if asked || c.holdsData() && l.hasClaims() && !l.abandoned || refused && l.replaced(c) {
			continue
		}
		if err := applyset.Delete(ctx, r.Client, c.Object); err != nil {
			return nil, err
		}
		dropped = append(dropped, c.kind+" "+c.GetName())
	}
	return dropped, nil
}

const (
	claimKind  = "PersistentVolumeClaim"
	secretKind = "Secret"
)

// endNow ends the pods that are left without giving them time.
func (r *Reconciler) endNow(ctx context.Context, l *look) error {
	for i := range l.pods {
		p := &l.pods[i]
		if p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 {
			continue
		}
		err := r.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}},
			client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("end pod %s: %w", p.Name, err)
		}
	}
	return nil
}
