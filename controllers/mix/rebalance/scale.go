// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/replacement"
)

const (
	// scaleTimeout bounds one reading of a scale, scaleAge is how old the answer may be that a decision uses.
	scaleTimeout, scaleAge = 2 * time.Second, 5 * time.Second
	// holdUnread is how long a workload waits for the scale of its owner.
	holdUnread = time.Second
)

// scale is how many replicas an owner requests of a kind that the cluster state does not watch, and how long a pod must be Ready
// to be available. known is false where the kind has no scale subresource, or the owner is another one by now.
type scale struct {
	replicas int
	known    bool
	minReady time.Duration
}

// scales reads the scale of an owner.
type scales func(ctx context.Context, owner clusterstate.Workload) (scale, error)

// readScales returns scales of an API server.
func readScales(c client.Client) scales {
	return func(ctx context.Context, owner clusterstate.Workload) (scale, error) {
		if owner.APIVersion == "v1" && owner.Kind == "ReplicationController" {
			return readReplicationController(ctx, c, owner)
		}
		parent, object := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		parent.SetAPIVersion(owner.APIVersion)
		parent.SetKind(owner.Kind)
		parent.SetNamespace(owner.Namespace)
		parent.SetName(owner.Name)
		object.SetAPIVersion("autoscaling/v1")
		object.SetKind("Scale")
		err := c.SubResource("scale").Get(ctx, parent, object)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), meta.IsNoMatchError(err):
			return scale{}, nil
		case err != nil:
			return scale{}, fmt.Errorf("read the scale of %s: %w", owner, err)
		case object.GetUID() != owner.UID:
			return scale{}, nil
		}
		n, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas") // absent means 0
		return scale{replicas: int(n), known: err == nil && n >= 0}, nil
	}
}

// readReplicationController reads what a scale has not. The controller may list ReplicationControllers, for the replay, so it
// lists one.
func readReplicationController(ctx context.Context, c client.Reader, owner clusterstate.Workload) (scale, error) {
	var list corev1.ReplicationControllerList
	err := c.List(ctx, &list, client.InNamespace(owner.Namespace), client.MatchingFields{metav1.ObjectNameField: owner.Name})
	switch {
	case apierrors.IsForbidden(err):
		return scale{}, nil
	case err != nil:
		return scale{}, fmt.Errorf("read %s: %w", owner, err)
	case len(list.Items) == 0 || list.Items[0].UID != owner.UID:
		return scale{}, nil
	}
	spec := &list.Items[0].Spec
	s := scale{replicas: 1, known: true, minReady: clusterstate.MinReady(spec.MinReadySeconds)}
	if spec.Replicas != nil {
		s.replicas = int(*spec.Replicas)
	}
	return s, nil
}

// scaleReader reads scales in the background: a tenant chooses the kind that an owner reference names, and the server of that
// kind, an aggregated API or a conversion webhook, may be slow or gone. The worker, which decides for all tenants, never waits
// for it, and what it does not answer is no outage of the API server. One scale of a namespace is read at a time.
type scaleReader struct {
	read  scales
	clock clock.PassiveClock
	// done is called after a scale was read.
	done func(governing.GroupKey)
	// start runs a function in the background.
	start func(func())

	mu      sync.Mutex // guards what follows
	answers map[governing.GroupKey]scaleAnswer
	busy    map[string]bool // by namespace
}

type scaleAnswer struct {
	scale
	owner clusterstate.Workload
	err   error
	at    time.Time
}

// newScaleReader returns a reader that calls done after each answer.
func newScaleReader(read scales, passive clock.PassiveClock, done func(governing.GroupKey)) *scaleReader {
	return &scaleReader{
		read: read, clock: passive, done: done, start: func(f func()) { go f() },
		answers: map[governing.GroupKey]scaleAnswer{}, busy: map[string]bool{},
	}
}

