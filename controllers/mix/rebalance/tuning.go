// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"time"

	"berth.dev/berth/internal/mix/rebalance"
)

// Tuning is what can be changed while the controller runs. A look has one tuning
// from its beginning to its end.
type Tuning struct {
	DryRun bool
	// Defaults are for mixes that do not say.
	Defaults             rebalance.Settings
	ClusterMaxConcurrent int
	Backoff, MaxBackoff  time.Duration
	MoveTimeout          time.Duration
}

// Retune has the next look, which is at everything, use another tuning. It
// never blocks. What is being moved stays so, by the new times.
func (c *Controller) Retune(t Tuning) {
	c.mu.Lock()
	c.retuned = &t
	c.mu.Unlock()
	c.Changed(everything)
}

// takeTuning begins a look, and reports whether its tuning is another one than
// that of the look before. Then everything has to be looked at.
func (c *Controller) takeTuning() (another bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retuned == nil {
		return false
	}
	c.Tuning, c.retuned = *c.retuned, nil
	c.dirty.add(everything)
	return true
}
