// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
)

// Limits count the replicas of one group by the domains that its mix limits. They have no entry for a domain without replicas, so
// the labels that a tenant names cost memory for the pods of the tenant only.
//
// Filter reads them for every node, so they have a lock of their own: it is written under Ledger.mu, too.
type Limits struct {
	of []domains.Limit

	mu    sync.RWMutex
	rules []limited
}

// limited is how many replicas are in the domains of one limit.
type limited struct {
	domains.Limit
	max int32
	// have counts replicas by domain, and units the pods of each unit in each.
	have  map[string]int32
	units map[unitIn]int32
	// open counts the replicas that have no node yet and whose gates are removed, excluded those of them that do not get a domain. Those
	// that get certain domains only are counted by named instead, in each of them.
	open            int32
	excluded, named map[string]int32
}

// unitIn is a unit in a domain.
type unitIn struct{ unit, domain string }

func newLimits(of []domains.Limit) *Limits {
	l := &Limits{of: of, rules: make([]limited, len(of))}
	for i := range of {
		l.rules[i] = limited{
			Limit: of[i], max: 1, have: map[string]int32{}, units: map[unitIn]int32{},
			excluded: map[string]int32{}, named: map[string]int32{},
		}
	}
	return l
}

// resize has percentages be those of a number of replicas, and reports whether one of them grew.
func (l *Limits) resize(size int) (grew bool) {
	for i := range l.rules {
		r := &l.rules[i]                               // max is written under Ledger.mu alone, which is held
		if most := int32(r.Max(size)); most != r.max { //nolint:gosec // Max is at most 100 times MaxBound
			grew = grew || most > r.max
			l.mu.Lock()
			r.max = most
			l.mu.Unlock()
		}
	}
	return grew
}

// add counts a pod of a unit, "" for none, on a node.
func (l *Limits) add(unit string, labels map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rules {
		r := &l.rules[i]
		if domain, there := labels[r.Key]; there && count(r.units, unit, domain, 1) {
			r.have[domain]++
		}
	}
}

func (l *Limits) remove(unit string, labels map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rules {
		r := &l.rules[i]
		if domain, there := labels[r.Key]; there && count(r.units, unit, domain, -1) {
			less(r.have, domain)
		}
	}
}

// count counts a pod of a unit, and reports whether it is the first or the last one of the unit in the domain.
func count(units map[unitIn]int32, unit, domain string, by int32) bool {
	if unit == "" {
		return true
	}
	in := unitIn{unit, domain}
	before := units[in]
	if units[in] = before + by; before+by == 0 {
		delete(units, in)
	}
	return before == 0 || before+by == 0
}

func less(counts map[string]int32, name string) {
	if counts[name]--; counts[name] == 0 {
		delete(counts, name)
	}
}

// open counts a replica without a node that is confined to some domains.
func (l *Limits) open(to domains.Confinement, by int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rules {
		r := &l.rules[i]
		c := to[r.Key]
		counts := r.named
		if !c.Only {
			r.open += by
			counts = r.excluded
		}
		for _, domain := range c.Values {
			if counts[domain] += by; counts[domain] == 0 {
				delete(counts, domain)
			}
		}
	}
}

// Refuse returns the first limit that forbids a node for a pod of a unit, "" for none. open is set if the gate of a pod of the unit is
// removed: it has a place, wherever it goes. Any other one leaves such pods theirs.
func (l *Limits) Refuse(unit string, open bool, labels map[string]string) (r domains.Refusal, refused bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.rules {
		if r := &l.rules[i]; !r.Soft {
			if refusal, refused := r.refuse(unit, open, labels); refused {
				return refusal, true
			}
		}
	}
	return domains.Refusal{}, false
}

// Over returns how many limits that are preferences have no room for a pod of a unit on a node.
func (l *Limits) Over(unit string, labels map[string]string) (n int32) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.rules {
		if r := &l.rules[i]; r.Soft {
			if _, refused := r.refuse(unit, true, labels); refused {
				n++
			}
		}
	}
	return n
}

