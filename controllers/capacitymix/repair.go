// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/fleet"
)

// stale returns the annotations of a pod that should say something else, with
// what they should say. Only a pod that carries a slot of ours has any, and one
// that asked for a slot and was let go without.
//
// A slot is stale when an older pod holds the same one. The deletion cost is
// mended only together with the slot, and only if it was "-<old slot>": any
// other value is the user's.
func stale(g *fleet.Group, s fleet.Seat) map[string]string {
	have := s.Pod.Annotations
	old, marked := have[v1alpha1.SlotAnnotation]
	letGo := have[v1alpha1.GateOpenedAnnotation] == v1alpha1.GateOpenedNoLeader
	if !marked && !letGo || s.Place != fleet.Settled {
		return nil
	}
	want := map[string]string{}
	slot := strconv.Itoa(s.Slot)
	if old != slot {
		want[v1alpha1.SlotAnnotation] = slot
		ours := ""
		if marked {
			ours = "-" + old
		}
		if have[v1alpha1.PodDeletionCostAnnotation] == ours {
			want[v1alpha1.PodDeletionCostAnnotation] = "-" + slot
		}
	}
	if t := g.Policy.Mix.TypeOf(s.Slot).String(); have[v1alpha1.CapacityTypeAnnotation] != t {
		want[v1alpha1.CapacityTypeAnnotation] = t
	}
	if have[v1alpha1.MixAnnotation] != g.Policy.Source {
		want[v1alpha1.MixAnnotation] = g.Policy.Source
	}
	return want
}

// repair mends the annotations of a namespace's pods, and returns when the rest
// may follow; 0 if nothing is left.
func (r *Reconciler) repair(ctx context.Context, namespace string) time.Duration {
	if r.RepairsPerMinute == 0 {
		return 0
	}
	for _, e := range r.Board.Namespace(namespace) {
		for _, s := range e.Group.Seats {
			want := stale(&e.Group, s)
			if len(want) == 0 {
				continue
			}
			if !r.repairs.Allow() {
				return soon
			}
			if err := r.annotate(ctx, s.Pod, want); err != nil {
				log.FromContext(ctx).Error(err, "Cannot mend the annotations of a pod", "pod", key(s.Pod.Namespace, s.Pod.Name))
				return soon
			}
		}
	}
	return 0
}

// annotate patches a pod unless it is another one of the same name by now.
func (r *Reconciler) annotate(ctx context.Context, p *fleet.Pod, want map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": want}})
	if err != nil {
		return err
	}
	_, err = r.Kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldOwner})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another pod: the watch will tell
	}
	if err != nil {
		return fmt.Errorf("patch pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	repairs.Inc()
	log.FromContext(ctx).Info("Mended the annotations of a pod", "pod", key(p.Namespace, p.Name), "annotations", want)
	return nil
}
