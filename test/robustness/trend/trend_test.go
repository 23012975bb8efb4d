// SPDX-License-Identifier: Apache-2.0

package trend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func series(n int, value func(i int) float64) (list []Sample) {
	for i := range n {
		list = append(list, Sample{time.Unix(int64(i), 0), value(i)})
	}
	return list
}

func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		samples []Sample
		want    float64
		ok      bool
	}{
		"nothing":                    {nil, 0, false},
		"too few":                    {series(8, func(int) float64 { return 1 }), 0, false},
		"constant":                   {series(101, func(int) float64 { return 7 }), 0, true},
		"it grows at first only":     {series(101, func(i int) float64 { return float64(min(i, 50)) }), 0, true},
		"from 50 to 100, mean 75":    {series(101, func(i int) float64 { return float64(i) }), 50. / 75, true},
		"it falls from 100 to 50":    {series(101, func(i int) float64 { return float64(150 - i) }), -50. / 75, true},
		"a saw tooth does not grow":  {series(101, func(i int) float64 { return 100 + float64(i%5) }), 0, true},
		"a peak in the middle is no": {series(101, func(i int) float64 { return map[bool]float64{true: 200, false: 100}[i == 75] }), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Growth(c.samples, 10)
			assert.Equal(t, c.ok, ok)
			assert.InDelta(t, c.want, got, 0.01)
		})
	}
}

// A leak is found under noise that is larger than what leaks between two samples, and noise alone is none.
func TestALeakIsFoundUnderNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.SliceOfN(rapid.Float64Range(-5, 5), 200, 200).Draw(t, "noise")
		flat, _ := Growth(series(200, func(i int) float64 { return 100 + noise[i] }), 10)
		leak, _ := Growth(series(200, func(i int) float64 { return 100 + noise[i] + float64(i)/2 }), 10)
		assert.InDelta(t, flat, leak-0.28, 0.13)
		assert.Less(t, flat, 0.16)
		assert.Greater(t, leak, flat)
	})
}
