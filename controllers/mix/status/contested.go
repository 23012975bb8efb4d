// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
)

const (
	// remembered is about how many workloads and mixes it is known that an event was recorded, the last ones.
	remembered = 2048
	// firstDelay is how long a repair waits that another client has undone. It doubles up to maxDelay with each further one.
	firstDelay, maxDelay = 30 * time.Second, time.Hour
	// heldFor is how long a deletion cost has to be right for its repair not to count as undone.
	heldFor = 15 * time.Second
	// contestedAfter is how many repairs in a row have to be undone for an event.
	contestedAfter = 3
	// sweepEvery is how often the repairs of pods that are gone are forgotten.
	sweepEvery = 10 * time.Minute
)

// contest delays the repairs of pods on which another client undoes them, so
// that two writers do not load the API server. Safe for concurrent use.
type contest struct {
	mu    sync.Mutex // guards what follows
	pods  map[types.UID]repaired
	swept time.Time
}

// repaired is what was written on a pod, if anything was.
type repaired struct {
	wrote map[string]string
	at    time.Time
	// undone counts the repairs in a row that another client has undone.
	undone int
	// seen is when it was first seen that the deletion cost is wrong; zero while it is right.
	seen time.Time
}

func newContest() *contest { return &contest{pods: map[types.UID]repaired{}} }

// allow returns when a repair of a pod may be made, and how many before it were
// undone. A repair is undone where it has to write a value that was written before.
//
// A deletion cost that was right for heldFor is restored at once, however often: Karpenter writes costs each minute, and a scale-down in
// between is to be exact. Such a client and Berth write a pod at most four times a minute each.
func (c *contest) allow(uid types.UID, want map[string]string, now time.Time) (at time.Time, undone int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.pods[uid]
	cost, others := last.undoneBy(want, now)
	delay := min(firstDelay<<min(last.undone, 10), maxDelay)
	switch {
	case !cost && !others:
		return now, 0
	case others || last.seen.IsZero():
		return last.at.Add(delay), last.undone + 1
	case last.seen.Sub(last.at) >= heldFor:
		return now, 0
	}
	return last.seen.Add(delay), last.undone + 1
}

// undoneBy reports whether the deletion cost, and whether another annotation, has to be written as it was written before.
func (r repaired) undoneBy(want map[string]string, now time.Time) (cost, others bool) {
	if r.forgotten(now) {
		return false, false
	}
	for key, value := range want {
		if wrote, ok := r.wrote[key]; ok && wrote == value {
			cost, others = cost || key == v1alpha1.PodDeletionCostAnnotation, others || key != v1alpha1.PodDeletionCostAnnotation
		}
	}
	return cost, others
}

// forgotten reports whether a repair was so long ago that it does not matter any more whether it was undone.
func (r repaired) forgotten(now time.Time) bool { return now.Sub(r.at) > 2*maxDelay }

// recent reports whether the watch may not have shown the repair yet: a record with a wrong cost can be older than it.
func (r repaired) recent(now time.Time) bool { return r.seen.IsZero() && now.Sub(r.at) < heldFor }

// doubtful reports whether a pod has to be read to find out that another client has overwritten the deletion cost that was restored.
func (c *contest) doubtful(uid types.UID, want map[string]string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.pods[uid]
	cost, others := last.undoneBy(want, now)
	return cost && !others && last.recent(now)
}

// shows notes whether the record of a pod has the right deletion cost.
func (c *contest) shows(uid types.UID, right bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.pods[uid]
	switch {
	case right && !known, !right && last.recent(now):
	case right && last.at.IsZero():
		delete(c.pods, uid)
	case right:
		c.setSeen(uid, time.Time{})
	case last.seen.IsZero():
		c.setSeen(uid, now)
	}
}

// overwritten notes that a pod, as the API server has it, has a wrong deletion cost.
func (c *contest) overwritten(uid types.UID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[uid].seen.IsZero() {
		c.setSeen(uid, now)
	}
}

// setSeen notes since when a cost is wrong. c.mu is held.
func (c *contest) setSeen(uid types.UID, seen time.Time) {
	last := c.pods[uid]
	last.seen = seen
	c.pods[uid] = last
}

// wrongSince returns since when the deletion cost of a pod is wrong; zero if that is not known.
func (c *contest) wrongSince(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid].seen
}

// exchanged remembers an exchange of slots. One that does not write again what was undone keeps the count of the repairs before it:
// otherwise the repairs of a pod whose slot changes would not back off.
func (c *contest) exchanged(uid types.UID, want map[string]string, now time.Time) {
	_, undone := c.allow(uid, want, now)
	c.mu.Lock()
	if last := c.pods[uid]; !last.forgotten(now) {
		undone = max(undone, last.undone)
	}
	c.mu.Unlock()
	c.note(uid, want, undone, now)
}

// note remembers a repair.
func (c *contest) note(uid types.UID, want map[string]string, undone int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wrote := maps.Clone(c.pods[uid].wrote)
	if wrote == nil {
		wrote = map[string]string{}
	}
	maps.Copy(wrote, want)
	c.pods[uid] = repaired{wrote: wrote, at: now, undone: undone}
}

// sweep forgets the repairs of pods that are gone, once in sweepEvery. An entry is kept as long as its pod, however many there are.
func (c *contest) sweep(all *workloads.Store, now time.Time) {
	gone := c.toSweep(now)
	if len(gone) == 0 {
		return
	}
	for _, namespace := range all.Namespaces() {
		for _, e := range all.Namespace(namespace) {
			for i := range e.Group.Assignments {
				for _, p := range e.Group.Assignments[i].Members() {
					delete(gone, p.UID)
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range gone {
		delete(c.pods, uid)
	}
}

// toSweep returns the pods that were repaired some time ago, if it is time to sweep.
func (c *contest) toSweep(now time.Time) map[types.UID]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.swept) < sweepEvery {
		return nil
	}
	c.swept = now
	old := map[types.UID]bool{}
	for uid, last := range c.pods {
		if last.forgotten(now) && last.seen.IsZero() {
			delete(c.pods, uid)
			continue
		}
		if now.Sub(last.at) >= heldFor { // a pod of which the entry is newer than what is known of the workloads stays
			old[uid] = true
		}
	}
	return old
}
