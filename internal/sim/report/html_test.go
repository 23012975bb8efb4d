// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func page(t *testing.T, r *Result) string {
	var out bytes.Buffer
	require.NoError(t, HTML(&out, r))
	return out.String()
}

// element is an element of a page, with the text in it.
type element struct {
	name       string
	attributes map[string]string
	inside     []*element
	text       string
}

// all are the elements of a name, in order.
func (e *element) all(name string) (list []*element) {
	for _, child := range e.inside {
		if child.name == name {
			list = append(list, child)
		}
		list = append(list, child.all(name)...)
	}
	return list
}

// parse requires that a page is well-formed: each element is closed, and ids are unique.
func parse(t *testing.T, page string) *element {
	decoder, root := xml.NewDecoder(strings.NewReader(page)), &element{}
	stack, ids := []*element{root}, map[string]bool{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			require.Len(t, stack, 1)
			return root
		}
		require.NoError(t, err)
		top := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				require.NotContains(t, e.attributes, a.Name.Local)
				e.attributes[a.Name.Local] = a.Value
			}
			if id, has := e.attributes["id"]; has {
				require.False(t, ids[id], "id %s", id)
				ids[id] = true
			}
			top.inside, stack = append(top.inside, e), append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, e := range stack {
				e.text += string(token)
			}
		}
	}
}

func TestThePageNeedsNoOtherFile(t *testing.T) {
	text := page(t, small())
	assert.NotRegexp(t, `(?i)<script|<link|<img|<iframe|@import|https?:|src=|href=|\bon[a-z]+=|url\([^#]`, text)
	assert.Contains(t, text, "@media (prefers-color-scheme:dark)")
}

func TestEachPictureHasATitleADescriptionAndATable(t *testing.T) {
	root := parse(t, page(t, small()))
	assert.Equal(t, "en", root.all("html")[0].attributes["lang"])
	assert.Len(t, root.all("main"), 1)
	assert.Len(t, root.all("h1"), 1)
	figures := root.all("figure")
	require.Len(t, figures, 4, "the comparison, and a run each that has a series")
	for _, figure := range figures {
		svg := figure.all("svg")[0]
		assert.Equal(t, "img", svg.attributes["role"])
		title, description := svg.all("title")[0], svg.all("desc")[0]
		assert.NotEmpty(t, title.text)
		assert.NotEmpty(t, description.text)
		assert.Equal(t, title.attributes["id"]+" "+description.attributes["id"], svg.attributes["aria-labelledby"])
		for _, key := range figure.all("svg")[1:] {
			assert.Equal(t, "true", key.attributes["aria-hidden"])
		}
	}
	details := root.all("details")
	require.Len(t, details, 3)
	for _, d := range details {
		assert.Len(t, d.all("tr"), 1+mostRows)
	}
	for _, table := range root.all("table") {
		assert.NotEmpty(t, table.all("caption"))
		for _, row := range table.all("tr") {
			require.NotEmpty(t, row.all("th"))
			for _, head := range row.all("th") {
				assert.Contains(t, []string{"col", "row"}, head.attributes["scope"])
			}
		}
	}
	assert.Contains(t, details[0].text, "12:00:00", "the row of the storm")
}

func TestThePictureMarksWhereReplicasAreMissing(t *testing.T) {
	figures := parse(t, page(t, small())).all("figure")
	marks := func(figure *element) (list []*element) {
		for _, rect := range figure.all("svg")[0].all("rect") {
			if rect.attributes["class"] == "missing" {
				list = append(list, rect)
			}
		}
		return list
	}
	assert.Len(t, marks(figures[1]), 2, "berth: the storm, and the missing replica of the floor")
	assert.Len(t, marks(figures[3]), 1, "all-spot: a storm of three hours")
	assert.Contains(t, figures[1].all("desc")[0].text, "most are missing at 12:00:00: 7 of 10")
}

func TestHostileNamesAreEscaped(t *testing.T) {
	const hostile = "</title><script>alert(1)</script>\x1b[31m\x00\u202e\"'&amp;\xff"
	r := small()
	r.Scenario, r.Notes = hostile, []string{hostile, strings.Repeat("long ", 1000)}
	for i := range r.Runs {
		r.Runs[i].Policy, r.Runs[i].Description = hostile+strings.Repeat("x", 10_000), hostile
	}
	text := page(t, r)
	root := parse(t, text)
	assert.Empty(t, root.all("script"))
	assert.Len(t, root.all("title"), 1+4+4, "of the page, the pictures and the dots")
	assert.Contains(t, root.all("h1")[0].text, `</title><script>alert(1)</script>\x1b[31m\x00\u202e"'&amp;\xff`)
	assert.Less(t, len(text), 60_000)
	var out bytes.Buffer
	require.NoError(t, Text(&out, r))
	for _, c := range []string{"\x1b", "\x00", "\u202e", "\xff"} {
		assert.NotContains(t, out.String(), c)
		assert.NotContains(t, text, c)
	}
	assert.Less(t, out.Len(), 20_000)
}

