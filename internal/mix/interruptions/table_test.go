// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	noon     = time.Date(2026, time.August, 1, 12, 0, 0, 0, time.UTC)
	zones    = []string{"topology.kubernetes.io/zone"}
	settings = Settings{SharePercent: 20, Quarantine: 10 * time.Minute, Longest: time.Hour}
)

// lose has nodes of a domain interrupted, one after the other, until so many stay.
func lose(t *Table, domain string, lost, staying int, now time.Time) {
	for i := range lost {
		in := Interruption{Node: fmt.Sprint(domain, now.UnixNano(), i), Domain: domain, Staying: staying + lost - 1 - i}
		*t, _ = t.Observe(in, now, settings)
	}
}

func TestAQuarantineDependsOnTheShareOfTheDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		lost, staying int
		want          time.Duration
	}{
		"1 of 1 is all of it":                {1, 0, 10 * time.Minute},
		"1 of 5 is 20 %":                     {1, 4, 10 * time.Minute},
		"1 of 6 is less":                     {1, 5, 0},
		"1 of 100 is none":                   {1, 99, 0},
		"19 of 100 are less than 20 %":       {19, 81, 0},
		"20 of 100 are 20 %":                 {20, 80, 10 * time.Minute},
		"30 of 100 are one and a half times": {30, 70, 15 * time.Minute},
		"40 of 100 are twice as many":        {40, 60, 20 * time.Minute},
		"100 of 100 are five times as many":  {100, 0, 50 * time.Minute},
		"10 of 10 are five times as many":    {10, 0, 50 * time.Minute},
		"2 of 5 are twice as many":           {2, 3, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			table := Table{Keys: zones}
			lose(&table, "a", tc.lost, tc.staying, noon)
			names, next := table.Quarantined(noon)
			if tc.want == 0 {
				assert.Empty(t, names)
				return
			}
			assert.Contains(t, names, "a")
			assert.Equal(t, noon.Add(tc.want), next)
			names, next = table.Quarantined(next)
			assert.Empty(t, names, "it is over")
			assert.Zero(t, next)
		})
	}
}

func TestRepeatedInterruptionsProlongTheQuarantine(t *testing.T) {
	table := Table{Keys: zones}
	now := noon
	var lengths []time.Duration
	for range 8 {
		lose(&table, "a", 1, 1, now)
		until := table.Find("a").Until
		lengths = append(lengths, until.Sub(now))
		now = until
	}
	assert.IsIncreasing(t, lengths[:4], "each one comes right after the quarantine before")
	for _, l := range lengths {
		assert.LessOrEqual(t, l, time.Hour)
	}
}

func TestANodeCountsOnce(t *testing.T) {
	table := Table{Keys: zones}
	in := Interruption{Node: "uid", Domain: "a", Staying: 9}
	table, counted := table.Observe(in, noon, settings)
	require.True(t, counted)
	again, counted := table.Observe(in, noon.Add(time.Minute), settings)
	assert.False(t, counted)
	assert.Equal(t, table, again)
	assert.EqualValues(t, 1000, table.Find("a").Thousandths(noon))
	_, counted = table.Observe(in, noon.Add(maxMemory), settings)
	assert.True(t, counted, "it kept its Node and was interrupted again")
}

func TestThousandsOfNodesCountOnce(t *testing.T) {
	table := Table{Keys: zones}
	for i := range 2000 {
		table, _ = table.Observe(Interruption{Node: fmt.Sprint(i), Domain: "a"}, noon, settings)
	}
	text, err := table.Encode()
	require.NoError(t, err)
	table, err = Decode(text, zones, noon)
	require.NoError(t, err)
	_, counted := table.Observe(Interruption{Node: "0", Domain: "a"}, noon, settings)
	assert.False(t, counted)
}

func TestAnInterruptionCountsFromItsTime(t *testing.T) {
	table := Table{Keys: zones}
	table, _ = table.Observe(Interruption{Node: "b", Domain: "a"}, noon, settings)
	table, _ = table.Observe(Interruption{Node: "a", Domain: "a", Staying: 50}, noon.Add(-time.Hour), settings)
	assert.EqualValues(t, 1500, table.Find("a").Thousandths(noon), "it was an hour before the one that was counted first")
}

