// SPDX-License-Identifier: Apache-2.0

package report

import "strings"

// colour is a colour of both themes.
type colour struct{ name, light, dark string }

// colours are those of the page. Blue and brown differ for all kinds of colour blindness; a pattern and the labels differ, too.
var colours = []colour{
	{"surface", "#ffffff", "#14181d"},
	{"text", "#1b2026", "#e8ecf1"},
	{"quiet", "#565f6b", "#a5b0bd"},
	{"line", "#c3cad3", "#3b444f"},
	{"spot", "#2458d3", "#84abff"},
	{"on-demand", "#8a4310", "#f0ad62"},
	{"missing", "#a3006d", "#ff8ad8"},
}

// style is the style sheet of the page.
func style() string { return themes() + rules }

// pictureStyle is the style sheet of a picture that is a file of its own.
func pictureStyle() string {
	var of strings.Builder
	for line := range strings.Lines(rules) {
		if strings.HasPrefix(line, "svg ") {
			of.WriteString(line)
		}
	}
	return themes() + "svg{background:var(--surface)}\n" + of.String()
}

// themes has the colours of both.
func themes() string {
	var light, dark strings.Builder
	for _, c := range colours {
		light.WriteString("--" + c.name + ":" + c.light + ";")
		dark.WriteString("--" + c.name + ":" + c.dark + ";")
	}
	return ":root{color-scheme:light dark;" + light.String() + "}\n@media (prefers-color-scheme:dark){:root{" + dark.String() + "}}\n"
}

const rules = `body{margin:2rem auto;max-width:62rem;padding:0 1rem;background:var(--surface);color:var(--text);font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.6rem}
h2{font-size:1.2rem;margin-top:2.5rem;overflow-wrap:anywhere}
p,li,figcaption{overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem}
caption{text-align:start;color:var(--quiet);padding:.3rem 0}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:end;font-variant-numeric:tabular-nums;vertical-align:top}
th{overflow-wrap:anywhere;font-weight:600}
th[scope=row],.words{text-align:start}
figure{margin:1rem 0}
figcaption{color:var(--quiet)}
summary{cursor:pointer;margin:.5rem 0}
:focus-visible{outline:3px solid var(--spot);outline-offset:2px}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--text);font:12px system-ui,sans-serif}
svg .grid{stroke:var(--line);stroke-width:1}
svg .spot{fill:var(--spot);stroke:var(--surface);stroke-width:1}
svg .stripe{fill:none;stroke:var(--surface);stroke-width:1.5}
svg .on-demand{fill:var(--on-demand);stroke:var(--surface);stroke-width:1}
svg .wanted{fill:none;stroke:var(--text);stroke-width:1.5;stroke-dasharray:6 3}
svg .missing{fill:var(--missing)}
svg .front{fill:none;stroke:var(--text);stroke-width:1.5}
svg .run{fill:var(--spot);stroke:var(--surface)}
svg .best{fill:var(--on-demand);stroke:var(--surface)}
.key svg{display:inline-block;width:1.6rem;height:.8rem;vertical-align:middle;margin-inline:1rem .4rem}
`
