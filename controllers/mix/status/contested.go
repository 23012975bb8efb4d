// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// remembered is how many repaired pods are known, the last ones.
	remembered = 2048
	// firstDelay is how long a repair waits that another client has undone. It doubles up to maxDelay with each further one.
	firstDelay, maxDelay = 30 * time.Second, time.Hour
	// heldFor is how long a deletion cost has to be right for its repair not to count as undone.
	heldFor = 15 * time.Second
	// contestedAfter is how many repairs in a row have to be undone for an event.
	contestedAfter = 3
)

// contest delays the repairs of pods on which another client undoes them, so
// that two writers do not load the API server. Safe for concurrent use by one
// goroutine per namespace.
type contest struct{ pods *lru.Cache }

// repaired is what was written on a pod.
type repaired struct {
	wrote map[string]string
	at    time.Time
	// undone counts the repairs in a row that another client has undone.
	undone int
	// seen is when it was first seen that another client has undone the deletion cost; zero until then.
	seen time.Time
}

func newContest() contest { return contest{lru.New(remembered)} }

// allow returns when a repair of a pod may be made, and how many before it were
// undone. A repair is undone where it has to write a value that was written before.
//
// A deletion cost that was right for heldFor is restored at once, however often: Karpenter writes costs each minute, and a scale-down in
// between is to be exact. Such a client and Berth write a pod at most four times a minute each.
func (c contest) allow(uid types.UID, want map[string]string, now time.Time) (at time.Time, undone int) {
	known, ok := c.pods.Get(uid)
	if !ok {
		return now, 0
	}
	last := known.(repaired)
	for key, value := range want {
		if last.wrote[key] != value {
			continue
		}
		delay := min(firstDelay<<min(last.undone, 10), maxDelay)
		if last.forgotten(now) {
			return now, 0
		}
		if c.costHeld(uid, &last, want, now) {
			return now, last.undone
		}
		return last.at.Add(delay), last.undone + 1
	}
	return now, 0
}

// costHeld reports whether only the deletion cost has to be written again, and was right for heldFor. It notes when that was first seen.
func (c contest) costHeld(uid types.UID, last *repaired, want map[string]string, now time.Time) bool {
	cost, undone := want[v1alpha1.PodDeletionCostAnnotation]
	if !undone || cost != last.wrote[v1alpha1.PodDeletionCostAnnotation] {
		return false
	}
	if last.seen.IsZero() {
		last.seen = now
		c.pods.Add(uid, *last)
	}
	return len(want) == 1 && last.seen.Sub(last.at) >= heldFor
}

// forgotten reports whether a repair was so long ago that it does not matter any more whether it was undone.
func (r repaired) forgotten(now time.Time) bool { return now.Sub(r.at) > 2*maxDelay }

// exchanged remembers an exchange of slots. One that does not write again what was undone keeps the count of the repairs before it:
// otherwise the repairs of a pod whose slot changes would not back off.
func (c contest) exchanged(uid types.UID, want map[string]string, now time.Time) {
	_, undone := c.allow(uid, want, now)
	if known, ok := c.pods.Get(uid); ok && !known.(repaired).forgotten(now) {
		undone = max(undone, known.(repaired).undone)
	}
	c.note(uid, want, undone, now)
}

// note remembers a repair.
func (c contest) note(uid types.UID, want map[string]string, undone int, now time.Time) {
	wrote := maps.Clone(want)
	if known, ok := c.pods.Get(uid); ok {
		for key, value := range known.(repaired).wrote {
			if _, again := wrote[key]; !again {
				wrote[key] = value
			}
		}
	}
	c.pods.Add(uid, repaired{wrote: wrote, at: now, undone: undone})
}
