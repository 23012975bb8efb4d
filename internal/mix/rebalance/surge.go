// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Strategy is whether a replica goes before its replacement comes.
type Strategy string

// Strategies, as in CapacityMix.
const (
	// EvictFirst evicts the replica, and its owner creates the replacement.
	EvictFirst Strategy = "Evict"
	// Surge releases the replica from its owner, which creates the replacement, and evicts it once that is available. A replica
	// that cannot be released stays.
	Surge Strategy = "Surge"
	// SurgeOrEvict is Surge, and EvictFirst for replicas that cannot be released.
	SurgeOrEvict Strategy = "SurgeOrEvict"
)

// releases reports whether replicas are released that can be.
func (s Strategy) releases() bool { return s == Surge || s == SurgeOrEvict }

const (
	// argoGroup is that of Argo Rollouts, whose ReplicaSets select their pods by a label of its own.
	argoGroup    = "argoproj.io"
	argoHashKey  = "rollouts-pod-template-hash"
	leastRelease = time.Hour
)

// ReleaseFor is how long a released replica runs at most, from its release on. The kubelet ends it then, also where no controller of
// Berth runs any more.
func ReleaseFor(moveTimeout time.Duration) time.Duration { return max(leastRelease, 3*moveTimeout) }

// HashKey returns the label by which the ReplicaSet of a pod selects it, and no other revision does; "" where its owner is none that a
// Deployment or an Argo Rollout creates.
func HashKey(p *clusterstate.Pod, w clusterstate.Workload) string {
	if p.Owner == nil || p.Owner.Kind != "ReplicaSet" || groupOf(p.Owner.APIVersion) != appsv1.GroupName {
		return ""
	}
	key := ""
	switch group := groupOf(w.APIVersion); {
	case w.Kind == "Deployment" && group == appsv1.GroupName:
		key = appsv1.DefaultDeploymentUniqueLabelKey
	case w.Kind == "Rollout" && group == argoGroup:
		key = argoHashKey
	}
	if p.Labels[key] == "" {
		return ""
	}
	return key
}

// groupOf is the group of an API version.
func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// notReleasable returns why a replica cannot be released, "" if nothing that was read so far prevents it.
func (in *Input) notReleasable(a *clusterstate.Assignment) string {
	switch p := a.Pod; {
	case len(a.Pods) > 1:
		return fmt.Sprintf("unit %s has %d pods", a.Unit, len(a.Pods))
	case HashKey(p, in.Group.Workload) == "":
		return fmt.Sprintf("pod %s is not of a ReplicaSet that a Deployment or a Rollout made", p.Name)
	case p.Grouped:
		return fmt.Sprintf("pod %s is a member of a PodGroup", p.Name)
	case in.For != nil:
		return in.For.unreleasable
	}
	return ""
}

// surges reports whether a replica is released, as far as is known.
func (in *Input) surges(a *clusterstate.Assignment) bool {
	return in.Settings.Strategy.releases() && in.notReleasable(a) == ""
}

// surgesPod is surges for the replica that a pod belongs to.
func (in *Input) surgesPod(uid types.UID) bool {
	for i := range in.Group.Assignments {
		if a := &in.Group.Assignments[i]; a.Has(uid) {
			return in.surges(a)
		}
	}
	return false
}

// unsurveyed reports whether it was not read yet what could be against the release of a replica that is released otherwise.
func (in *Input) unsurveyed(uid types.UID) bool {
	return in.surgesPod(uid) && !in.For.surveyed[uid]
}

// fleeChecks are what keeps replicas on a node that departs. They are lost with it, so that no time, no budget and no capacity is a reason
// to wait.
var fleeChecks = []check{switchedOff, ownerEnded, otherScheduler, fixedNode, rollingOut}

