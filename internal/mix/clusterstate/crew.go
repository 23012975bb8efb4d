// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/governing"
)

// Crew is what a ReplicaSet requests and has of its pods.
type Crew struct {
	// Asked is how many pods the ReplicaSet requests, 0 where it is gone or is being deleted.
	Asked int
	// Live are its pods that are not terminating, and Places where they are.
	Live   []*Pod
	Places []Place
	// MinReady is how long a pod must be Ready to be available.
	MinReady time.Duration
}

// CrewOf returns the crew of a ReplicaSet of a namespace.
func (st *State) CrewOf(namespace string, uid types.UID) (c Crew) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if o := st.object(namespace, uid); o != nil && !o.ended {
		c.Asked, c.MinReady = max(0, o.asked), o.minReady
	}
	ns := st.namespaces[namespace]
	if ns == nil || ns.owned[uid] == nil {
		return c
	}
	for _, p := range ns.owned[uid].pods {
		if p.Live() {
			c.Live = append(c.Live, p)
		}
	}
	slices.SortFunc(c.Live, older)
	for _, p := range c.Live {
		c.Places = append(c.Places, st.placeOf(p))
	}
	return c
}

// Follows reports whether the controller of a group is known and makes pods. One of a group that is not identified by its owner may.
func (st *State) Follows(key governing.GroupKey) bool {
	if key.Owner() == "" {
		return true
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	o := st.object(key.Namespace, key.Owner())
	return o != nil && !o.ended && o.asked != 0
}

// leaving are the released pods that were in a group and still run, the oldest first; st.mu is held.
func (st *State) leaving(namespace, id string) (uids []types.UID) {
	for p := range st.released[namespace] {
		if r, _ := p.ReleasedFrom(); r.Group == id {
			uids = append(uids, p.UID)
		}
	}
	slices.Sort(uids)
	return uids
}