func TestTheSettingsLimitQuarantines(t *testing.T) {
	table := Table{Keys: zones}
	lose(&table, "a", 4, 0, noon)
	lose(&table, "b", 1, 4, noon)
	same, changed := table.Limit(noon, settings)
	require.False(t, changed)
	require.Equal(t, table, same)
	shorter := settings
	shorter.Longest = 15 * time.Minute
	limited, changed := table.Limit(noon, shorter)
	require.True(t, changed)
	assert.Equal(t, noon.Add(15*time.Minute), limited.Find("a").Until)
	assert.Equal(t, noon.Add(10*time.Minute), limited.Find("b").Until)
	assert.Equal(t, same, table, "it is replaced and not changed")
	shorter.Quarantine = 0
	limited, changed = table.Limit(noon, shorter)
	require.True(t, changed)
	names, _ := limited.Quarantined(noon)
	assert.Empty(t, names)
}

func TestAClockThatIsAheadEndsNoQuarantine(t *testing.T) {
	table := Table{Keys: zones}
	lose(&table, "a", 2, 0, noon.Add(90*time.Second))
	text, err := table.Encode()
	require.NoError(t, err)
	back, err := Decode(text, zones, noon)
	require.NoError(t, err)
	names, _ := back.Quarantined(noon)
	assert.Contains(t, names, "a")
	assert.EqualValues(t, 2000, back.Find("a").Thousandths(noon))
}

func TestNoTimeMeansNoQuarantine(t *testing.T) {
	off := settings
	off.Quarantine = 0
	table := Table{Keys: zones}
	table, _ = table.Observe(Interruption{Node: "uid", Domain: "a"}, noon, off)
	names, _ := table.Quarantined(noon)
	assert.Empty(t, names)
	assert.NotNil(t, table.Find("a"), "it is counted nevertheless")
}

func TestCountsDecayByHalfInEachHalfLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, maxCount).Draw(t, "count")
		age := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "age"))
		later := age + time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "more"))
		require.Equal(t, count, decayed(count, 0))
		require.LessOrEqual(t, decayed(count, later), decayed(count, age), "it never grows")
		require.GreaterOrEqual(t, decayed(count, later), int64(0))
		require.InDelta(t, decayed(count, age)/2, decayed(count, age+HalfLife), 1)
		require.Equal(t, count, decayed(count, -age), "a clock that goes back")
	})
}

func TestTablesStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			SharePercent: rapid.Int32Range(1, 100).Draw(t, "share"),
			Quarantine:   time.Duration(rapid.IntRange(0, 86400).Draw(t, "quarantine")) * time.Second,
			Longest:      time.Duration(rapid.IntRange(1, 86400).Draw(t, "longest")) * time.Second,
		}
		table, now := Table{Keys: zones}, noon
		names := rapid.IntRange(1, 300).Draw(t, "domains")
		for i := range rapid.IntRange(1, 700).Draw(t, "interruptions") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
			in := Interruption{
				Node: fmt.Sprint(i), Domain: fmt.Sprint(rapid.IntRange(0, names).Draw(t, "domain")),
				Staying: rapid.IntRange(-1, 1000).Draw(t, "staying"),
			}
			before := table.Find(in.Domain)
			var counted bool
			table, counted = table.Observe(in, now, s)
			require.True(t, counted)
			if d := table.Find(in.Domain); d != nil {
				require.GreaterOrEqual(t, d.Thousandths(now), int64(one))
				if before == nil || !before.Until.After(now.Add(s.Longest)) {
					require.False(t, d.Until.After(now.Add(s.Longest)), "no quarantine is longer than the longest")
				}
			}
		}
		require.LessOrEqual(t, len(table.Domains), MaxDomains)
		require.LessOrEqual(t, len(table.nodes), maxNodes)
		for i := range table.Domains {
			d := &table.Domains[i]
			require.True(t, d.Quarantined(now) || d.Thousandths(now) >= forgotten)
		}
		requireRoundTrip(t, &table, now)
	})
}

