// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"strconv"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
)

// ReasonReplicasMissing means that pods that the workload had before its last moves are not back, and its owner does not tell how
// many it wants.
const ReasonReplicasMissing Reason = "ReplicasMissing"

// ReasonOwnerEnded means that the owner finished, failed, was suspended or deleted, or wants no pods: it makes no replacement.
const ReasonOwnerEnded Reason = "OwnerEnded"

func ownerEnded(in *Input) (Verdict, bool) {
	if in.Group.Ended {
		return stop(ReasonOwnerEnded, time.Time{},
			"the owner creates no more pods: it finished, failed, was suspended or deleted, or requests no replicas")
	}
	return Verdict{}, false
}

// Available counts the replicas that are available at a time, on nodes that stay.
func Available(g *clusterstate.Group, now time.Time) (n int) {
	for i := range g.Assignments {
		if s := &g.Assignments[i]; s.Place == clusterstate.Settled && g.Available(s.Pod, now) {
			n++
		}
	}
	return n
}

// MustBeBack is how many pods of a group have to be available before its next move, where had were live before the last ones:
// 0 if had is. An owner that tells its replicas decides; otherwise a pod may have the annotation by which a user accepts
// fewer.
func MustBeBack(g *clusterstate.Group, had int) int {
	if had == 0 || g.Ended {
		return 0
	}
	if g.Counted {
		return g.Replicas
	}
	for i := range g.Assignments {
		text, found := g.Assignments[i].Pod.Annotation(v1alpha1.AcceptedReplicasAnnotation)
		if !found {
			continue
		}
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
			had = min(had, int(n))
		}
	}
	return had
}

// FollowScale returns how many pods have to be back where the owner's scale requests n, and whether that number follows the
// scale from now on: it does once both were equal. A scale may count other things than pods.
func FollowScale(had int, follows bool, n int) (back int, follow bool) {
	if n = min(n, maxReplicas); follows {
		return n, true
	}
	return had, n == had
}

// replicasMissing holds a workload whose owner does not tell its replicas: its group shrinks with every eviction, so only
// what it had before tells that pods are missing. Every one that is has to be one of those that are being moved now.
func replicasMissing(in *Input) (Verdict, bool) {
	had, available := in.History.Had, Available(&in.Group, in.Cluster.Now)
	if in.Group.Counted || had-available <= in.History.Moving {
		return Verdict{}, false
	}
	return stop(ReasonReplicasMissing, time.Time{},
		"%d of %d pods that it had before the last move are available, and its owner does not report how many it requests (annotation %s on a pod accepts fewer)",
		available, had, v1alpha1.AcceptedReplicasAnnotation)
}
