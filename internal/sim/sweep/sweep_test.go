// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
)

// parse reads a scenario with two workloads that have a mix, and one that has none.
func parse(t require.TestingT, mix string) *scenario.Scenario {
	s, err := scenario.Parse("x.yaml", fmt.Appendf(nil, `
duration: 1h
nodePools: [{name: a, capacityType: spot, cpu: 1, memory: 1Gi}]
workloads:
- {name: plain, replicas: 1}
- {name: web, replicas: 10, mix: {%[1]s}}
- {name: api, replicas: 10, mix: {%[1]s}}
`, mix), nil)
	require.NoError(t, err)
	return s
}

const everything = "spotPercent: 10, minOnDemand: 1, maxSpot: 7, spotWaitSeconds: 5, spreadSpotOver: [rack], " +
	"maxPerDomain: [{topologyKey: topology.kubernetes.io/zone, maxCount: 9, whenUnsatisfiable: ScheduleAnyway}], " +
	"rebalance: {strategy: Surge, provisioning: Wait, maxConcurrent: 3}"

// examples has a value of each field, and what the mix has for it.
var examples = map[string]map[string]string{
	"spotPercent": {"0": `0`, "70": `70`},
	"minOnDemand": {"0": `null`, "2": `2`},
	"maxSpot":     {"0": `0`, "3": `3`, "unset": `null`},
	"maxPerDomain": {
		"25%":                `[{"maxPercent":25,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]`,
		"zone:3":             `[{"maxCount":3,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]`,
		"instanceType:4+r:1": `[{"maxCount":4,"topologyKey":"node.kubernetes.io/instance-type"},{"maxCount":1,"topologyKey":"r"}]`,
		"unset":              `null`,
	},
	"spreadSpotOver": {
		"zone": `["topology.kubernetes.io/zone"]`, "zone+x.io/rack": `["topology.kubernetes.io/zone","x.io/rack"]`, "unset": `null`,
	},
	"spotWaitSeconds":        {"0": `0`, "900": `900`, "unset": `null`},
	"rebalance.strategy":     {"SurgeOrEvict": `"SurgeOrEvict"`, "unset": `null`},
	"rebalance.provisioning": {"Placeholder": `"Placeholder"`, "unset": `null`},
}

// valueOf is what a mix has for a field, in JSON.
func valueOf(t require.TestingT, m *v1alpha1.CapacityMixSpec, name string) string {
	text, err := json.Marshal(m)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	for part := range strings.SplitSeq(name, ".") {
		object, _ := v.(map[string]any)
		v = object[part]
	}
	text, err = json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func text(t require.TestingT, s *scenario.Scenario) string {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return string(text)
}

// Any values of any fields: each combination is there once, in order, its mixes have its values, and nothing else is changed.
func TestPropertyEachCombinationHasItsValues(t *testing.T) {
	require.Len(t, examples, len(Fields), "each field has examples")
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(Names()), 1, 4, rapid.ID).Draw(t, "fields")
		total, flags := 1, []string{}
		var values [][]string
		for _, name := range names {
			var all []string
			for value := range examples[name] {
				all = append(all, value)
			}
			list := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, name)
			values, flags = append(values, list), append(flags, name+"="+strings.Join(list, ","))
			total *= len(list)
		}
		s := parse(t, rapid.SampledFrom([]string{everything, "spotPercent: 10"}).Draw(t, "mix"))
		before := text(t, s)
		variants, err := Parse(flags)
		require.NoError(t, err)
		require.Len(t, variants, total)
		scenarios, err := Scenarios(s, variants)
		require.NoError(t, err)
		seen := map[string]bool{}
		for i, v := range variants {
			require.False(t, seen[v.String()], "%s", v)
			seen[v.String()] = true
			rest := i
			for n, name := range slices.Backward(names) {
				value := values[n][rest%len(values[n])]
				rest /= len(values[n])
				require.Equal(t, value, v.Values()[name], "the values of the last field change first")
				for _, w := range scenarios[i].Workloads[1:] {
					want, has := examples[name][value], valueOf(t, w.Mix, name)
					if s.Workloads[1].Mix.MaxPerDomain == nil {
						want = strings.ReplaceAll(want, `,"whenUnsatisfiable":"ScheduleAnyway"`, "")
					}
					require.Equal(t, want, has, "%s of %s", name, v)
				}
			}
			for _, name := range Names() {
				if _, set := v.Values()[name]; !set {
					require.Equal(t, valueOf(t, s.Workloads[1].Mix, name), valueOf(t, scenarios[i].Workloads[1].Mix, name), name)
				}
			}
			require.Nil(t, scenarios[i].Workloads[0].Mix)
			spoil(scenarios[i])
		}
		require.Equal(t, before, text(t, s), "the scenario is not changed")
	})
}

