// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

func TestNodesAreFoundAsTheyWereLastSeen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger(t)
		model := map[string]capacity.Type{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("node-%d", rapid.IntRange(0, 40).Draw(t, "n")) })
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				typ := rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(rt, "type")
				l.SetNode(node(n, typ.String(), "z"))
				model[n] = typ
			},
			"delete": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				l.DeleteNode(n)
				delete(model, n)
			},
			"": func(rt *rapid.T) {
				for i := range 41 {
					n := fmt.Sprintf("node-%d", i)
					got, known := l.Node(n)
					want, exists := model[n]
					assert.Equal(rt, exists, known, n)
					assert.Equal(rt, want, got.Type, n)
				}
			},
		})
	})
}

func TestNodesAreReadWhileTheyChange(t *testing.T) {
	l := newLedger(t)
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			for i := range 500 {
				if r == 0 {
					l.SetNode(node(fmt.Sprint("node-", i%20), []string{"spot", "on-demand"}[i%2], "z"))
				} else {
					l.Node(fmt.Sprint("node-", i%20))
				}
			}
		})
	}
	wg.Wait()
}
