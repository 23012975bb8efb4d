// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxNamespaces is how many namespaces have a cache of owners.
const maxNamespaces = 1024

// ownerCache caches something of owners. Each namespace has its own cache: made-up
// owners of one evict nothing that another one needs. The key is the namespace
// and the UID, since a pod can reference the UID of another namespace's owner.
type ownerCache struct {
	mu         sync.Mutex // guards the creation of a namespace's cache
	size       int
	namespaces *lru.Cache // of *lru.Cache by UID
}

func newOwnerCache(size int) *ownerCache {
	return &ownerCache{size: size, namespaces: lru.New(maxNamespaces)}
}

func (c *ownerCache) get(namespace string, uid types.UID) (any, bool) {
	if owners, known := c.namespaces.Get(namespace); known {
		return owners.(*lru.Cache).Get(uid)
	}
	return nil, false
}

func (c *ownerCache) set(namespace string, uid types.UID, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owners, known := c.namespaces.Get(namespace)
	if !known {
		owners = lru.New(c.size)
		c.namespaces.Add(namespace, owners)
	}
	owners.(*lru.Cache).Add(uid, value)
}

func (c *ownerCache) delete(namespace string, uid types.UID) {
	if owners, known := c.namespaces.Get(namespace); known {
		owners.(*lru.Cache).Remove(uid)
	}
}
