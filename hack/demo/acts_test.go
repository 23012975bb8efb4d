// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
)

func TestParseActs(t *testing.T) {
	for list, want := range map[string][]string{
		"mix": {mixActs}, "environments, limits": {cluster.Limits, cluster.Environments}, "mix limits records environments": allActs,
	} {
		acts, err := parseActs(list)
		require.NoError(t, err, list)
		require.Equal(t, want, acts, list)
	}
	for list, unknown := range map[string]string{"": "", "mix,limit": "limit"} {
		_, err := parseActs(list)
		require.EqualError(t, err, `--acts has "`+unknown+`": it must be a list of mix, limits, records, environments`)
	}
}

func TestTheControllersHaveOnlyTheFeaturesOfTheActs(t *testing.T) {
	require.Empty(t, (&demo{acts: []string{mixActs, cluster.Limits}}).features())
	require.Equal(t, cluster.Features{cluster.Records, cluster.Environments}, (&demo{acts: allActs}).features())
}

func TestPodsOnForeignArchitecturesAreReported(t *testing.T) {
	require.Empty(t, noneForeign(map[string]int{"amd64": 3, "arm64": 1}))
	require.Equal(t, differences{"tool: 3 pods run instead of 4"}, noneForeign(map[string]int{"amd64": 3}))
	require.Equal(
		t, differences{"tool: 1 pods run on s390x, which ResourceLimit small excludes"},
		noneForeign(map[string]int{"amd64": 3, foreign: 1}),
	)
}

func TestAWrongStateIsReported(t *testing.T) {
	good := func() state {
		return state{claim: "uid", pods: []pod{
			{name: "database-0", node: "o", on: capacity.OnDemand, ready: true}, {name: "backend-x", node: "s", on: capacity.Spot, ready: true},
		}}
	}
	for name, c := range map[string]struct {
		change func(*state)
		want   differences
	}{
		"matches":                        {func(*state) {}, nil},
		"a pod is missing":               {func(s *state) { s.pods = s.pods[:1] }, differences{"x: 1 pods instead of 2"}},
		"the claim was replaced":         {func(s *state) { s.claim = "new" }, differences{`x: the volume claim is "new" instead of "uid"`}},
		"there is no claim":              {func(s *state) { s.claim = "" }, differences{`x: the volume claim is "" instead of "uid"`}},
		"a pod is not Ready":             {func(s *state) { s.pods[1].ready = false }, differences{"x: pod backend-x is not Ready"}},
		"the database is on a spot node": {func(s *state) { s.pods[0].on = capacity.Spot }, differences{"x: the database runs on spot node o"}},
	} {
		st := good()
		c.change(&st)
		require.Equal(t, c.want, stateIs(&st, "x", 2, "uid"), name)
	}
}
