// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"strconv"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/replacement"
)

// Available counts the replicas that are available at a time, on nodes that stay.
func Available(g *clusterstate.Group, now time.Time) (n int) {
	for i := range g.Assignments {
		if s := &g.Assignments[i]; s.Place == clusterstate.Settled && g.AllAvailable(s, now) {
			n++
		}
	}
	return n
}

// MustBeBack is how many pods of a group have to be available before its next move, where had were live before the last ones:
// 0 if had is. The number of an owner that reports it decides; otherwise a pod may have the annotation by which a user accepts
// fewer.
func MustBeBack(g *clusterstate.Group, had int) int {
	if had == 0 || g.Ended {
		return 0
	}
	if g.Counted {
		return g.Replicas
	}
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			if text, found := p.Annotation(v1alpha1.AcceptedReplicasAnnotation); found {
				if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
					had = min(had, int(n))
				}
			}
		}
	}
	return had
}

// Scale is how many replicas an owner requests of a kind that the cluster state does not watch, and how long a pod must be Ready
// to be available. Known is false where the kind has no scale subresource, or the owner is another one by now.
type Scale struct {
	Replicas int
	Known    bool
	MinReady time.Duration
	// Restart is what becomes of a unit once one of its pods ends. The replicas of an owner that restarts units are units.
	Restart Restart
}

// counts reports whether an owner requests as many of the replicas of a group as its scale has. That of an owner of units counts
// these, and all others count pods.
func (s *Scale) counts(g *clusterstate.Group) bool {
	return s.Known && (s.Restart == RestartWhole) == g.Units
}

// ByScale reports whether only the scale of a group's owner has the number of replicas that it requests. A kind of Kubernetes that
// creates no pods itself counts others, such as a Deployment those of its ReplicaSets.
func ByScale(g *clusterstate.Group) bool {
	return !g.Counted && g.Workload.UID != "" && g.Workload.UID == g.Key.Owner() &&
		replacement.KindOf(g.Workload.APIVersion, g.Workload.Kind) != replacement.Nobody
}

// podCount counts the pods of a group.
func podCount(g *clusterstate.Group) (n int) {
	for i := range g.Assignments {
		n += len(g.Assignments[i].Members())
	}
	return n
}

// isFirst reports whether the scale is known of a workload of which no move has left a number of replicas; nil is not known.
func (s *Scale) isFirst(had int) bool { return s != nil && s.Known && had == 0 }

// Missing returns why a group does not begin to move that has fewer replicas than its owner requests, without a reason if it has
// as many. A nil scale was not read.
func (s *Scale) Missing(g *clusterstate.Group, had int) (v Verdict) {
	if !s.isFirst(had) {
		return v
	}
	if have := s.haveOf(g); have < s.Replicas {
		v = ReasonReplicasMissing.because("the owner has %d replicas, and its scale requests %d", have, s.Replicas)
	}
	return v
}

// haveOf counts what a scale counts of a group.
func (s *Scale) haveOf(g *clusterstate.Group) int {
	if g.Units && s.Restart == RestartWhole {
		return len(g.Assignments) + len(g.Taken)
	}
	return podCount(g) + len(g.Taken)
}

// Follow returns how many replicas have to be back where the scale was read, and whether that number follows it from now on.
func (s *Scale) Follow(g *clusterstate.Group, had int, follows bool) (back int, follow bool) {
	if had == 0 || !s.counts(g) {
		return had, follows
	}
	return FollowScale(had, follows, s.Replicas)
}

// follow notes the scale of the owner, nil for none. For the moves after the first one, Had is the number: the entry notes whether
// it follows the scale from here on.
func (w *Evaluation) follow(s *Scale) {
	if s == nil {
		return
	}
	if w.Group.Units {
		w.Restart = s.Restart
	}
	if w.Group.MinReady < s.MinReady { // it is decided again with it
		w.MinReady, w.Group.MinReady = s.MinReady, s.MinReady
	}
	if n := len(w.Group.Assignments); s.counts(&w.Group) && w.Had == 0 && n+len(w.Group.Taken) >= s.Replicas {
		_, w.Scaled = FollowScale(n, false, s.Replicas)
	}
}

// FollowScale returns how many pods have to be back where the owner's scale requests n, and whether that number follows the
// scale from now on: it does once both were equal. A scale may count other things than pods.
func FollowScale(had int, follows bool, n int) (back int, follow bool) {
	if n = min(n, maxReplicas); follows {
		return n, true
	}
	return had, n == had
}

// replicasMissing is for an owner that does not report its replicas: its group shrinks with every eviction, so only the number
// of pods before the moves shows that pods are missing. No more may be missing than are being moved now.
func replicasMissing(s *subject) (v Verdict) {
	had, available := s.History.Had, Available(&s.Group, s.Cluster.Now)
	if !s.Group.Counted && had-available > s.History.Moving {
		v = ReasonReplicasMissing.because(
			"%d of %d pods that it had before the last move are available, and its owner does not report how many it requests (annotation %s on a pod accepts fewer)",
			available, had, v1alpha1.AcceptedReplicasAnnotation)
	}
	return v
}
