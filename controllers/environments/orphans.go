// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/orphans"
)

// reportedAtOnce is how many orphans a search reports. The next one reports more: a tenant may label any number of objects.
const reportedAtOnce = 100

// known is when each orphan was first found. What was found before a restart counts from the first search after it.
type known map[types.UID]time.Time

// next returns the orphans that are new, and those that were found for long enough to be deleted; after 0 deletes none. It forgets
// what is no longer found. An orphan that has volumes, or whose name Berth does not give, is never due.
func (k known) next(found []orphans.Orphan, now time.Time, after time.Duration) (added, due []orphans.Orphan) {
	there := map[types.UID]bool{}
	for i := range found {
		o := &found[i]
		there[o.UID] = true
		first, seen := k[o.UID]
		switch {
		case !seen && len(added) == reportedAtOnce:
		case !seen:
			k[o.UID] = now
			if o.State != orphans.Terminating {
				added = append(added, *o)
			}
		case after > 0 && now.Sub(first) >= after && o.Deletable(false) && o.Claims == 0:
			due = append(due, *o)
		}
	}
	for uid := range k {
		if !there[uid] {
			delete(k, uid)
		}
	}
	return added, due
}

// search finds orphans at intervals, reports each once, and deletes those that are due. The leader runs it.
type search struct {
	*Controller
	known known
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *search) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (s *search) Start(ctx context.Context) error {
	for {
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot search for objects of environments that no longer exist")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.tuning.Load().OrphanInterval):
		}
	}
}

// once searches the API server, not the cache: it has neither all kinds nor, for a while, what was just created.
func (s *search) once(ctx context.Context) error {
	found, err := orphans.Find(ctx, s.Live, s.Client.Scheme(), "", false)
	if err != nil {
		return err
	}
	if len(found.Forbidden) > 0 {
		log.FromContext(ctx).Error(nil, "Cannot search all kinds: the right to list some is missing", "kinds", found.Forbidden)
	}
	counts := map[orphans.State]int{}
	for _, o := range found.Orphans {
		counts[o.State]++
	}
	for _, state := range orphans.States() {
		orphaned.WithLabelValues(string(state)).Set(float64(counts[state]))
	}
	added, due := s.known.next(found.Orphans, s.Clock.Now(), s.tuning.Load().DeleteOrphansAfter)
	for i := range added {
		o := &added[i]
		log.FromContext(ctx).Info("Found an object of an environment that no longer exists", "kind", o.Kind, "namespace", o.Namespace,
			"name", o.Name, "environment", o.Environment, "state", o.State)
		s.event(o, corev1.EventTypeWarning, v1alpha1.EventReasonOrphaned, "Environment "+o.Environment+" no longer exists")
	}
	for i := range due {
		if err := s.remove(ctx, &due[i]); err != nil {
			log.FromContext(ctx).Error(err, "Cannot delete an object of an environment that no longer exists")
		}
	}
	return nil
}

func (s *search) remove(ctx context.Context, o *orphans.Orphan) error {
	created, err := orphans.Delete(ctx, s.Live, s.Client, o)
	switch {
	case created || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	s.event(o, corev1.EventTypeNormal, v1alpha1.EventReasonOrphanDeleted, "Deleted: Environment "+o.Environment+" no longer exists")
	return nil
}

func (s *search) event(o *orphans.Orphan, kind, reason, message string) {
	s.Recorder.Event(&corev1.ObjectReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
	}, kind, reason, message)
}
