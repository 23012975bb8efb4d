// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func draw(t *testing.T, output string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, SVG(&out, "A <demo>", output, Size{Columns: 40, Rows: 3}))
	return out.String()
}

func TestTwoRunsDrawTheSame(t *testing.T) {
	one := draw(t, "== Act 1 ==\npod web-7dd8c6474c-x2x4z runs after 1.3 s\nweb-7dd8c6474c")
	other := draw(t, "== Act 1 ==\npod web-5f7fd4b68f-abc12 runs after 22 s\nweb-5f7fd4b68f")
	assert.Equal(t, one, other)
	assert.NotEqual(t, one, draw(t, "== Act 1 ==\npod web-7dd8c6474c-x2x4z fails after 1.3 s\nweb-7dd8c6474c"), "what it means stays")
}

func TestARecordingIsXMLWithTheColorsAndScrolls(t *testing.T) {
	svg := draw(t, "a <b> & c\n\x1b[32mok\x1b[0m rest\n\n\x1b[1;31mbad\x1b[0m\nlast")
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	assert.Contains(t, svg, "a &lt;b&gt; &amp; c")
	assert.Contains(t, svg, `<tspan fill="#7ee2a8">ok</tspan> rest`)
	assert.Contains(t, svg, `<tspan class="b" fill="#ff8d85">bad</tspan>`)
	assert.NotContains(t, svg, "\x1b")
	assert.NotContains(t, svg, "textLength")
	assert.Contains(t, draw(t, strings.Repeat("x", 41)), `textLength="320"`, "a long line is not cut")
	assert.Equal(t, 5, strings.Count(svg, "%{"), "a step for each line")
	assert.Contains(t, svg, ".all{transform:translateY(-36px)", "without motion, the last lines are shown")
	assert.Contains(t, svg, "prefers-reduced-motion")
	assert.NotRegexp(t, `https?://[^w]`, svg, "nothing is fetched")
}

func TestTheRecordingOfTheReadmeIsSmall(t *testing.T) {
	svg, err := os.ReadFile("../../../docs/images/demo.svg")
	require.NoError(t, err)
	assert.Less(t, len(svg), 200<<10)
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme)[:1500], "docs/images/demo.svg", "on the first screen")
}