// spoil changes all that a variant may have in common with the scenario or with another variant.
func spoil(s *scenario.Scenario) {
	s.NodePools[0].Name = "spoilt"
	for i := range s.Workloads {
		w := &s.Workloads[i]
		w.Replicas = 99
		if m := w.Mix; m != nil {
			m.SpotPercent = 99
			for _, n := range []*int32{m.MaxSpot, m.SpotWaitSeconds} {
				if n != nil {
					*n = 99
				}
			}
			for i := range m.SpreadSpotOver {
				m.SpreadSpotOver[i] = "spoilt"
			}
			for i := range m.MaxPerDomain {
				m.MaxPerDomain[i].TopologyKey = "spoilt"
			}
			if m.Rebalance != nil {
				m.Rebalance.Strategy = "spoilt"
			}
		}
	}
}

func TestAWrongFlagIsRefusedWithFieldAndValue(t *testing.T) {
	for want, flags := range map[string][]string{
		`--sweep: Invalid value: "spotPercent": want a field and its values, such as spotPercent=50,70`: {"spotPercent"},
		`--sweep: Unsupported value: "share": supported values: "spotPercent", "minOnDemand"`:           {"share=70"},
		`--sweep: Duplicate value: "spotPercent"`:                                                       {"spotPercent=70", "spotPercent=80"},
		`--sweep maxPerDomain: Duplicate value: "3"`:                                                    {"maxPerDomain=zone:3,3"},
		`--sweep spotPercent: Duplicate value: "70"`:                                                    {"spotPercent=70,80,70"},
		`--sweep spotPercent: Invalid value: "070": want a whole number`:                                {"spotPercent=070"},
		`--sweep spotPercent: Invalid value: "": want a whole number`:                                   {"spotPercent=70,"},
		`--sweep spotPercent: Invalid value: "unset": want a whole number`:                              {"spotPercent=unset"},
		`--sweep minOnDemand: Invalid value: "99999999999": want a whole number`:                        {"minOnDemand=99999999999"},
		`--sweep maxSpot: Invalid value: "none": want a whole number, or unset`:                         {"maxSpot=none"},
		`--sweep maxPerDomain: Invalid value: "zone": want a number or a percentage of replicas`:        {"maxPerDomain=zone"},
		`--sweep maxPerDomain: Invalid value: ":3": want a number`:                                      {"maxPerDomain=:3"},
		`--sweep spreadSpotOver: Invalid value: "zone+": want zone, instanceType or the key`:            {"spreadSpotOver=zone+"},
		`--sweep rebalance.strategy: Invalid value: "evict": want Evict, Surge, SurgeOrEvict, or unset`: {"rebalance.strategy=evict"},
		`--sweep: the values have 101 × 2 combinations, and at most 200 are simulated`:                  {numbers("spotPercent", 101), "minOnDemand=0,1"},
		`--sweep minOnDemand: Too many: 201: must have at most 200 items`:                               {numbers("minOnDemand", 5000)},
		`--sweep: the values have 200 × 200 × 200 × 200 × 200 × 3 × 3 combinations`: {
			numbers("spotPercent", 200), numbers("minOnDemand", 200), numbers("maxSpot", 200), numbers("spotWaitSeconds", 200),
			numbers("maxPerDomain", 200), "spreadSpotOver=zone,a,b", "rebalance.strategy=Evict,Surge,unset",
		},
	} {
		variants, err := Parse(flags)
		require.ErrorContains(t, err, want)
		assert.Empty(t, variants)
	}
	variants, err := Parse([]string{numbers("minOnDemand", 100), "spotPercent=1,2"})
	require.NoError(t, err)
	assert.Len(t, variants, MaxVariants)
	variants, err = Parse(nil)
	require.NoError(t, err)
	assert.Empty(t, variants)
}

