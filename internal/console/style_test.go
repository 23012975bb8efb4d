// SPDX-License-Identifier: Apache-2.0

package console

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// coloursOf are the luminances of each colour in light and dark.
func coloursOf(t *testing.T) map[string][2]float64 {
	css, err := files.ReadFile("static/console.css")
	require.NoError(t, err)
	all := map[string][2]float64{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
		all[m[1]] = [2]float64{luminance(t, m[2]), luminance(t, m[3])}
	}
	return all
}

// luminance is the relative luminance of WCAG 2.2.
func luminance(t *testing.T, hex string) (sum float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Texts have the contrast that WCAG 2.2 AA requires of text, and edges and fills that of graphics, in light and in dark.
func TestTheColoursHaveContrast(t *testing.T) {
	colours := coloursOf(t)
	for _, c := range []struct {
		least float64
		of    []string
		on    []string
	}{
		{4.5, []string{"text", "dim", "accent", "ok", "bad", "warn"}, []string{"page", "surface"}},
		{4.5, []string{"text", "dim", "accent"}, []string{"raised"}},
		{4.5, []string{"text"}, []string{"warn-soft", "bad-soft", "ok-soft"}},
		{4.5, []string{"dim"}, []string{"warn-soft"}},
		{4.5, []string{"on-accent"}, []string{"accent"}},
		{4.5, []string{"ok"}, []string{"ok-soft"}},
		{4.5, []string{"bad"}, []string{"bad-soft"}},
		{4.5, []string{"warn"}, []string{"warn-soft"}},
		{4.5, []string{"spot-text"}, []string{"spot-soft"}},
		{4.5, []string{"on-demand-text"}, []string{"on-demand"}},
		{4.5, []string{"unknown-text"}, []string{"unknown-soft"}},
		{3, []string{"edge", "spot", "on-demand", "unknown"}, []string{"page", "surface"}},
		{3, []string{"spot", "on-demand", "unknown", "warn"}, []string{"raised"}},
	} {
		for _, of := range c.of {
			for _, on := range c.on {
				require.Contains(t, colours, of)
				require.Contains(t, colours, on)
				for i, scheme := range []string{"light", "dark"} {
					a, b := colours[of][i], colours[on][i]
					ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05)
					assert.GreaterOrEqual(t, ratio, c.least, "%s on %s, %s", of, on, scheme)
				}
			}
		}
	}
}