// many is a result of many long runs, each with a gap of one sample.
func many(runs, samples int) *Result {
	r := &Result{Scenario: "many", Seconds: float64(samples)}
	for i := range runs {
		run := Run{Policy: fmt.Sprintf("policy-%d", i), Dollars: new(float64(i)), BelowWantedReplicaMinutes: float64(i * 7 % 100)}
		for j := range samples {
			run.Series = append(run.Series, Sample{Seconds: float64(j), Wanted: 100, ReadySpot: 50 + j%3, ReadyOnDemand: 50 - j%3})
		}
		run.Series[samples/3].ReadySpot = 0
		r.Runs = append(r.Runs, run)
	}
	return r
}

func TestThePageIsBoundedAndHasEachGap(t *testing.T) {
	text := page(t, many(1, 100_000))
	assert.Less(t, len(text), 80_000)
	assert.Equal(t, 1, strings.Count(text, `class="missing" x=`), "the key has none")
	assert.Contains(t, text, ">9:15:33<", "the table has the gap")

	text = page(t, many(mostPictures+40, 1000))
	assert.Less(t, len(text), 4<<20)
	assert.Contains(t, text, "40 more runs have no picture")
	assert.Contains(t, text, "Ready replicas of policy-0<")
}

// A sweep has many runs, some of them with equal figures, and names that are longer than a label.
func TestLabelsOfManyRunsDoNotOverlap(t *testing.T) {
	for _, long := range []string{"", " spotPercent=70 minOnDemand=2 maxSpot=10"} {
		for _, runs := range []int{7, 50, 200} {
			r := &Result{Scenario: "sweep", Seconds: 60}
			for i := range runs {
				r.Runs = append(r.Runs, Run{Policy: fmt.Sprintf("run-%d", i) + long, Dollars: new(float64(i / 2 % 60)), BelowWantedReplicaMinutes: float64(runs - i/2)})
			}
			root := parse(t, page(t, r))
			drawn := root.all("figure")[0]
			assert.Len(t, drawn.all("g"), runs, "each run has a dot, whose title is its name")
			var labels []text
			for _, g := range drawn.all("g") {
				for _, e := range g.all("text") {
					x, err := strconv.ParseFloat(e.attributes["x"], 64)
					require.NoError(t, err)
					y, err := strconv.ParseFloat(e.attributes["y"], 64)
					require.NoError(t, err)
					label := text{strings.TrimSpace(e.text), e.attributes["text-anchor"], x, y}
					for _, other := range labels {
						require.False(t, label.overlaps(&other), "%v, %v", label, other)
					}
					labels = append(labels, label)
				}
			}
			numbered := long != "" || runs > mostNamed
			want := "run-0"
			if numbered {
				want = "1"
				table := root.all("table")[1]
				assert.Len(t, table.all("tr"), 1+len(Front(r.Runs)), "the table has the name of each number")
				assert.Equal(t, []string{"1", r.Runs[Front(r.Runs)[0]].Policy}, []string{
					strings.TrimSpace(table.all("tr")[1].all("th")[0].text), strings.TrimSpace(table.all("tr")[1].all("td")[0].text),
				})
			}
			require.NotEmpty(t, labels)
			assert.Equal(t, want, labels[0].of)
			assert.GreaterOrEqual(t, len(labels), min(runs, 20)*2/3, "most are there")
		}
	}
}

func TestAResultWithoutRunsOrNumbersIsAPage(t *testing.T) {
	for _, r := range []*Result{
		{},
		{Runs: []Run{{}}},
		{Seconds: math.NaN(), Runs: []Run{{Series: []Sample{{}}}}},
		{Runs: []Run{{Dollars: new(0.0), Series: []Sample{{Wanted: 1}}}}},
		{Runs: []Run{{Dollars: new(math.Inf(1)), SpotNodeHours: math.NaN(), Series: []Sample{{Seconds: math.Inf(1)}, {Seconds: math.NaN(), Wanted: -5}}}}},
	} {
		text := page(t, r)
		parse(t, text)
		assert.NotRegexp(t, `NaN|Inf`, text)
		require.NoError(t, Text(io.Discard, r))
	}
}

var hex = regexp.MustCompile(`^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$`)

// luminance is that of WCAG.
func luminance(t *testing.T, colour string) float64 {
	m := hex.FindStringSubmatch(colour)
	require.NotNil(t, m, colour)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseInt(m[i+1], 16, 32)
		require.NoError(t, err)
		if v := float64(n) / 255; v <= 0.04045 {
			sum += weight * v / 12.92
		} else {
			sum += weight * math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return sum
}

func TestColoursHaveContrastInBothThemes(t *testing.T) {
	for _, theme := range []func(colour) string{func(c colour) string { return c.light }, func(c colour) string { return c.dark }} {
		surface := luminance(t, theme(colours[0]))
		for _, c := range colours[1:] {
			want := 4.5
			if c.name == "line" {
				want = 1.3 // the grid is no information
			}
			l := luminance(t, theme(c))
			assert.GreaterOrEqual(t, (max(l, surface)+0.05)/(min(l, surface)+0.05), want, c.name)
		}
	}
	for _, name := range regexp.MustCompile(`var\(--([a-z-]+)\)`).FindAllStringSubmatch(style(), -1) {
		assert.Contains(t, style(), "--"+name[1]+":")
	}
}
