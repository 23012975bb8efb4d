// SPDX-License-Identifier: Apache-2.0

package clusterstate

import "time"

// MinReady is minReadySeconds of a workload controller as a duration, never negative.
func MinReady(seconds int32) time.Duration { return time.Duration(max(0, seconds)) * time.Second }

// AvailableAt is when a pod that stays Ready is available: once it has been Ready for the owner's minReadySeconds. Ok is
// false for one that is not Ready. The rule is that of the owners' own controllers, so a move and a rollout wait for the same.
func (g *Group) AvailableAt(p *Pod) (at time.Time, ok bool) {
	return p.availableAt(g.MinReady)
}

// AvailableAt is when a pod of the ReplicaSet is available that stays Ready. Ok is false if it is not Ready.
func (c *Crew) AvailableAt(p *Pod) (at time.Time, ok bool) { return p.availableAt(c.MinReady) }

func (p *Pod) availableAt(minReady time.Duration) (at time.Time, ok bool) {
	if !p.Ready || minReady <= 0 {
		return time.Time{}, p.Ready
	}
	return time.Unix(p.ReadySince, 0).Add(minReady), true
}

// Available reports whether a pod of the group is available at a time.
func (g *Group) Available(p *Pod, now time.Time) bool {
	at, ready := g.AvailableAt(p)
	return ready && !now.Before(at)
}

// AllAvailableAt is when a replica is available whose pods stay Ready: once all of them are. Ok is false if one is not Ready, or is
// not there yet.
func (g *Group) AllAvailableAt(a *Assignment) (at time.Time, ok bool) {
	if a.Size() > len(a.Pods) {
		return time.Time{}, false
	}
	for _, p := range a.Members() {
		one, ready := g.AvailableAt(p)
		if !ready {
			return time.Time{}, false
		}
		if one.After(at) {
			at = one
		}
	}
	return at, true
}

// AllAvailable reports whether all pods of a replica are available at a time.
func (g *Group) AllAvailable(a *Assignment, now time.Time) bool {
	at, ready := g.AllAvailableAt(a)
	return ready && !now.Before(at)
}

// NextAvailable is when the next replica of the group becomes available by time alone, zero for never.
func (g *Group) NextAvailable(now time.Time) (next time.Time) {
	for i := range g.Assignments {
		s := &g.Assignments[i]
		at, ready := g.AllAvailableAt(s)
		if s.Place == Settled && ready && now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
