// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/evictions"
)

// maxRequests bounds the requests of a namespace. Others are not answered: another responder goes on after 20 minutes.
const maxRequests = 1000

// table has the requests that wait for Berth.
type table struct {
	byName map[types.NamespacedName]*entry
	// byPod has the request for each pod: evictionrequest-controller lets one Eviction of a pod go on.
	byPod map[podKey]types.NamespacedName
	// pods are those that the requests of a namespace name, with when each was first seen. A map is replaced rather than changed.
	pods map[string]map[types.UID]time.Time
	// count is how many requests a namespace has.
	count map[string]int
}

type podKey struct {
	namespace string
	uid       types.UID
}

// entry is a request, with what was decided about its pod, nil for nothing yet.
type entry struct {
	evictions.Request
	fate *evictions.Fate
	// seen is set once the cluster state has had the pod: it is gone where it has it no more.
	seen bool
	// notBefore is when an answer that failed may be written again.
	notBefore time.Time
}

func newTable() table {
	return table{
		byName: map[types.NamespacedName]*entry{}, byPod: map[podKey]types.NamespacedName{}, pods: map[string]map[types.UID]time.Time{},
		count: map[string]int{},
	}
}

// set takes over a request, and reports whether it is new.
func (t *table) set(key types.NamespacedName, r evictions.Request, now time.Time) (begun bool) {
	old := t.byName[key]
	if old != nil && old.UID == r.UID && old.PodUID == r.PodUID {
		if r.Heartbeat.Before(old.Heartbeat) { // the watch is behind an answer
			return false
		}
		old.Request = r
		return false
	}
	t.remove(key)
	if t.count[r.Namespace] >= maxRequests {
		return false
	}
	t.byName[key], t.byPod[podKey{r.Namespace, r.PodUID}] = &entry{Request: r}, key
	t.count[r.Namespace]++
	pods := maps.Clone(t.pods[r.Namespace])
	if pods == nil {
		pods = map[types.UID]time.Time{}
	}
	pods[r.PodUID] = now
	t.pods[r.Namespace] = pods
	return true
}

// remove forgets a request.
func (t *table) remove(key types.NamespacedName) {
	old := t.byName[key]
	if old == nil {
		return
	}
	delete(t.byName, key)
	if t.count[key.Namespace]--; t.count[key.Namespace] == 0 {
		delete(t.count, key.Namespace)
	}
	pod := podKey{key.Namespace, old.PodUID}
	if t.byPod[pod] != key {
		return // another one names the pod
	}
	delete(t.byPod, pod)
	if pods := maps.Clone(t.pods[key.Namespace]); len(pods) > 1 {
		delete(pods, old.PodUID)
		t.pods[key.Namespace] = pods
	} else {
		delete(t.pods, key.Namespace)
	}
}

// get returns a request. There notes that the cluster state has its pod.
func (t *table) get(key types.NamespacedName, there func(*evictions.Request) bool) (e entry, known bool) {
	kept := t.byName[key]
	if kept == nil {
		return e, false
	}
	kept.seen = kept.seen || there(&kept.Request)
	return *kept, true
}

// failed has a request wait whose answer was not written.
func (t *table) failed(key types.NamespacedName, notBefore time.Time) {
	if e := t.byName[key]; e != nil {
		e.notBefore = notBefore
	}
}

// in returns the requests for the pods of a namespace.
func (t *table) in(namespace string) (keys []types.NamespacedName) {
	for uid := range t.pods[namespace] {
		keys = append(keys, t.byPod[podKey{namespace, uid}])
	}
	return keys
}

// of returns the request for a pod.
func (t *table) of(namespace string, pod types.UID) (key types.NamespacedName, known bool) {
	key, known = t.byPod[podKey{namespace, pod}]
	return key, known
}

// decided takes over what was decided about a pod, and reports whether that is another decision about its request.
func (t *table) decided(namespace string, pod types.UID, f evictions.Fate) (key types.NamespacedName, changed bool) {
	key, known := t.of(namespace, pod)
	if !known {
		return key, false
	}
	e := t.byName[key]
	changed = e.fate == nil || *e.fate != f
	e.fate = &f
	return key, changed
}