func requireRoundTrip(t *rapid.T, table *Table, now time.Time) {
	text, err := table.Encode()
	require.NoError(t, err)
	require.Less(t, len(text), maxBytes/2)
	back, err := Decode(text, zones, now)
	require.NoError(t, err)
	require.Len(t, back.nodes, len(table.nodes))
	for i := range back.nodes {
		require.WithinDuration(t, table.nodes[i].at, back.nodes[i].at, time.Second)
	}
	require.Len(t, back.Domains, len(table.Domains))
	for i := range table.Domains {
		want, got := &table.Domains[i], back.Find(table.Domains[i].Name)
		require.NotNil(t, got)
		require.Equal(t, want.Thousandths(now), got.Thousandths(now))
		require.Equal(t, want.Until.IsZero(), got.Until.IsZero())
		require.WithinDuration(t, want.Until, got.Until, time.Second)
	}
}

func TestTheDomainsOfTheLongestQuarantinesAreKept(t *testing.T) {
	table := Table{Keys: zones}
	lose(&table, "worst", 10, 0, noon)
	for i := range 3 * MaxDomains {
		lose(&table, fmt.Sprint("one-", i), 1, 50, noon)
	}
	lose(&table, "bad", 1, 0, noon)
	require.Len(t, table.Domains, MaxDomains)
	assert.Equal(t, []string{"worst", "bad"}, []string{table.Domains[0].Name, table.Domains[1].Name})
}

func TestDomainsOfOtherKeysAreLeftOut(t *testing.T) {
	table := Table{Keys: zones}
	lose(&table, "a", 1, 0, noon)
	text, err := table.Encode()
	require.NoError(t, err)
	back, err := Decode(text, []string{"node.kubernetes.io/instance-type"}, noon)
	require.ErrorIs(t, err, ErrOtherKeys)
	assert.Empty(t, back.Domains)
	_, counted := back.Observe(Interruption{Node: table.nodes[0].node, Domain: "m5"}, noon, settings)
	assert.False(t, counted, "the nodes are the same")
}

// Whoever may write the ConfigMap may have written anything.
func TestTablesAreReadWithinBounds(t *testing.T) {
	unix := noon.Unix()
	entry := func(domain string, thousandths, last, until int64) string {
		return fmt.Sprintf(`{"domain":%q,"thousandths":%d,"last":%d,"until":%d}`, domain, thousandths, last, until)
	}
	text := fmt.Sprintf(`{"keys":[%q],"domains":[%s]}`, zones[0], strings.Join([]string{
		entry("fine", 2000, unix, unix+60), entry("fine", 9000, unix, unix+90), entry("negative", -1, unix, unix+60),
		entry("to-come", 1000, unix+3600, unix+3700), entry("never", 1000, 0, unix+60), entry("large", 1<<62, unix, 0),
		entry("endless", 1000, unix, 1<<60), entry(strings.Repeat("x", 2000), 1000, unix, unix+60), entry("past", 1000, -1<<62, -1<<62),
	}, ","))
	table, err := Decode(text, zones, noon)
	require.NoError(t, err)
	var names []string
	for i := range table.Domains {
		names = append(names, table.Domains[i].Name)
	}
	assert.ElementsMatch(t, []string{"fine", "to-come", "large", "endless"}, names)
	assert.Equal(t, noon.Add(MaxQuarantine), table.Find("endless").Until.UTC(), "every quarantine has an end")
	assert.EqualValues(t, 1000, table.Find("to-come").Thousandths(noon))
	assert.EqualValues(t, maxCount, table.Find("large").Thousandths(noon))
	for _, text := range []string{"{", `{"domains":1}`, strings.Repeat(" ", maxBytes+1)} {
		table, err := Decode(text, zones, noon)
		require.Error(t, err)
		assert.Equal(t, Table{Keys: zones}, table)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"keys":["topology.kubernetes.io/zone"],"domains":[{"domain":"a","thousandths":1000,"last":1,"until":2}],"nodes":{"x":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		table, _ := Decode(text, zones, noon)
		if len(table.Domains) > MaxDomains || len(table.nodes) > maxNodes {
			t.Fatal("out of bounds")
		}
		table.Observe(Interruption{Node: "new", Domain: "a"}, noon, settings)
	})
}
