// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/rules"
)

func TestCombinations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want float64 }{
		"balance is the mean of three":            {ResourceBalance(90, 60, 30), 60},
		"balance is at most 100":                  {ResourceBalance(300, 100, 100), 100},
		"balance is at least 0":                   {ResourceBalance(-300, 0, 0), 0},
		"spreading is the mean of three":          {Spreading(100, 50, 0), 50},
		"binpacking subtracts the penalty":        {Binpacking(80, 30), 50},
		"binpacking is at least 0":                {Binpacking(20, 30), 0},
		"preferences are weighted":                {PreferredAffinity(1, 0.5, 0.8), 60},
		"preferences are at most 100":             {PreferredAffinity(1, 1, 2), 100},
		"anti-affinity subtracts the penalty":     {AntiAffinity(100, 40), 60},
		"anti-affinity is at least 0":             {AntiAffinity(10, 40), 0},
		"topology spread subtracts the penalty":   {TopologySpread(70, 25), 45},
		"topology spread is at least 0":           {TopologySpread(0, 25), 0},
		"what is not a number is 0":               {ResourceBalance(math.NaN(), 0, 0), 0},
		"utilization is a share":                  {Utilization(1, 4), 0.25},
		"utilization is at most 1":                {Utilization(5, 4), 1},
		"utilization of no capacity is 0":         {Utilization(5, 0), 0},
		"utilization of a negative capacity is 0": {Utilization(5, -1), 0},
		"utilization by a negative request is 0":  {Utilization(-5, 4), 0},
		"the share of no weight is 0":             {Share(0, 0), 0},
		"the share of weights":                    {Share(25, 100), 0.25},
		"a domain without siblings is empty":      {emptiness(0, 4), 100},
		"the domain with the most is not":         {emptiness(4, 4), 0},
		"no domain has siblings":                  {emptiness(0, 0), 100},
		"half of CPU, no memory: balance":         {ResourceBalance(balance(0.5, 0)), (50 + 100 + 50) / 3.0},
		"half of both: balance":                   {ResourceBalance(balance(0.5, 0.5)), (50 + 50 + 100) / 3.0},
		"half of CPU, no memory: consolidation":   {consolidation(0.5, 0), 25},
		"half of CPU, no memory: fragmentation":   {fragmentation(0.5, 0), 12.5},
		"equal use of both is no fragmentation":   {fragmentation(0.5, 0.5), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.InDelta(t, c.want, c.got, 1e-9)
		})
	}
}

func TestEvenness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count, least, most  int
		maxSkew             int32
		constraint, penalty float64
	}{
		"no pods anywhere":             {0, 0, 0, 1, 100, 0},
		"the emptiest domain":          {1, 1, 3, 1, 100, 0},
		"between":                      {2, 1, 3, 1, 50, 25},
		"the fullest domain":           {3, 1, 3, 1, 0, 50},
		"a larger skew is allowed":     {3, 1, 3, 3, 0, 0},
		"the penalty is at most 100":   {50, 0, 50, 1, 0, 100},
		"all domains have as many":     {2, 2, 2, 1, 100, 0},
		"all have as many, no skew at": {2, 2, 2, 0, 100, 25},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			constraint, penalty := Evenness(c.count, c.least, c.most, c.maxSkew)
			assert.InDelta(t, c.constraint, constraint, 1e-9)
			assert.InDelta(t, c.penalty, penalty, 1e-9)
		})
	}
}

// drawFacts draws facts as a cluster can have them.
func drawFacts(t *rapid.T, most Most) *Facts {
	share := rapid.Float64Range(0, 1)
	percent := rapid.Float64Range(0, 100)
	return &Facts{
		CPU: share.Draw(t, "cpu"), Memory: share.Draw(t, "memory"),
		OnNode: rapid.IntRange(0, most.OnNode).Draw(t, "onNode"), InZone: rapid.IntRange(0, most.InZone).Draw(t, "inZone"),
		InDomain:      rapid.IntRange(0, most.InDomain).Draw(t, "inDomain"),
		PreferredPods: share.Draw(t, "pods"), PreferredNodes: share.Draw(t, "nodes"),
		Separation: percent.Draw(t, "separation"), Repelled: percent.Draw(t, "repelled"),
		Constraint: percent.Draw(t, "constraint"), SkewPenalty: percent.Draw(t, "penalty"),
	}
}

var every = []v1alpha1.ScoreFunctionName{
	v1alpha1.ScoreResourceBalance, v1alpha1.ScoreSpreading, v1alpha1.ScoreBinpacking, v1alpha1.ScorePreferredAffinity,
	v1alpha1.ScoreAntiAffinity, v1alpha1.ScoreTopologySpread,
}

// A node that is better in what a function is about, and equal in all else, never has a lower value.
func TestFunctionsAreMonotonic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := Most{OnNode: rapid.IntRange(0, 50).Draw(t, "most"), InZone: 100, InDomain: 100}
		f := drawFacts(t, most)
		for name, better := range map[v1alpha1.ScoreFunctionName]func(*Facts){
			v1alpha1.ScoreResourceBalance: func(f *Facts) { // half as far from each other, used to the same degree
				mean := (f.CPU + f.Memory) / 2
				f.CPU, f.Memory = (f.CPU+mean)/2, (f.Memory+mean)/2
			},
			v1alpha1.ScoreSpreading: func(f *Facts) { f.OnNode, f.InZone = f.OnNode/2, f.InZone/2 },
			v1alpha1.ScoreBinpacking: func(f *Facts) { // fuller, and not less even
				more := min(1-f.CPU, 1-f.Memory) / 2
				f.CPU, f.Memory = f.CPU+more, f.Memory+more
			},
			v1alpha1.ScorePreferredAffinity: func(f *Facts) { f.PreferredNodes = (1 + f.PreferredNodes) / 2 },
			v1alpha1.ScoreAntiAffinity:      func(f *Facts) { f.Repelled /= 2 },
			v1alpha1.ScoreTopologySpread:    func(f *Facts) { f.SkewPenalty /= 2; f.Constraint = (100 + f.Constraint) / 2 },
		} {
			changed := *f
			better(&changed)
			before, after := Value(name, f, most), Value(name, &changed, most)
			require.GreaterOrEqual(t, after, before-1e-9, name)
			require.True(t, before >= 0 && before <= Max, "%s: %v", name, before)
		}
	})
}

// The score is the sum of the values times the coefficients.
func TestTheScoreIsTheWeightedSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := Most{OnNode: 10, InZone: 20, InDomain: 30}
		f := drawFacts(t, most)
		var functions []rules.Function
		want := 0.0
		for _, name := range every {
			coefficient := rapid.Float64Range(0, 1000).Draw(t, string(name))
			functions = append(functions, rules.Function{Name: name, Coefficient: coefficient})
			want += Value(name, f, most) * coefficient
		}
		require.InDelta(t, want, Sum(functions, f, most), 1e-9*max(1, want))
	})
}
