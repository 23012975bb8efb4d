// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/controllerref"
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

// Releases reports whether replicas are released that can be.
func (s Strategy) Releases() bool { return s == Surge || s == SurgeOrEvict }

const (
	// argoGroup is that of Argo Rollouts, whose ReplicaSets select their pods by a label of its own.
	argoGroup    = "argoproj.io"
	argoHashKey  = "rollouts-pod-template-hash"
	leastRelease = time.Hour
)

// ReleaseFor is how long a released replica of a group runs at most, from its release on. The kubelet ends it then, also where no
// controller of Berth runs any more.
func ReleaseFor(g *clusterstate.Group, moveTimeout time.Duration) time.Duration {
	return max(leastRelease, 3*moveTimeout) + g.MinReady
}

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

// HashOf are the labels by which the ReplicaSet of a Deployment or an Argo Rollout alone selects its pods.
func HashOf(podLabels map[string]string) map[string]string {
	only := map[string]string{}
	for _, key := range []string{appsv1.DefaultDeploymentUniqueLabelKey, argoHashKey} {
		if v := podLabels[key]; v != "" {
			only[key] = v
		}
	}
	return only
}

// HasRevision reports whether a ReplicaSet makes a pod, and selects it by a label that no other revision has. Other pods are not released.
func HasRevision(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && controllerref.KindOf(ref) == controllerref.ReplicaSet && len(HashOf(pod.Labels)) > 0
}

// groupOf is the group of an API version.
func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// notReleasable returns why a replica cannot be released, "" if nothing that was read so far prevents it, and when that is read again,
// zero where only a change of the workload helps.
func (in *Input) notReleasable(a *clusterstate.Assignment, flees bool) (why string, until time.Time) {
	switch p := a.Pod; {
	case len(a.Pods) > 1:
		why = fmt.Sprintf("unit %s has %d pods", a.Unit, len(a.Pods))
	case HashKey(p, in.Group.Workload) == "":
		why = fmt.Sprintf("pod %s is not of a ReplicaSet that a Deployment or a Rollout made", p.Name)
	case p.Grouped:
		why = fmt.Sprintf("pod %s is a member of a PodGroup", p.Name)
	case in.Group.Recreate:
		why = fmt.Sprintf("Deployment %s has the strategy Recreate, which lets no two pods of it run together", in.Group.Workload.Name)
	case in.For != nil:
		kept := in.For.keptFrom(p.UID, flees)
		why, until = kept.Why, kept.Until
	}
	return why, until
}

// Kept is what was read to be against releases.
type Kept struct {
	Why string
	// Until is when it is read again, Times how often in a row it was so.
	Until time.Time
	Times int32
}

// at is when it was read.
func (k *Kept) at() time.Time { return k.Until.Add(-keptFor(k.Times)) }

func keptFor(times int32) time.Duration { return Backoff(HoldReplacement, MaxHoldReplacement, times) }

// keptFrom is what is against the release of a replica for a move, or from a node that departs; nothing once it has to be read again. A
// request for an eviction is refused once: what was read before it began is no reason for that.
func (w *Evaluation) keptFrom(replica types.UID, flees bool) Kept {
	kept := w.KeptFromMoves
	if flees {
		kept = w.KeptFromFlight
	}
	if !w.Now.Before(kept.Until) || flees && w.Requested[replica].After(kept.at()) {
		return Kept{}
	}
	return kept
}

// keep remembers what is against releases, for longer each time in a row.
func (w *Evaluation) keep(why string, flees bool) {
	kept := &w.KeptFromMoves
	if flees {
		kept = &w.KeptFromFlight
	}
	times := kept.Times + 1
	*kept = Kept{Why: why, Times: times, Until: w.Now.Add(keptFor(times))}
}

// surges reports whether a replica is released, as far as is known.
func (in *Input) surges(a *clusterstate.Assignment) bool {
	why, _ := in.notReleasable(a, false)
	return in.Settings.Strategy.Releases() && why == ""
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

// targetOf is the type of the slot that the replacement of a replica claims.
func (in *Input) targetOf(s *clusterstate.Assignment) capacity.Type {
	if list := in.Group.Assignments; in.slots == nil || len(list) != len(in.slotsOf) || len(list) > 0 && &list[0] != &in.slotsOf[0] {
		in.slots, in.slotsOf = in.Group.Replacements(), list
	}
	return in.Group.Governing.Mix.TypeOf(in.slots.Slot(s))
}

// notReleased keeps a replica that cannot be released where no other way is allowed.
func notReleased(s *subject) (v Verdict) {
	if s.Settings.Strategy != Surge {
		return v
	}
	if why, until := s.notReleasable(&s.Assignment, false); why != "" {
		v = ReasonNotReleasable.until(until, "rebalance.strategy is Surge, and %s", why)
	}
	return v
}

// survey adds what was read about the release of a replica. What prevents one prevents those of the same revision.
func (w *Evaluation) survey(a *Action, r *Result) {
	if r.Err != nil {
		return
	}
	if r.Unreleasable != "" {
		w.keep(r.Unreleasable, a.Flees)
		return
	}
	if w.surveyed == nil {
		w.surveyed = map[types.UID]bool{}
	}
	w.surveyed[a.Verdict.Pod.UID] = true
}

// released forgets what was against releases, once there was one.
func (w *Evaluation) released() { w.KeptFromMoves, w.KeptFromFlight = Kept{}, Kept{} }

// Retires reports whether a replica that was released from a ReplicaSet may be evicted: as many pods as that requests are available, and
// no other one is about to be. Next is when time alone will have changed that, zero for never. A pod on a node that departs counts: it
// serves, and its own replacement comes after it.
func Retires(c *clusterstate.Crew, now time.Time) (ok bool, next time.Time) {
	if c.Asked == 0 {
		return true, next
	}
	if len(c.Live) < c.Asked {
		return false, next
	}
	ok = true
	for i, p := range c.Live {
		switch at, ready := c.AvailableAt(p); {
		case c.Places[i] == clusterstate.Departing:
		case c.Places[i] == clusterstate.Pending, !ready:
			return false, time.Time{}
		case now.Before(at):
			ok, next = false, earlier(next, at)
		}
	}
	return ok, next
}
