// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// With the table of oprc-crm's own test (0→1, 499→1, 500→1, 501→2, 1000 with 300 ms→3).
func TestTheReplicaFormula(t *testing.T) {
	none := Figure{}
	for name, c := range map[string]struct {
		cpu, p99, rps Figure
		target        int32
		want          int64
	}{
		"no CPU":         {Known(0), none, none, 0, 1},
		"CPU unknown":    {none, none, none, 0, 1},
		"499 millicores": {Known(499), none, none, 0, 1},
		"500 millicores": {Known(500), none, none, 0, 1},
		"500 millicores and the last bit of a float": {Known(math.Nextafter(500, 501)), none, none, 0, 1},
		"501 millicores":                                 {Known(501), none, none, 0, 2},
		"1000 millicores with 300 ms":                    {Known(1000), Known(300), none, 0, 3},
		"p99 of 250 ms is not slow":                      {Known(1000), Known(250), none, 0, 2},
		"p99 of 250 ms and the last bit of a float":      {Known(1000), Known(math.Nextafter(250, 251)), none, 0, 2},
		"p99 of 251 ms is":                               {Known(1000), Known(251), none, 0, 3},
		"no CPU but slow":                                {Known(0), Known(251), none, 0, 2},
		"twice the requests":                             {Known(600), none, Known(50), 100, 3},
		"as many requests as requested":                  {Known(600), none, Known(100), 100, 2},
		"half of the requests":                           {Known(1000), none, Known(200), 100, 1},
		"a tenth of a replica's requests":                {Known(100), none, Known(100), 10, 1},
		"no requests, so the CPU as it is":               {Known(600), none, Known(0), 100, 2},
		"requests unknown":                               {Known(600), none, none, 100, 2},
		"so few requests that the CPU is not for them":   {Known(600), none, Known(0.05), 100, 2},
		"the fewest requests that count":                 {Known(50), none, Known(0.1), 10, 10},
		"requests to be possible, and slow":              {Known(600), Known(400), Known(50), 100, 4},
		"no requests requested":                          {Known(600), none, Known(50), 0, 2},
		"more than there can be":                         {Known(math.MaxFloat64), Known(300), Known(1), math.MaxInt32, math.MaxInt32},
		"what is no number is as if it was not measured": {Known(math.NaN()), Known(math.Inf(1)), Known(math.Inf(1)), 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Replicas(Observed{RPS: c.rps, P99Milliseconds: c.p99, CPUMillicores: c.cpu}, c.target))
		})
	}
}

func TestRecommendFollowsTheMeasurements(t *testing.T) {
	recommendation := func(dimension v1alpha1.NFRDimension, target int64, basis string) v1alpha1.NFRRecommendation {
		return v1alpha1.NFRRecommendation{Component: "cart", Dimension: dimension, Target: target, Basis: basis, ConfidencePercent: 60}
	}
	for name, c := range map[string]struct {
		observed Observed
		asked    *v1alpha1.NFRRequirements
		want     []v1alpha1.NFRRecommendation
	}{
		"nothing was measured": {},
		"nothing is used":      {observed: Observed{RPS: Known(10), P99Milliseconds: Known(300), CPUMillicores: Known(0), MemoryBytes: Known(0)}},
		"without CPU only memory": {
			observed: Observed{P99Milliseconds: Known(300), MemoryBytes: Known(1001)},
			want:     []v1alpha1.NFRRecommendation{recommendation("memory", 1202, "1001 bytes used by all pods, times 1.2")},
		},
		"without memory only the others": {
			observed: Observed{CPUMillicores: Known(501)},
			want: []v1alpha1.NFRRecommendation{
				recommendation("replicas", 2, "501m used by all pods, 500m for a replica"),
				recommendation("cpu", 652, "501m used by all pods, times 1.3"),
			},
		},
		"all of it, with the figures": {
			observed: Observed{RPS: Known(50), P99Milliseconds: Known(251), CPUMillicores: Known(600.12345), MemoryBytes: Known(1 << 30)},
			asked:    &v1alpha1.NFRRequirements{MinThroughputRPS: ptr.To[int32](100)},
			want: []v1alpha1.NFRRecommendation{
				recommendation("replicas", 4, "600.123m used by all pods for 50 requests a second, scaled to 100, 500m for a replica, 1 more for a p99 of 251 ms, above 250"),
				recommendation("cpu", 781, "600.123m used by all pods, times 1.3"),
				recommendation("memory", 1288490189, "1073741824 bytes used by all pods, times 1.2"),
			},
		},
		"requests that are too few to scale by": {
			observed: Observed{RPS: Known(0), CPUMillicores: Known(10)},
			asked:    &v1alpha1.NFRRequirements{MinThroughputRPS: ptr.To[int32](100)},
			want: []v1alpha1.NFRRecommendation{
				recommendation("replicas", 1, "10m used by all pods, too few requests to scale it to 100 a second, 500m for a replica"),
				recommendation("cpu", 13, "10m used by all pods, times 1.3"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Recommend("cart", c.observed, c.asked))
		})
	}
}

func drawFigure(t *rapid.T, label string) Figure {
	if rapid.Bool().Draw(t, label+" unknown") {
		return Figure{}
	}
	return Known(rapid.Float64().Draw(t, label))
}

// Whatever Prometheus answers, what is recommended can be written into the status.
func TestEveryRecommendationIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Observed{
			RPS: drawFigure(t, "rps"), P99Milliseconds: drawFigure(t, "p99"),
			CPUMillicores: drawFigure(t, "cpu"), MemoryBytes: drawFigure(t, "memory"),
		}
		asked := &v1alpha1.NFRRequirements{MinThroughputRPS: new(rapid.Int32Range(0, 100_000_000).Draw(t, "target"))}
		for _, r := range Recommend("cart", o, asked) {
			require.Positive(t, r.Target)
			if r.Dimension == v1alpha1.DimensionReplicas {
				require.LessOrEqual(t, r.Target, int64(math.MaxInt32))
			}
			require.LessOrEqual(t, len(r.Basis), 1024)
		}
	})
}

func TestMoreUseIsNeverFewerReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.Int32Range(0, 10000).Draw(t, "target")
		o := Observed{RPS: Known(rapid.Float64Range(0, 1000).Draw(t, "rps")), CPUMillicores: Known(rapid.Float64Range(0, 1e6).Draw(t, "cpu"))}
		more := o
		more.CPUMillicores = Known(o.CPUMillicores.Value() + rapid.Float64Range(0, 1e5).Draw(t, "more"))
		require.GreaterOrEqual(t, Replicas(more, target), Replicas(o, target))
		more.P99Milliseconds = Known(251)
		require.Greater(t, Replicas(more, target), Replicas(o, target))
	})
}
