// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Karpenter consolidates and Berth's controller moves, both as eagerly as they can. Once the nodes are packed, no one
// has anything to do: a node or a replica that moves then, moves indefinitely.
func TestConsolidationAndTheMixDoNotPlayPingPong(t *testing.T) {
	p := both
	p.consolidateAfter = "5s"
	w := start(t, p)
	w.Controller(testenv.Impatient)
	d := builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated)
	w.Create(builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand), d)
	w.waitMix(20)
	// Something to consolidate: half-empty nodes of both types.
	w.Scale(d, 11)
	w.waitMix(11)

	const packed = 3 + 2 // 7 and 4 replicas, three to a node
	seen := launches{}
	w.quiet(seen, packed)
	before, evictions := maps.Clone(seen), w.evictions()
	t.Logf("until it was quiet: %s, %d evictions, %d nodes", before, evictions, len(w.nodes()))
	w.Always(testenv.Length(time.Minute, 10*time.Minute), "the mix is exact", func() (bool, string) {
		seen.see(w)
		s := w.Split("web")
		return s == testenv.SplitBy(web, 11), s.String()
	})
	assert.Zero(t, w.evictions()-evictions, "evictions while nothing changes")
	assert.Empty(t, seen.since(before), "launches while nothing changes")
	assert.Len(t, w.nodes(), packed, "nodes")
	w.requireKarpentersNodes()
}

// quiet waits until Karpenter has come down to so many nodes, and then for a while none was launched or removed, and no
// pod replaced.
func (w *autoscaled) quiet(seen launches, nodes int) {
	w.T.Helper()
	const long = 30 * time.Second // consolidateAfter, and Karpenter's own pauses of up to 15 s
	last, since := "", time.Now()
	w.Within(patience, "Karpenter has consolidated", func() (bool, string) {
		seen.see(w)
		n := len(w.nodes())
		now := fmt.Sprintf("%s, %d nodes, pods %s", seen, n, w.UIDs())
		if now != last {
			last, since = now, time.Now()
		}
		return n == nodes && time.Since(since) > long, now
	})
}

// evictions is how many pods were evicted so far, by whomever.
func (w *autoscaled) evictions() int {
	w.T.Helper()
	return len(w.Audit(func(r testenv.Request) bool { return r.Resource == "pods/eviction" && r.OK() }))
}