func (r *limited) refuse(unit string, open bool, labels map[string]string) (domains.Refusal, bool) {
	domain, there := labels[r.Key]
	have, others := r.have[domain], int32(0)
	if !open && !r.unnamed() {
		others = r.open - r.excluded[domain] + r.named[domain]
	}
	switch {
	case !there:
		return domains.Refusal{Key: r.Key, Unlabelled: true}, true
	case have+others < r.max, unit != "" && r.units[unitIn{unit, domain}] > 0:
		return domains.Refusal{}, false
	default:
		return domains.Refusal{Key: r.Key, Value: domain, Have: int(have), Max: int(r.max), Open: int(others)}, true
	}
}

// occupancies returns how full the domains of the limits are that forbid nodes, for a pod of a seat that is not counted, unless others of
// its unit are.
func (l *Limits) occupancies(s *seat, without bool) (all []domains.Occupancy) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.rules {
		r := &l.rules[i]
		if r.Soft {
			continue
		}
		o := r.occupancy(s.unit())
		if without {
			leave(&o, s.confined[r.Key])
		}
		all = append(all, o)
	}
	return all
}

func (r *limited) occupancy(unit string) domains.Occupancy {
	o := domains.Occupancy{Key: r.Key, Max: int(r.max), Open: int(r.open), Unnamed: r.unnamed()}
	if o.Unnamed {
		return o
	}
	o.Have, o.Excluded, o.Named = ints(r.have), ints(r.excluded), ints(r.named)
	if unit == "" {
		return o
	}
	o.Own = map[string]bool{}
	for domain := range r.have {
		if r.units[unitIn{unit, domain}] > 0 {
			o.Own[domain] = true
		}
	}
	return o
}

// unnamed reports whether there are more domains than a pod can name. Then none of those that wait has a place for certain.
func (r *limited) unnamed() bool {
	return len(r.have) > domains.MaxNamed || len(r.named) > domains.MaxNamed
}

func ints(counts map[string]int32) map[string]int {
	all := make(map[string]int, len(counts))
	for name, n := range counts {
		all[name] = int(n)
	}
	return all
}

// leave takes from an occupancy a replica without a node.
func leave(o *domains.Occupancy, c domains.Confined) {
	counts := o.Named
	if !c.Only {
		o.Open--
		counts = o.Excluded
	}
	for _, domain := range c.Values {
		if counts != nil { // else the domains are not named
			counts[domain]--
		}
	}
}

// limit has the replicas of a group counted by the domains that its mix limits. wanted is how many replicas the group shall have, 0 where
// that is not known.
func (l *Ledger) limit(g *group, of []domains.Limit, wanted int) {
	if g.limits == nil && len(of) == 0 {
		return
	}
	g.wanted = wanted
	if g.limits == nil || !slices.Equal(g.limits.of, of) {
		for _, r := range g.members {
			r.uncount()
			r.refused = false
		}
		g.limits, g.refused = nil, nil
		if len(of) > 0 {
			g.limits = newLimits(of)
		}
		for _, r := range g.members {
			l.place(r, r.node)
		}
	}
	l.resize(g)
}

// resize has the limits be those of the size that the group has now. If one grew, the pods are tried again that found no node: they are
// woken as the lock is released.
func (l *Ledger) resize(g *group) {
	if g.limits == nil {
		return
	}
	size := g.wanted
	if size == 0 {
		size = g.seats
	}
	if !g.limits.resize(size) {
		return
	}
	for r := g.nextRefused(); r != nil; r = g.nextRefused() {
		l.woken = append(l.woken, r.pending)
	}
}

// unlockFor releases the lock after a call for a pod, and wakes the others for which a limit grew.
func (l *Ledger) unlockFor(uid types.UID) {
	woken := slices.DeleteFunc(l.woken, func(pod *corev1.Pod) bool { return pod.UID == uid })
	l.woken = nil
	l.mu.Unlock()
	if len(woken) > 0 && l.Wake != nil {
		l.Wake(woken)
	}
}

// Limits returns the limits of the group of a pod that has its slot already, nil for none.
func (l *Ledger) Limits(c Claim) *Limits {
	if len(c.Governing.MaxPerDomain) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.unlockFor(c.Pod.UID)
	g := l.groups[c.Group]
	if g == nil || l.outdated(c.Pod.Namespace, c.Version) {
		return emptyLimits(c.Governing)
	}
	l.govern(g, c.Governing, c.Wanted)
	return g.limits
}

