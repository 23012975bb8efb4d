// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

// priced is a shop whose nodes have an instance type, and whose pods request a core and a GiB each. The node of a slot is one of the first
// four, of spot, or the last one, and there is a replica that borrows.
func priced() *overview.Reading {
	r := shop()
	few := overview.Requests{MilliCPU: 100, Memory: 1 << 27}
	for i := range r.Nodes {
		n := r.Nodes[i].Node
		n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyRegion] = "m5.large", "us-east-1"
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		n.Status.Capacity = n.Status.Allocatable
	}
	second := workload("shop", "cart")
	second.Revision = "cart-2"
	r.Overview.Workloads = append(r.Overview.Workloads, second)
	for i := range r.Overview.Workloads {
		w := &r.Overview.Workloads[i]
		for k := range w.Slots {
			s := &w.Slots[k]
			if s.Requests, s.Node = few, "spot-2"; s.Type == "on-demand" || i == 1 && k == 9 {
				s.Node, s.NodeType = "on-demand-0", "on-demand"
			}
		}
	}
	r.Overview.Workloads[1].Slots[9].State = overview.Borrowed
	return r
}

// cost is the block of costs of a page.
func cost(t *testing.T, page string) string {
	t.Helper()
	_, block, found := strings.Cut(page, `<section id="cost"`)
	require.True(t, found, page)
	block, _, _ = strings.Cut(block, "</section>")
	return block
}

func TestTheOverviewHasTheCostOfMixes(t *testing.T) {
	page := at(t, priced(), "/")
	block := cost(t, page)
	for _, want := range []string{
		`<span class="badge warn">estimate</span>`, "<dt>Now</dt><dd>$", " a month, $", "% of $", "<dt>Available at the wanted mix</dt><dd>$",
		"<dt>Price of the floor</dt><dd>$", "<dt>Pods with a price</dt><dd>20 of 20</dd>", `<rect class="spot" x="0"`, `<rect class="on-demand"`,
		"on-demand $", "Prices of 20 pods: ", ": an estimate.", `<a href="/savings">`,
	} {
		assert.Contains(t, block, want)
	}
	assert.NotContains(t, block, "$0.00", "each amount is of some pods")
	assert.Contains(t, page, `<th scope="col" class="n">Saved a month</th>`)
	assert.Contains(t, page, `data-label="Saved a month">$`)
	assert.Len(t, heads(t, page, "workloads"), 2)
}

// Where something may not be listed, or nothing has a price, the page shows that in a line, and no amount.
func TestCostsThatAreUnknownHaveNoAmount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *overview.Reading)
		want   string
	}{
		"nodes may not be listed": {func(r *overview.Reading) { r.Unread, r.Nodes = []string{"nodes"}, nil }, "Costs are unknown: could not list nodes."},
		"pods and mixes may not be listed": {
			func(r *overview.Reading) { r.Unread = []string{"pods", overview.MixesResource} }, "Costs are unknown: could not list pods, capacitymixes.berth.dev.",
		},
		"no pod requests anything": {func(r *overview.Reading) {
			for i := range r.Overview.Workloads {
				for k := range r.Overview.Workloads[i].Slots {
					r.Overview.Workloads[i].Slots[k].Requests = overview.Requests{}
				}
			}
		}, "Costs are unknown: none of 20 pods has a price, because the pod requests no CPU and memory."},
		"there is no pod": {func(r *overview.Reading) {
			for i := range r.Overview.Workloads {
				r.Overview.Workloads[i].Slots = nil
			}
		}, "No pod of a mix runs, so nothing has a cost."},
	} {
		t.Run(name, func(t *testing.T) {
			r := priced()
			c.change(r)
			for _, path := range []string{"/", "/savings", "/savings?by=namespace"} {
				page := at(t, r, path)
				assert.Contains(t, cost(t, page), "<p>"+c.want+"</p>", path)
				assert.NotContains(t, page, "$", path)
				assert.NotContains(t, page, "Saved a month", path)
			}
		})
	}
	r := priced()
	r.Unread = []string{"nodes"}
	assert.Contains(t, at(t, r, "/savings"), "The number of workloads is unknown: nodes, pods or mixes could not be listed.")
}

// A pod without a price is in no amount, and its workload names how many have one.
func TestAWorkloadNamesThePodsThatHaveAPrice(t *testing.T) {
	r := priced()
	r.Overview.Workloads[0].Slots[5].Requests = overview.Requests{}
	for i := range r.Overview.Workloads[1].Slots {
		r.Overview.Workloads[1].Slots[i].Requests = overview.Requests{}
	}
	page := at(t, r, "/")
	assert.Contains(t, page, `<span class="dim">of 9/10 pods</span></td>`)
	assert.Contains(t, page, `data-label="Saved a month">?</td>`)
	assert.Contains(t, cost(t, page), "No price of 11 pods: the pod requests no CPU and memory.")
	page = at(t, r, "/savings?sort=saved")
	assert.Equal(t, []string{"Deployment/cart shop cart-2", "Deployment/web shop"}, heads(t, page, "savings"), "unknown is the least")
	assert.Contains(t, page, `data-label="Cost">?</td>`)
}

