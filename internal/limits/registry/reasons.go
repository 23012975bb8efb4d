// SPDX-License-Identifier: Apache-2.0

package registry

import "fmt"

// The scheduler, the replay and the command line say the same thing in the same words.

// MissingReason is why a pod waits whose size does not exist.
func MissingReason(key string) string {
	return fmt.Sprintf("ResourceLimit %q does not exist", key)
}

// ExcessReason is why a pod waits that is above its size.
func (c *Compiled) ExcessReason(excess []Excess) string {
	return fmt.Sprintf("pod is above ResourceLimit %q: %s", c.Key, Describe(excess))
}

// NodeReason is why a node does not take pods of a size. It is made once: every
// node that is refused requests it.
func (c *Compiled) NodeReason() string { return c.nodeReason }
