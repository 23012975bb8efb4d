// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/controllerref"
	"berth.dev/berth/internal/kube/hash"
	"berth.dev/berth/internal/mix/governing"
)

// MixesOptions are what Mixes read from.
type MixesOptions struct {
	// Conventions, Store and Defaults are those of the scheduler; Defaults by the scheduler's name.
	Conventions governing.Conventions
	Store       *governing.Registry
	Defaults    map[string]*governing.Mix
	// Owner returns a controller that was seen, nil for others.
	Owner func(uid types.UID) metav1.Object
	// Read returns an owner as the API server has it, nil if it has none of that UID.
	Read func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error)
	// List returns the mixes of a namespace as the API server has them.
	List func(ctx context.Context, namespace string) ([]v1alpha1.CapacityMix, error)
	// Synced reports whether the mixes and the owners are read.
	Synced func() bool
}

// Mixes finds the mix of a pod that is being created. A pod comes moments after
// its owner, and often after its mix, which the watches may not have brought:
// what is missing is read from the API server, once for each owner, as the scheduler does
// (docs/decisions/0004 and 0005). An answer counts for the pod that it was read
// for; the watches stay the only source for others.
type Mixes struct {
	MixesOptions
	// read has owners by ownerKey, nil for one that could not be had; unmatched has the podKeys that no mix matches.
	read, unmatched *lru.Cache
	turns           *turns
}

// ownerKey is an owner as a pod names it. A UID alone may be another's: a review can name any.
type ownerKey struct {
	namespace, kind, name string
	uid                   types.UID
}

// podKey are the pods of an owner that a mix matches alike.
type podKey struct {
	namespace string
	owner     types.UID
	labels    string
}

func podKeyOf(pod *corev1.Pod, owner types.UID) podKey {
	return podKey{pod.Namespace, owner, hash.Of(labels.Set(pod.Labels).String(), hash.Label)}
}

const (
	// rememberedOwners is how many owners are remembered. One that was evicted from the cache is read again.
	rememberedOwners = 4096
	// patience is how long a pod waits for answers: less than the API server waits for the webhook.
	patience = time.Second
)

// NewMixes returns Mixes that have read nothing yet.
func NewMixes(o MixesOptions) *Mixes {
	return &Mixes{
		MixesOptions: o,
		read:         lru.New(rememberedOwners), unmatched: lru.New(rememberedOwners), turns: newTurns(),
	}
}

// For returns the mix that governs a pod in addition to the default of its scheduler,
// and what could not be read of its annotations.
func (m *Mixes) For(ctx context.Context, pod *corev1.Pod) (*governing.Mix, []governing.InvalidAnnotation) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := &governing.Resolver{Conventions: m.Conventions, Mixes: m.Store, Controllers: seenOrRead{ctx, m}}
	found, invalid := r.Resolve(pod)
	ref := metav1.GetControllerOfNoCopy(pod)
	if found != nil || ref == nil || !governing.Governable(pod) {
		return found, invalid
	}
	key := podKeyOf(pod, ref.UID)
	if m.isUnmatched(key) {
		return nil, invalid
	}
	return m.match(ctx, pod, key), invalid
}

// Default returns the mix of pods of a scheduler that nothing else governs.
func (m *Mixes) Default(pod *corev1.Pod) *governing.Mix {
	return governing.DefaultOf(pod, m.Defaults)
}

func (m *Mixes) isUnmatched(key podKey) bool {
	_, known := m.unmatched.Get(key)
	return known
}

// match matches a pod of an owner that nothing governs against the mixes that its namespace has now.
func (m *Mixes) match(ctx context.Context, pod *corev1.Pod, key podKey) *governing.Mix {
	if !m.turns.enter(ctx, pod.Namespace) {
		return nil
	}
	defer m.turns.leave(pod.Namespace)
	if found := m.Store.Match(pod.Namespace, pod.Labels); found != nil || m.isUnmatched(key) {
		return found // while it waited
	}
	mixes, err := m.List(ctx, pod.Namespace)
	if err != nil {
		log.FromContext(ctx).Info("Cannot list the CapacityMixes of a namespace: its new pods get the mixes that are known",
			"namespace", pod.Namespace, "reason", err.Error())
		return nil
	}
	now := m.Store.Empty()
	for i := range mixes {
		_ = now.Set(&mixes[i]) // an invalid one governs nothing
	}
	found := now.Match(pod.Namespace, pod.Labels)
	if found == nil {
		m.unmatched.Add(key, nil)
	}
	return found
}

// seenOrRead are the controllers that are seen or can be read, for one admission.
type seenOrRead struct {
	ctx context.Context //nolint:containedctx // of the one admission that it lives for; governing.Controllers takes none
	*Mixes
}

// Controller implements governing.Controllers.
func (o seenOrRead) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	seen := o.Owner(ref.UID)
	if seen != nil && seen.GetNamespace() != namespace { // owners are of the namespace of their pods
		seen = nil
	}
	if seen != nil || !readable(ref) {
		return seen
	}
	key := ownerKey{namespace, ref.Kind, ref.Name, ref.UID}
	known, ok := o.read.Get(key)
	if !ok {
		if !o.turns.enter(o.ctx, namespace) {
			return nil
		}
		defer o.turns.leave(namespace)
		known, ok = o.read.Get(key) // another one may have read it meanwhile
	}
	if ok {
		object, _ := known.(metav1.Object)
		return object
	}
	object, err := o.Read(o.ctx, namespace, ref)
	if err != nil {
		log.FromContext(o.ctx).Info("Cannot read the owner of a new pod: it counts as one without annotations",
			"namespace", namespace, "kind", ref.Kind, "name", ref.Name, "reason", err.Error())
		return nil
	}
	o.read.Add(key, object)
	return object
}

// readable reports whether an owner is of a kind that may be read: one that
// makes pods and is watched.
func readable(ref *metav1.OwnerReference) bool {
	kind := controllerref.KindOf(ref)
	return kind != "" && kind != controllerref.Deployment
}
