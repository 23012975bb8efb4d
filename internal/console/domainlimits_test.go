// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawLimits are limits as a CapacityMix has them.
func drawLimits(t *rapid.T) (limits []any) {
	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		limit := map[string]any{topologyKey: rapid.SampledFrom([]string{"zone", "topology.kubernetes.io/zone", "a_b.c"}).Draw(t, "key")}
		limit[rapid.SampledFrom([]string{maxCount, maxPercent}).Draw(t, "how")] = rapid.Int64Range(-1, 1_000_000).Draw(t, "number")
		if when := rapid.SampledFrom([]string{"", "DoNotSchedule", "ScheduleAnyway"}).Draw(t, "when"); when != "" {
			limit[whenUnsatisfiable] = when
		}
		limits = append(limits, limit)
	}
	return limits
}

func TestLimitsOfDomainsAreReadAsTheyAreShown(t *testing.T) {
	f := formField{kind: limitsField}
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		read, err := f.value(f.text(limits))
		require.NoError(t, err)
		require.Equal(t, any(limits), read)
	})
	read, err := f.value(" topology.kubernetes.io/zone = 40%\n\nkubernetes.io/hostname=2 ScheduleAnyway ")
	require.NoError(t, err)
	assert.Equal(t, []any{
		map[string]any{topologyKey: "topology.kubernetes.io/zone", maxPercent: int64(40)},
		map[string]any{topologyKey: "kubernetes.io/hostname", maxCount: int64(2), whenUnsatisfiable: "ScheduleAnyway"},
	}, read)
}

func TestTextThatIsNoLimitOfADomainIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"zone":                  `"zone" must be a label key, =, and a number or a percentage`,
		"zone=":                 `"zone=" must be a label key`,
		"zone=1 a b":            `must be a label key`,
		"zone=many":             `"many" in "zone=many" must be a whole number or a percentage`,
		"zone=1.5%":             `must be a whole number`,
		"zone=%":                `must be a whole number`,
		"zone=9999999999999999": `must be a whole number`,
	} {
		_, err := domainLimitsOf(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzLimitsOfDomains(f *testing.F) {
	f.Add("topology.kubernetes.io/zone=40% ScheduleAnyway")
	f.Add("a=1\nb=2%")
	f.Fuzz(func(t *testing.T, text string) {
		limits, err := domainLimitsOf(text)
		if err != nil || limits == nil {
			return
		}
		all, _ := limits.([]any)
		for _, limit := range all {
			again, err := domainLimitsOf(limitText(limit))
			require.NoError(t, err)
			require.Equal(t, any([]any{limit}), again)
		}
	})
}
