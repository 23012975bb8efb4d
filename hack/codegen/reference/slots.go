// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// Sizes of the picture, in pixels.
const (
	box  = 26
	left = 110
	top  = 56
	most = 12 // replicas
)

var colours = map[capacity.Type]string{capacity.OnDemand: "#3b6fb6", capacity.Spot: "#e8a33d"}

// slotsPicture shows how a mix grows: a row for each size, a box for each slot.
func slotsPicture() string {
	m := split.New(70, 2)
	var b strings.Builder
	width, height := left+most*box+170, top+most*box+48
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n",
		width, height)
	fmt.Fprintf(&b, "<title>Slots of a mix of 70 %% spot with at least 2 on on-demand</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n")
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, s)
	}
	text(left+most*box/2, 18, "middle", "slot")
	for slot := range most {
		text(left+slot*box+box/2, top-10, "middle", fmt.Sprint(slot))
	}
	for row := range most {
		n, y := row+1, top+row*box
		text(left-12, y+18, "end", fmt.Sprintf("%d replica%s", n, map[bool]string{true: "", false: "s"}[n == 1]))
		for slot := range most {
			fill := "none"
			if slot < n {
				fill = colours[m.TypeOf(slot)]
			}
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"#bbb\"/>\n", left+slot*box+2,
				y+2, box-4, box-4, fill)
		}
		text(left+most*box+14, y+18, "start", fmt.Sprintf("%d on-demand, %d spot", m.OnDemand(n), m.Spot(n)))
	}
	y := top + most*box + 16
	for i, t := range []capacity.Type{capacity.OnDemand, capacity.Spot} {
		x := left + i*120
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\"/>\n", x, y, colours[t])
		text(x+20, y+12, "start", t.String())
	}
	b.WriteString("</svg>\n")
	return b.String()
}