// emptyLimits are those of a group without pods, nil for none.
func emptyLimits(m *governing.Mix) *Limits {
	if len(m.MaxPerDomain) == 0 {
		return nil
	}
	return newLimits(m.MaxPerDomain)
}

// admits reports whether the limits of its group admit a pod on a node. One that is not known is in no known domain.
func (l *Ledger) admits(r *record, node string) bool {
	g := r.group
	if g.limits == nil {
		return true
	}
	l.resize(g)
	n := l.nodes.byName[node]
	if n.details == nil {
		return false
	}
	_, refused := g.limits.Refuse(r.seat.unit(), r.seat.open > 0, n.labels)
	return !refused
}

// Confine notes which domains a pod may get by a write that is about to be sent, and so that it has a place. It returns false if others
// of the group may fill them by now: the pod must not get them.
func (l *Ledger) Confine(uid types.UID, to domains.Confinement) bool {
	l.mu.Lock()
	defer l.unlockFor(uid)
	r := l.pods[uid]
	if r == nil || r.group.limits == nil {
		return true
	}
	l.resize(r.group)
	if s := r.seat; !s.decided(r) && !domains.Safe(r.group.limits.occupancies(s, r.open), to) {
		if !r.open { // nothing was written
			r.change(func() { r.leans = capacity.Unknown })
		}
		return false
	}
	if r.open { // a write that was sent before may have had an effect
		to = domains.Either(r.seat.confined, to)
	}
	r.confine(to)
	l.place(r, r.node)
	return true
}

// confine sets the domains that a pod may get. Those of a unit are the same for all of its pods that have no node.
func (r *record) confine(to domains.Confinement) {
	r.close()
	if r.seat.open == 0 {
		r.seat.confined = to
	}
}

// decided reports whether others of the unit of a pod have no node yet, so that their domains are its own.
func (s *seat) decided(r *record) bool { return s.open > 1 || s.open == 1 && !r.open }

// Openings are where a pod may get a node whose gate is to be removed.
type Openings struct {
	// Limits are how full the domains are, without the pod. There are none for a pod whose domains are not limited.
	Limits []domains.Occupancy
	// Decided is set for a pod of a unit of which others have no node yet: it may get the domains that these may get.
	Decided  bool
	Confined domains.Confinement
}

// Openings returns where a pod with a claim may get a node. One whose gate is removed already, or may be, stays counted for the others.
func (l *Ledger) Openings(uid types.UID) Openings {
	l.mu.Lock()
	defer l.unlockFor(uid)
	r := l.pods[uid]
	if r == nil || r.group.limits == nil {
		return Openings{}
	}
	l.resize(r.group)
	s := r.seat
	decided := s.decided(r)
	return Openings{Limits: r.group.limits.occupancies(s, r.open && !decided), Decided: decided, Confined: s.confined}
}

// opens counts a pod that has no node yet and may get one without this scheduler.
func (r *record) opens() {
	if r.node != "" || r.state != ungated && (r.state != claimed || r.leans == capacity.Unknown) {
		return
	}
	r.open = true
	if r.seat.open++; r.seat.open == 1 {
		r.group.limits.open(r.seat.confined, 1)
	}
}

func (r *record) close() {
	if !r.open {
		return
	}
	r.open = false
	if r.seat.open--; r.seat.open == 0 {
		r.group.limits.open(r.seat.confined, -1)
	}
}

// Refused notes that a pod found no node because domains are full: it is tried again when a replica leaves.
func (l *Ledger) Refused(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && !r.refused && r.group.limits != nil {
		r.refused = true
		r.group.refused = append(r.group.refused, r)
	}
}

// wakeRefused adds the pod to try again, after one got a node or left, to those that are tried again anyway.
func (g *group) wakeRefused(pods []*corev1.Pod) []*corev1.Pod {
	r := g.nextRefused()
	if r == nil || slices.Contains(pods, r.pending) {
		return pods
	}
	return append(pods, r.pending)
}

// nextRefused returns the pod that was refused first, of those that wait: there is a place for one.
func (g *group) nextRefused() *record {
	for len(g.refused) > 0 {
		r := g.refused[0]
		g.refused = g.refused[1:]
		if r.refused = false; r.pending != nil && g.members[r.uid] == r && r.node == "" {
			return r
		}
	}
	g.refused = nil
	return nil
}