// flee returns the next action about a replica on a node that departs: once it is released, its owner creates the replacement, for which
// an autoscaler may launch a node in the time that is left. A placeholder requests the capacity of one that is not released, where the
// mix allows placeholders.
func (in *Input) flee() (a Action, ok bool) {
	if !in.Settings.Strategy.releases() && !in.Provisions() || in.Effect(Verdict{Reason: ReasonMove}).Reason != ReasonMove {
		return a, false
	}
	if v := first(fleeChecks, &subject{Input: in}); v.Reason != nil {
		return a, false
	}
	for i := range in.Group.Assignments {
		s := &in.Group.Assignments[i]
		step := in.fleeing(s)
		if step == StepWait {
			continue
		}
		v := Verdict{Reason: ReasonMove, Pod: s.Pod, Target: in.targetOf(s)}
		v.Message = fmt.Sprintf(departures[s.Cause], s.Pod.Node)
		return Action{Step: step, Of: in.For.Entry, Verdict: v, Flees: true, turns: in.For.turns}, true
	}
	return a, false
}

// departures are the causes for which replicas leave a node before it is gone, with a sentence about the node. A node that is given up as
// broken is not among them: nothing serves there.
var departures = map[capacity.Cause]string{
	capacity.Interruption: "the provider is about to reclaim node %s",
	capacity.Autoscaler:   "an autoscaler is about to remove node %s",
	capacity.Maintenance:  "node %s is being drained",
	capacity.Deletion:     "node %s is being deleted",
}

// fleeing is the next step about a replica if it flees, StepWait if it does not.
func (in *Input) fleeing(s *clusterstate.Assignment) Step {
	kept, _ := s.Pod.Keeps(in.Cluster.Now)
	switch {
	case !departs(s), in.Skip[string(s.Pod.UID)].Reason != nil:
		return StepWait
	case kept == "" && in.surges(s) && in.For.surveyed[s.Pod.UID]:
		return StepFlee
	case kept == "" && in.surges(s):
		return StepSurvey
	case in.Provisions() && in.provisionsFor(s):
		return StepProvision
	}
	return StepWait
}

// departs reports whether a replica runs on a node that is about to go.
func departs(s *clusterstate.Assignment) bool {
	return s.Place == clusterstate.Departing && departures[s.Cause] != ""
}

// provisionsFor reports whether a placeholder requests the capacity for the replacement of a replica on a node that departs. An autoscaler
// that removes a node has the capacity already. A replacement that goes to the other type at once would find the capacity taken: the
// placeholder ends after it is created.
func (in *Input) provisionsFor(s *clusterstate.Assignment) bool {
	return (s.Cause == capacity.Interruption || s.Cause == capacity.Maintenance) &&
		HandoverOf(&in.Group, in.targetOf(s)) != BeforeEviction
}

// targetOf is the type of the slot that the replacement of a replica claims.
func (in *Input) targetOf(s *clusterstate.Assignment) capacity.Type {
	return in.Group.Governing.Mix.TypeOf(replacementSlot(&in.Group, s))
}

// notReleased keeps a replica that cannot be released where no other way is allowed.
func notReleased(s *subject) (v Verdict) {
	if s.Settings.Strategy != Surge {
		return v
	}
	if why := s.notReleasable(&s.Assignment); why != "" {
		v = ReasonNotReleasable.because("rebalance.strategy is Surge, and %s", why)
	}
	return v
}

// survey adds what was read about the release of a replica. What prevents one prevents those of the same revision.
func (w *Evaluation) survey(a *Action, r *Result) {
	if r.Err != nil {
		return
	}
	if w.surveyed == nil {
		w.surveyed = map[types.UID]bool{}
	}
	if w.surveyed[a.Verdict.Pod.UID] = true; r.Unreleasable != "" {
		w.unreleasable = r.Unreleasable
	}
}

// fled treats a replica that was released as gone.
func (w *Evaluation) fled(a *Action, r *Result) {
	if r.Err == nil {
		w.Group = w.Group.Going(map[types.UID]bool{a.Verdict.Pod.UID: true})
	}
}

// Retires reports whether a replica that was released from a group may be evicted: all replicas of the group are available, or its owner
// creates none any more. Next is when time alone will have changed that, zero for never. The group is nil where it has no pods, and
// follows is set while its owner creates some.
func Retires(g *clusterstate.Group, follows bool, now time.Time) (ok bool, next time.Time) {
	switch {
	case g == nil:
		return !follows, next
	case g.Ended:
		return true, next
	case len(g.Assignments) < g.Replicas || Available(g, now) < len(g.Assignments):
		return false, g.NextAvailable(now)
	}
	return true, next
}