func TestSavingsAreATableByEachChoice(t *testing.T) {
	r := priced()
	for path, want := range map[string][]string{
		"/savings":                          {"Deployment/web shop", "Deployment/cart shop cart-2"},
		"/savings?by=workload&sort=-saved":  {"Deployment/web shop", "Deployment/cart shop cart-2"},
		"/savings?by=workload&sort=-cost":   {"Deployment/cart shop cart-2", "Deployment/web shop"},
		"/savings?by=workload&filter=cart":  {"Deployment/cart shop cart-2"},
		"/savings?by=mix&sort=mix":          {"cart shop", "web shop"},
		"/savings?by=namespace":             {"shop"},
		"/savings?by=anything":              {"Deployment/web shop", "Deployment/cart shop cart-2"},
		"/savings?by=unit&filter=web+web-7": {"Deployment/web shop"},
	} {
		page := at(t, r, path)
		got := heads(t, page, "savings")
		if path == "/savings" || path == "/savings?by=anything" { // both can save as much in sum
			assert.ElementsMatch(t, want, got, path)
			continue
		}
		assert.Equal(t, want, got, path)
	}
	page := at(t, r, "/savings?by=mix&filter=shop")
	assert.Contains(t, page, `<a href="/savings?by=mix" aria-current="page">By mix</a>`)
	assert.Contains(t, page, `<a href="/savings?by=mix&amp;filter=shop&amp;sort=cost">Cost</a>`, "the choice stays")
	assert.Contains(t, page, `<input type="hidden" name="by" value="mix">`)
	assert.Contains(t, page, `<a href="/mixes/shop/web">web</a>`)
	assert.Contains(t, at(t, r, "/savings"), `<a href="/workloads/shop/Deployment/cart?revision=cart-2">Deployment/cart</a>`)
	assert.Equal(t, []found{{"Savings", "page", "/savings"}}, findIn(&state{Reading: r}, "savings"))
}

func TestTheOverviewBoundsItsNotes(t *testing.T) {
	r := priced()
	for i := range 8 {
		n := *r.Nodes[4].Node.DeepCopy()
		n.Name, n.Labels[corev1.LabelInstanceTypeStable] = fmt.Sprint("other-", i), ""
		n.Status.Capacity, n.Status.Allocatable = nil, nil
		r.Nodes = append(r.Nodes, overview.NodeDetail{Node: &n})
	}
	reasons := []string{"", "gone", "other-1"}
	for i := range 6 {
		s := &r.Overview.Workloads[1].Slots[i]
		if s.Node = reasons[i%3]; i == 5 {
			s.Requests = overview.Requests{}
		}
	}
	block := cost(t, at(t, r, "/"))
	assert.Equal(t, mostNotes+1, strings.Count(block, `<p class="dim">`))
	assert.Contains(t, block, "on the page of savings")
	whole := cost(t, at(t, r, "/savings"))
	assert.Greater(t, strings.Count(whole, `<p class="dim">`), mostNotes)
	assert.NotContains(t, whole, "on the page of savings")
}

// What workloads save is computed once for a reading, however many pages show it.
func TestSavingsAreComputedOnceForAReading(t *testing.T) {
	s := stateOf(priced())
	first, err := s.savings("workload")
	require.NoError(t, err)
	again, err := s.savings("workload")
	require.NoError(t, err)
	assert.Same(t, first, again)
	assert.Equal(t, readAt, s.at)
	assert.Less(t, time.Duration(0), readAt.Sub(first.Sources[0].Date))
}

