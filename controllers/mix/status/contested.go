// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

const (
	// remembered is how many repaired pods are known, the last ones.
	remembered = 2048
	// firstDelay is how long a repair waits that another client has undone. It doubles up to maxDelay with each further one.
	firstDelay, maxDelay = 30 * time.Second, time.Hour
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
}

func newContest() contest { return contest{lru.New(remembered)} }

// allow returns when a repair of a pod may be made, and how many before it were
// undone. A repair is undone where it has to write a value that was written before.
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
		return last.at.Add(delay), last.undone + 1
	}
	return now, 0
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
