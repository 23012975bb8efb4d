// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/overview"
)

// domainOf is a reading with workloads of so many replicas each, of which so many are on spot nodes of a domain.
func domainOf(here ...int) *overview.Reading {
	r := shop()
	r.Overview.Workloads = nil
	for i, n := range here {
		w := workload("shop", fmt.Sprint("web-", i))
		w.Revision = fmt.Sprint("r", i)
		for j := range w.Slots {
			w.Slots[j].Node, w.Slots[j].NodeType = "elsewhere", "spot"
			if j < n {
				w.Slots[j].Node = "spot-2"
			}
		}
		r.Overview.Workloads = append(r.Overview.Workloads, w)
	}
	return r
}

// Each workload of a domain is identified, and is on a page: first those that lose the largest share.
func TestTheLargestLossesOfADomainAreFirst(t *testing.T) {
	const path = "/domain?name=zone-a/small"
	r := domainOf(1, 7, 0, 3)
	assert.Equal(t, []string{"Deployment/web-1 shop r1", "Deployment/web-3 shop r3", "Deployment/web-0 shop r0"}, heads(t, at(t, r, path), "losses"))
	assert.Equal(t, []string{"Deployment/web-0 shop r0", "Deployment/web-1 shop r1", "Deployment/web-3 shop r3"}, heads(t, at(t, r, path+"&losses-sort=workload"), "losses"))
	page := at(t, r, path+"&losses-filter=web-3&filter=spot-2&losses-sort=-share&sort=name")
	assert.Equal(t, []string{"Deployment/web-3 shop r3"}, heads(t, page, "losses"))
	assert.Equal(t, []string{"spot-2"}, heads(t, page, "node-list"), "each table has its own filter")
	assert.Contains(t, page, `<a href="/domain?filter=spot-2&amp;losses-filter=web-3&amp;losses-sort=lost&amp;name=zone-a%2Fsmall&amp;sort=name">`, "and keeps that of the other")
	assert.Contains(t, page, `<a href="/domain?filter=spot-2&amp;name=zone-a%2Fsmall&amp;sort=name">Show all</a>`)
	assert.Contains(t, page, `<input type="hidden" name="losses-filter" value="web-3">`)

	many := make([]int, perPage+1)
	for i := range many {
		many[i] = 1
	}
	page = at(t, domainOf(many...), path)
	assert.Len(t, heads(t, page, "losses"), perPage)
	assert.Contains(t, page, "losses-page=2")
}

// A unit is lost with any of its pods on a spot node of the domain, whatever the node of its first pod is.
func TestAUnitIsLostWithEachOfItsPods(t *testing.T) {
	on := map[string]bool{"n": true}
	pods := func(types ...string) *overview.Slot {
		s := &overview.Slot{Unit: "u", NodeType: types[0]}
		for i, kind := range types {
			s.Pods = append(s.Pods, overview.UnitPod{Node: []string{"elsewhere", "n"}[i%2], NodeType: kind})
		}
		return s
	}
	for _, c := range []struct {
		slot       *overview.Slot
		spot, here bool
	}{
		{pods("on-demand", "spot"), true, true},
		{pods("spot", "on-demand"), true, false},
		{pods("on-demand", "on-demand"), false, false},
		{&overview.Slot{Node: "n", NodeType: "spot"}, true, true},
		{&overview.Slot{Node: "n", NodeType: "on-demand"}, false, false},
		{&overview.Slot{Node: "elsewhere", NodeType: "spot"}, true, false},
	} {
		spot, here := lost(c.slot, on)
		assert.Equal(t, []bool{c.spot, c.here}, []bool{spot, here}, c.slot)
	}
}

func TestThePageOfTheNodesShowsQuarantines(t *testing.T) {
	r := shop()
	r.Overview.Nodes = []overview.NodeGroup{{Type: "spot", Zone: "a", Nodes: 4}}
	r.Domains = &overview.Domains{Domains: []overview.DomainStatus{
		{
			Domain: "zone-a/small", Nodes: 3, Replicas: overview.Known(4), SharePercent: overview.Known(40),
			Interruptions:    overview.Known(overview.Thousandths(1500)),
			QuarantinedUntil: &metav1.Time{Time: time.Date(2026, 11, 29, 12, 16, 40, 0, time.UTC)},
		},
		{Domain: "zone-b/gone", Interruptions: overview.Known(overview.Thousandths(0))},
		{Domain: "zone-c/unread", Nodes: 1},
	}}
	page := at(t, r, "/nodes")
	assert.Contains(t, page, `<span class="badge warn">2026-11-29T12:16:40Z</span>`)
	assert.Contains(t, page, `<td class="n" data-label="Interruptions">1.5</td>`)
	assert.Contains(t, page, `<a href="/domain?name=zone-a%2Fsmall">zone-a/small</a>`)
	assert.NotContains(t, page, "/domain?name=zone-b%2Fgone", "a domain without nodes has no page")
	assert.Contains(t, page, `<td class="n" data-label="Interruptions">?</td><td data-label="Quarantine until">?</td>`, "unknown is not none")
	r.Domains.Domains = r.Domains.Domains[2:]
	page = at(t, r, "/nodes")
	assert.Contains(t, page, "were not read", "none are known")
	assert.NotContains(t, page, "Quarantine until")
	r.Domains = nil
	assert.NotContains(t, at(t, r, "/nodes"), "Interruption domains")
}