// The files of the savings are what `kubectl berth savings` prints of the same report, and have the same choice as the page.
func TestSavingsAreFilesAsTheCommandPrintsThem(t *testing.T) {
	r := priced()
	source := readings(func() *overview.Reading { return r })
	c := running(t, Options{Source: source, Interval: time.Hour, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return readAt }})
	_, page := get(t, c, "/savings?by=mix")
	assert.Contains(t, page, `<a href="/savings.csv?by=mix" download>Download as CSV</a>`)
	assert.Contains(t, page, `<a href="/savings.json?by=mix" download>Download as JSON</a>`)
	report, err := stateOf(r).savings(savings.ByMix)
	require.NoError(t, err)
	var want strings.Builder
	require.NoError(t, report.WriteCSV(&want))
	w, got := get(t, c, "/savings.csv?by=mix")
	assert.Equal(t, want.String(), got)
	assert.Equal(t, 3, strings.Count(got, "\n"), "the head, and two mixes")
	assert.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Equal(t, `attachment; filename="savings-by-mix.csv"`, w.Header().Get("Content-Disposition"))
	text, err := json.MarshalIndent(report, "", "    ")
	require.NoError(t, err)
	w, got = get(t, c, "/savings.json?by=mix")
	assert.Equal(t, string(text)+"\n", got)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	w, _ = get(t, c, "/savings.csv?by=%22x")
	assert.Equal(t, `attachment; filename="savings-by-workload.csv"`, w.Header().Get("Content-Disposition"))
}

// A file of unknown costs would have amounts of zero.
func TestUnknownCostsAreNoFile(t *testing.T) {
	r := priced()
	r.Unread, r.Nodes = []string{"nodes"}, nil
	assert.NotContains(t, at(t, r, "/savings"), "Download")
	c := running(t, Options{Source: readings(func() *overview.Reading { return r }), Interval: time.Hour, Log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/savings.csv", "/savings.json?by=unit"} {
		w, body := get(t, c, path)
		assert.Equal(t, http.StatusForbidden, w.Code)
		assert.Equal(t, "Costs are unknown: could not list nodes.\n", body)
		assert.Empty(t, w.Header().Get("Content-Disposition"))
	}
}

// The pages have the prices of the user, with their source.
func TestThePagesHaveTheUsersPrices(t *testing.T) {
	file, err := prices.ReadFile("mine.yaml", []byte("date: 2026-11-20\nnodes: [{instanceType: m5.large, onDemand: 1, spot: 0.25}]\n"))
	require.NoError(t, err)
	book, err := prices.New(prices.Options{File: file})
	require.NoError(t, err)
	c := running(t, Options{
		Source: readings(priced), Interval: time.Hour, Log: slog.New(slog.DiscardHandler), Prices: func() prices.Reading { return prices.Reading{Began: true, Book: book} }, Now: func() time.Time { return readAt },
	})
	_, page := get(t, c, "/savings")
	assert.Contains(t, cost(t, page), "Prices of 20 pods: mine.yaml, 2026-11-20")
	_, page = get(t, c, "/")
	assert.Contains(t, cost(t, page), "mine.yaml")
}

// A page never waits for prices: without any, costs are unknown, and those of an earlier reading have their age.
func TestPricesThatCannotBeReadAreUnknownOrOld(t *testing.T) {
	book := builtIn().Book
	for name, c := range map[string]struct {
		reading prices.Reading
		want    string
		known   bool
	}{
		"not yet":    {prices.Reading{}, "Costs are unknown: the prices of nodes were not read yet.", false},
		"not at all": {prices.Reading{Began: true, Problem: "no <answer>"}, "Costs are unknown: the prices of nodes cannot be read: no &lt;answer&gt;.", false},
		"not any more": {
			prices.Reading{Began: true, Book: book, At: readAt.Add(-3 * time.Hour), Problem: "no answer"},
			"The prices of nodes are 3h old, because they cannot be read: no answer.", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, pages := c, running(t, Options{
				Source: readings(priced), Interval: time.Hour, Log: slog.New(slog.DiscardHandler), Prices: func() prices.Reading { return c.reading },
				Now: func() time.Time { return readAt },
			})
			_, page := get(t, pages, "/savings")
			assert.Contains(t, page, c.want)
			assert.Equal(t, c.known, strings.Contains(page, "Download as CSV"))
			w, _ := get(t, pages, "/savings.csv")
			want := http.StatusServiceUnavailable
			if c.known {
				want = http.StatusOK
			}
			assert.Equal(t, want, w.Code)
		})
	}
}

// Prices that were read meanwhile are on the page with the next reading of the cluster, also where that is the same one.
func TestNewerPricesAreOnThePage(t *testing.T) {
	r, read := priced(), prices.Reading{}
	h := newHub(readings(func() *overview.Reading { return r }), time.Hour, func() time.Time { return readAt })
	h.prices = func() prices.Reading { return read }
	h.read(t.Context())
	assert.Equal(t, "Costs are unknown: the prices of nodes were not read yet.", h.last.costUnknown())
	h.last.savedByWorkload()
	read = builtIn()
	h.read(t.Context())
	assert.Empty(t, h.last.costUnknown())
	assert.NotEmpty(t, h.last.savedByWorkload())
	rows := h.last.rows
	h.read(t.Context())
	assert.Same(t, rows, h.last.rows, "nothing has changed")
}