// get returns the scale of a group's owner. Ok is false until it has been read, which the first call begins. An error is kept
// for as long as a refused workload is held, so that a server that does not answer is not called all the time.
func (r *scaleReader) get(ctx context.Context, g *clusterstate.Group) (s scale, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	if a, there := r.fresh(g); there {
		return a.scale, true, a.err
	}
	if key, owner := g.Key, g.Workload; !r.busy[key.Namespace] {
		r.busy[key.Namespace] = true
		ctx = context.WithoutCancel(ctx) // that of a reconcile
		r.mu.Unlock()
		r.start(func() { r.answer(ctx, key, owner) })
		r.mu.Lock()
	}
	a, there := r.fresh(g) // a test reads at once
	return a.scale, there, a.err
}

func (r *scaleReader) fresh(g *clusterstate.Group) (a scaleAnswer, ok bool) {
	a, ok = r.answers[g.Key]
	return a, ok && a.owner == g.Workload
}

// answer reads one scale.
func (r *scaleReader) answer(ctx context.Context, key governing.GroupKey, owner clusterstate.Workload) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	s, err := r.read(ctx, owner)
	r.mu.Lock()
	r.answers[key] = scaleAnswer{scale: s, owner: owner, err: err, at: r.clock.Now()}
	delete(r.busy, key.Namespace)
	r.mu.Unlock()
	if err == nil {
		r.done(key)
	}
}

// forget drops the answers that are too old; r.mu is held.
func (r *scaleReader) forget() {
	for key, a := range r.answers {
		age := scaleAge
		if a.err != nil {
			age = holdRefused
		}
		if r.clock.Since(a.at) >= age {
			delete(r.answers, key)
		}
	}
}

// followScale takes over how many pods must be back from the owner, where a move waits for them: the user may have scaled it
// meanwhile. Where it cannot be read, what was there before the move counts.
func (c *Controller) followScale(ctx context.Context, e rebalance.Entry, g *clusterstate.Group) rebalance.Entry {
	if g.Ended || e.Had == 0 && e.WrongSince.IsZero() {
		e.Scaled = e.Scaled && !g.Ended
		return e
	}
	if s, ok, err := c.scales.of(ctx, g); ok && err == nil {
		if e.MinReady = s.minReady; s.known && e.Had > 0 {
			e.Had, e.Scaled = rebalance.FollowScale(e.Had, e.Scaled, s.replicas)
		}
	}
	return e
}

// checkScale returns a hold for the first move of a workload with fewer pods than the scale of its owner requests: pods that
// were missing before are recorded nowhere else. For the moves after it, Had is the number: the entry notes whether it follows the
// scale from here on.
func (c *Controller) checkScale(ctx context.Context, w *evaluation, v rebalance.Verdict) *rebalance.Hold {
	if !c.scales.reads(&w.Group) {
		return nil
	}
	s, ok, err := c.scales.of(ctx, &w.Group)
	have := len(w.Group.Assignments) + len(w.Group.Taken)
	switch {
	case !ok:
		return w.hold(v, rebalance.ReasonStaleView, holdUnread, "the scale of %s has not been read yet", w.Group.Workload)
	case err != nil:
		return w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	case w.Group.MinReady < s.minReady: // it is decided again with it
		w.MinReady, w.Group.MinReady = s.minReady, s.minReady
	}
	switch {
	case !s.known || w.Had != 0:
		return nil
	case have < s.replicas:
		return w.hold(v, rebalance.ReasonReplicasMissing, holdRefused, "the owner has %d pods, and its scale requests %d", have, s.replicas)
	}
	_, w.Scaled = rebalance.FollowScale(len(w.Group.Assignments), false, s.replicas)
	return nil
}

// reads reports whether only the scale of a group's owner has the number of replicas that it requests. A kind of
// Kubernetes that creates no pods itself counts others, such as a Deployment those of its ReplicaSets.
func (r *scaleReader) reads(g *clusterstate.Group) bool {
	return !g.Counted && r != nil && string(g.Workload.UID) == g.Key.ID &&
		replacement.KindOf(g.Workload.APIVersion, g.Workload.Kind) != replacement.Nobody
}

// of returns the scale of a group's owner; ok is false where there is no answer yet.
func (r *scaleReader) of(ctx context.Context, g *clusterstate.Group) (s scale, ok bool, err error) {
	if !r.reads(g) {
		return scale{}, false, nil
	}
	return r.get(ctx, g)
}