func numbers(field string, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	return field + "=" + strings.Join(list, ",")
}

// A mix that the API server refuses is no part of a sweep, and is not left out either.
func TestACombinationThatIsNotValidIsRefused(t *testing.T) {
	waits := parse(t, "spotPercent: 10, whenSpotUnavailable: Wait")
	for want, of := range map[string]struct {
		s     *scenario.Scenario
		flags []string
	}{
		`--sweep spotPercent=101: workloads[1].mix.spotPercent: Invalid value: 101: must be between 0 and 100 (and 1 more error)`: {
			waits, []string{"spotPercent=70,101"},
		},
		"--sweep minOnDemand=2 spotWaitSeconds=60: workloads[1].mix.spotWaitSeconds: Invalid value: 60: has no effect with whenSpotUnavailable Wait: " +
			"remove it or use OnDemand (and 1 more error); 1 more combination is not valid": {waits, []string{"minOnDemand=2,3", "spotWaitSeconds=0,60"}},
		`--sweep maxPerDomain=zone:0%: workloads[1].mix.maxPerDomain[0].maxPercent: Invalid value: 0: must be between 1 and 100`: {waits, []string{"maxPerDomain=zone:0%"}},
		`--sweep maxPerDomain=3+zone:5: workloads[1].mix.maxPerDomain[1].topologyKey: Duplicate value: "topology.kubernetes.io/zone"`: {
			waits, []string{"maxPerDomain=3+zone:5"},
		},
		`--sweep spreadSpotOver=a b: workloads[1].mix.spreadSpotOver[0]: Invalid value: "a b"`: {waits, []string{"spreadSpotOver=a b"}},
		`--sweep: Forbidden: no workload of the scenario has a mix`:                            {&scenario.Scenario{Workloads: []scenario.Workload{{}}}, []string{"spotPercent=1"}},
	} {
		variants, err := Parse(of.flags)
		require.NoError(t, err)
		list, err := Scenarios(of.s, variants)
		require.ErrorContains(t, err, want)
		assert.Empty(t, list)
	}
}

// A user looks up a field on the page.
func TestThePageHasTheFieldsOfASweep(t *testing.T) {
	page, err := os.ReadFile("../../../docs/simulation.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n| field of a sweep | values, such as | meaning |\n|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		documented = append(documented, strings.Trim(cells[0], "| `")+" "+strings.Trim(cells[1], "`"))
	}
	var want []string
	for _, f := range Fields {
		want = append(want, f.Name+" "+f.Values)
		variants, err := Parse([]string{f.Name + "=" + f.Values})
		require.NoError(t, err, "the examples are values")
		_, err = Scenarios(parse(t, "spotPercent: 10"), variants)
		require.NoError(t, err)
	}
	assert.Equal(t, want, documented)
}

func FuzzParse(f *testing.F) {
	for name, values := range examples {
		for value := range values {
			f.Add(name + "=" + value + "\nspotPercent=1,2")
		}
	}
	for _, field := range Fields {
		f.Add(field.Name + "=" + field.Values)
	}
	s := parse(f, everything)
	before := text(f, s)
	f.Fuzz(func(t *testing.T, flags string) {
		variants, err := Parse(strings.Split(flags, "\n"))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "--sweep"), "%q", err)
			return
		}
		require.NotEmpty(t, variants)
		require.LessOrEqual(t, len(variants), MaxVariants)
		scenarios, err := Scenarios(s, variants)
		require.Equal(t, before, text(t, s))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "--sweep "), "%q", err)
			return
		}
		require.Len(t, scenarios, len(variants))
		require.Empty(t, scenario.ValidateMixes(scenarios[0]))
	})
}
