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
)

// scaleTimeout bounds one reading of a scale, scaleAge is how old the answer may be that a decision uses.
const scaleTimeout, scaleAge = 2 * time.Second, 5 * time.Second

// scales reads the scale of an owner.
type scales func(ctx context.Context, owner clusterstate.Workload) (rebalance.Scale, error)

// readScales returns scales of an API server.
func readScales(c client.Client) scales {
	return func(ctx context.Context, owner clusterstate.Workload) (rebalance.Scale, error) {
		switch {
		case owner.APIVersion == "v1" && owner.Kind == "ReplicationController":
			return readReplicationController(ctx, c, owner)
		case governing.RestartsWhole(owner.APIVersion, owner.Kind):
			return rebalance.ReadSet(owner, func(set *unstructured.Unstructured) error {
				return c.Get(ctx, client.ObjectKeyFromObject(set), set)
			})
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
			return rebalance.Scale{}, nil
		case err != nil:
			return rebalance.Scale{}, fmt.Errorf("read the scale of %s: %w", owner, err)
		case object.GetUID() != owner.UID:
			return rebalance.Scale{}, nil
		}
		n, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas") // absent means 0
		return rebalance.Scale{Replicas: int(n), Known: err == nil && n >= 0}, nil
	}
}

// readReplicationController reads what a scale has not. The controller may list ReplicationControllers, for the replay, so it
// lists one.
func readReplicationController(ctx context.Context, c client.Reader, owner clusterstate.Workload) (rebalance.Scale, error) {
	var list corev1.ReplicationControllerList
	err := c.List(ctx, &list, client.InNamespace(owner.Namespace), client.MatchingFields{metav1.ObjectNameField: owner.Name})
	switch {
	case apierrors.IsForbidden(err):
		return rebalance.Scale{}, nil
	case err != nil:
		return rebalance.Scale{}, fmt.Errorf("read %s: %w", owner, err)
	case len(list.Items) == 0 || list.Items[0].UID != owner.UID:
		return rebalance.Scale{}, nil
	}
	spec := &list.Items[0].Spec
	s := rebalance.Scale{Replicas: 1, Known: true, MinReady: clusterstate.MinReady(spec.MinReadySeconds)}
	if spec.Replicas != nil {
		s.Replicas = int(*spec.Replicas)
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
	scale rebalance.Scale
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
func (r *scaleReader) get(ctx context.Context, g *clusterstate.Group) (s rebalance.Scale, ok bool, err error) {
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
			age = rebalance.HoldRefused
		}
		if r.clock.Since(a.at) >= age {
			delete(r.answers, key)
		}
	}
}

// followScale takes over how many pods must be back from the owner, where a move waits for them: the user may have scaled it
// meanwhile. Where it cannot be read, what was there before the move counts.
func (c *Controller) followScale(ctx context.Context, e rebalance.Entry, g *clusterstate.Group) rebalance.Entry {
	if !needsOwner(&e, g) {
		e.Scaled = e.Scaled && !g.Ended
		return e
	}
	if c.scales == nil || !rebalance.RestartsUnits(g) && !rebalance.ByScale(g) {
		return e
	}
	s, ok, err := c.scales.get(ctx, g)
	if !ok || err != nil {
		return e
	}
	e.MinReady, e.Restart = s.MinReady, s.Restart
	e.Had, e.Scaled = s.Follow(g, e.Had, e.Scaled)
	return e
}

// needsOwner reports whether a decision about a workload may depend on what only its owner has.
func needsOwner(e *rebalance.Entry, g *clusterstate.Group) bool {
	return !g.Ended && (e.Had > 0 || !e.WrongSince.IsZero() || mayRestart(g))
}

// mayRestart reports whether a group has units on the wrong type that its operator may create again as a whole.
func mayRestart(g *clusterstate.Group) bool {
	return rebalance.RestartsUnits(g) && len(g.WrongSide()) > 0
}

// now returns the scale of the owner of a workload for a decision about an eviction, nil where there is none to be read. It
// returns an obstacle while it has not been read.
func (r *scaleReader) now(ctx context.Context, a rebalance.Action) (*rebalance.Scale, error) {
	if r == nil || !a.ByScale {
		return nil, nil
	}
	s, ok, err := r.get(ctx, &a.Of.Group)
	if !ok {
		err = rebalance.ReasonStaleView.Obstacle(rebalance.HoldUnread, "the scale of %s has not been read yet", a.Of.Group.Workload)
	}
	return &s, err
}
