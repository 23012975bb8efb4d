// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/policy"
)

// stale returns the annotations of a pod that should say something else, with
// what they should say. Only a pod that carries a slot of ours has any, and one
// that asked for a slot and was let go without.
//
// A slot is stale when an older pod holds the same one. The deletion cost is
// mended only together with the slot, and only if it was "-<old slot>": any
// other value is the user's.
func stale(g *fleet.Group, s fleet.Seat) map[string]string {
	have := func(key string) string {
		v, _ := s.Pod.Annotation(key)
		return v
	}
	old, marked := s.Pod.Annotation(v1alpha1.SlotAnnotation)
	letGo := have(v1alpha1.GateOpenedAnnotation) == v1alpha1.GateOpenedNoLeader
	if !marked && !letGo || s.Place != fleet.Settled {
		return nil
	}
	var want map[string]string // made when there is something to say: it is asked of every replica that changes
	set := func(key, value string) {
		if want == nil {
			want = map[string]string{}
		}
		want[key] = value
	}
	slot := strconv.Itoa(s.Slot)
	if old != slot {
		set(v1alpha1.SlotAnnotation, slot)
		ours := ""
		if marked {
			ours = "-" + old
		}
		if have(v1alpha1.PodDeletionCostAnnotation) == ours {
			set(v1alpha1.PodDeletionCostAnnotation, "-"+slot)
		}
	}
	if t := g.Policy.Mix.TypeOf(s.Slot).String(); have(v1alpha1.CapacityTypeAnnotation) != t {
		set(v1alpha1.CapacityTypeAnnotation, t)
	}
	if have(v1alpha1.MixAnnotation) != g.Policy.Source {
		set(v1alpha1.MixAnnotation, g.Policy.Source)
	}
	return want
}

// note remembers the workloads of a decision that have annotations to be mended,
// and reports whether there are any.
func (r *Reconciler) note(d board.Decision) (found bool) {
	if r.repairs.Limit() == 0 {
		return false
	}
	for _, key := range d.Groups {
		if e, known := r.Board.Get(key); known && slices.ContainsFunc(e.Group.Seats, func(s fleet.Seat) bool { return len(stale(&e.Group, s)) > 0 }) {
			r.setStale(key, true)
			found = true
		}
	}
	return found
}

func (r *Reconciler) setStale(key policy.GroupKey, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.stale[key.Namespace]
	switch {
	case is && all == nil:
		r.stale[key.Namespace] = map[policy.GroupKey]bool{key: true}
	case is:
		all[key] = true
	default:
		if delete(all, key); len(all) == 0 {
			delete(r.stale, key.Namespace)
		}
	}
}

func (r *Reconciler) staleIn(namespace string) []policy.GroupKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.stale[namespace]))
}

// repair mends the annotations of a namespace's pods, and returns when the rest
// may follow; 0 if nothing is left.
func (r *Reconciler) repair(ctx context.Context, namespace string) time.Duration {
	if r.repairs.Limit() == 0 {
		return 0
	}
	for _, key := range r.staleIn(namespace) {
		r.setStale(key, false) // before it is read: what is decided meanwhile counts
		e, _ := r.Board.Get(key)
		if !r.mend(ctx, &e.Group) {
			r.setStale(key, true)
			return soon
		}
	}
	return 0
}

// mend reports whether all of a workload's annotations were mended.
func (r *Reconciler) mend(ctx context.Context, g *fleet.Group) bool {
	for _, s := range g.Seats {
		want := stale(g, s)
		if len(want) == 0 {
			continue
		}
		if !r.repairs.Allow() {
			return false
		}
		if err := r.annotate(ctx, s.Pod, want); err != nil {
			log.FromContext(ctx).Error(err, "Cannot mend the annotations of a pod", "pod", key(s.Pod.Namespace, s.Pod.Name))
			return false
		}
	}
	return true
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
