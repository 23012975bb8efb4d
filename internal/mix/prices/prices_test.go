// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const small = "# source: a list\n# licence: MIT\n# date: 2026-01-02\ntype,region,onDemand,spot,band\n"

func TestATableIsRead(t *testing.T) {
	table, err := ReadTable(strings.NewReader(small + "m5.large,here,0.1,0.03,3\nd4sv5,eastus,0.2,,\n"))
	require.NoError(t, err)
	assert.Equal(t, Source{Name: "a list", Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, table.Source)
	assert.Equal(t, 2, table.Len())
	onDemand, spot := table.amounts(&Node{InstanceType: "m5.large", Region: "here"})
	assert.Equal(t, [2]float64{0.1, 0.03}, [2]float64{onDemand, spot})
	onDemand, spot = table.amounts(&Node{InstanceType: "Standard_D4s_v5", Region: "eastus"})
	assert.Equal(t, [2]float64{0.2, 0}, [2]float64{onDemand, spot}, "Azure's names have a prefix on nodes")
	onDemand, _ = table.amounts(&Node{InstanceType: "m5.large", Region: "there"})
	assert.Zero(t, onDemand)
}

func TestWhatIsWrongWithATableNamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "line 1: want the lines",
		"# source: a\ntype,region\n":           "line 1: want the lines",
		"# source: a\n# date: soon\n":          "line 2: parsing time",
		"# source: a\n# date: 2026-01-01\n":    "line 3: want the columns type,region,onDemand,spot,band",
		"# source: a\n# date: 2026-01-01\nx\n": `line 3: the columns are ["x"]`,
		small + "m5.large,here,0.1\n":          "line 5: record on line 2: wrong number of fields",
		small + "m5.large,,0.1,,\n":            "line 5: want an instance type and a region",
		small + "m5.large,here,free,,\n":       `line 5: onDemand: "free" is no price`,
		small + "m5.large,here,1,-1,\n":        `line 5: spot: "-1" is no price`,
		small + "m5.large,here,NaN,,\n":        `line 5: onDemand: "NaN" is no price`,
		small + "m5.large,here,1e9,,\n":        `line 5: onDemand: "1e9" is no price`,
		small + "m5.large,here,1,1,6\n":        `line 5: band: "6"`,
		small + "a,b,1,,\na,b,1,,\n":           "line 6: a in b is there twice",
	} {
		_, err := ReadTable(strings.NewReader(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// The rows are those of the lists: the price of a general instance type in the region that has most of them.
func TestTheEmbeddedTablesHavePrices(t *testing.T) {
	all, err := embedded()
	require.NoError(t, err)
	least := map[string]int{"AWS on-demand": 1_000, "AWS prices": 10_000, "Azure prices": 10_000}
	for _, table := range all {
		for name, n := range least {
			if strings.HasPrefix(table.Name, name) {
				assert.Greater(t, table.Len(), n, table.Name)
				delete(least, name)
			}
		}
		assert.NotEmpty(t, table.Licence)
		for _, r := range table.rows.all {
			require.Less(t, r.spot, r.onDemand, table.Name)
		}
	}
	assert.Empty(t, least)
	b, err := New(Options{Discount: 10})
	require.NoError(t, err)
	q := b.Of(&Node{InstanceType: "m5.large", Region: "us-east-1"})
	assert.InDelta(t, 0.9*0.096, q.OnDemand.Dollars, 1e-9)
	assert.Equal(t, 2026, q.OnDemand.Source.Date.Year(), "the newer list")
	assert.InDelta(t, 0.0317, q.Spot.Dollars, 1e-9)
	assert.Equal(t, 2025, q.Spot.Source.Date.Year())
	q = b.Of(&Node{InstanceType: "Standard_D4s_v5", Region: "eastus"})
	assert.InDelta(t, 0.9*0.192, q.OnDemand.Dollars, 1e-9)
}

func TestARowIsThatOfItsPlace(t *testing.T) {
	r := newRows()
	for i := range 49_000 {
		r.add(place{fmt.Sprint("type-", i%1000), fmt.Sprint("region-", i/1000)}, row{float64(i), float64(i) / 2, 1})
	}
	r.sort()
	for _, i := range []int{0, 1, 999, 1000, 48_999} {
		assert.Equal(t, row{float64(i), float64(i) / 2, 1}, r.at(place{fmt.Sprint("type-", i%1000), fmt.Sprint("region-", i/1000)}))
	}
	for _, none := range []place{{"type-1", "none"}, {"none", "region-1"}, {}} {
		assert.Equal(t, row{}, r.at(none))
	}
}

func TestAPriceOfTheUserComesFirst(t *testing.T) {
	f, err := ReadFile("prices.yaml", []byte(`
date: 2026-11-01
discountPercent: 50
nodes:
- {instanceType: m5.large, zone: a, spot: 0.02}
- {selector: {matchLabels: {pool: own}}, onDemand: 0.05, spot: 0.01}
rates: {cpu: 1, memoryGiB: 2, spotCPU: 0.1, spotMemoryGiB: 0.2}
`))
	require.NoError(t, err)
	b, err := New(Options{File: f})
	require.NoError(t, err)
	q := b.Of(&Node{InstanceType: "m5.large", Region: "us-east-1", Zone: "a"})
	assert.InDelta(t, 0.02, q.Spot.Dollars, 1e-9)
	assert.InDelta(t, 0.048, q.OnDemand.Dollars, 1e-9, "the discount is on the list")
	q = b.Of(&Node{InstanceType: "own", Labels: map[string]string{"pool": "own"}})
	assert.Equal(t, [2]float64{0.05, 0.01}, [2]float64{q.OnDemand.Dollars, q.Spot.Dollars})
	q = b.Of(&Node{InstanceType: "other", CPU: 2, Memory: gibibyte})
	assert.InDelta(t, 4, q.OnDemand.Dollars, 1e-9)
	assert.InDelta(t, 0.4, q.Spot.Dollars, 1e-9)
	assert.True(t, q.Spot.Source.Estimate(f.Source.Date))
	q = b.Of(&Node{InstanceType: "a1.large", Region: "us-east-1", CPU: 2})
	assert.True(t, q.OnDemand.Known())
	assert.False(t, q.Spot.Known(), "the difference of a listed price and a rate is no saving")
}

func TestOldPricesAreEstimates(t *testing.T) {
	s := Source{Date: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	assert.False(t, s.Estimate(s.Date.AddDate(0, 0, 90)))
	assert.True(t, s.Estimate(s.Date.AddDate(0, 0, 91)))
}

func TestWhatIsWrongWithAFileNamesTheField(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                     "date: Invalid value",
		"date: 2026-01-01\nnode: []":             `unknown field "node"`,
		"date: 2026-01-01\ndiscountPercent: 100": "discountPercent: Invalid value: 100",
		"date: 2026-01-01\nnodes: [{onDemand: 1}]":                                                       "nodes[0]: Required value",
		"date: 2026-01-01\nnodes: [{zone: a}]":                                                           "nodes[0].onDemand: Required value",
		"date: 2026-01-01\nnodes: [{zone: a, spot: -1}]":                                                 "nodes[0].spot: Invalid value: -1",
		"date: 2026-01-01\nnodes: [{spot: 1, selector: {matchExpressions: [{key: a, operator: Near}]}}]": "nodes[0].selector: Invalid value",
		"date: 2026-01-01\nrates: {cpu: 1e12}":                                                           "rates.cpu: Invalid value",
	} {
		_, err := ReadFile("prices.yaml", []byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte("date: 2026-01-01\nnodes: [{instanceType: a, onDemand: 1, spot: 0.5}]"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadFile("prices.yaml", data)
		if err != nil {
			return
		}
		b, err := New(Options{File: file})
		require.NoError(t, err)
		q := b.Of(&Node{InstanceType: "a", Region: "us-east-1", CPU: 1, Memory: gibibyte})
		for _, a := range []Amount{q.OnDemand, q.Spot} {
			assert.True(t, a.Dollars >= 0 && a.Dollars < 2*maxPrice*2, a.Dollars)
		}
	})
}

func FuzzReadTable(f *testing.F) {
	f.Add(small + "m5.large,here,0.1,0.03,3\n")
	f.Add("#")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ReadTable(strings.NewReader(text))
		if err == nil {
			assert.NotEmpty(t, table.Name)
		}
	})
}
