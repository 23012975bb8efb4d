// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/overview"
)

// thousand has 1,000 workloads of 10 replicas.
func thousand() *overview.Overview {
	var many []overview.Workload
	for i := range 1000 {
		many = append(many, workload(fmt.Sprint("team-", i%20), fmt.Sprint("web-", i)))
	}
	return overviewOf(many...)
}

func BenchmarkOverview(b *testing.B) {
	_, c := start(b, thousand())
	get(b, c, "/")
	b.ReportAllocs()
	for b.Loop() {
		w, _ := get(b, c, "/")
		require.Equal(b, 200, w.Code)
	}
}

// BenchmarkReadingFor100Pages is what a reading costs for 100 open pages when one workload has changed.
func BenchmarkReadingFor100Pages(b *testing.B) {
	_, c := start(b, thousand())
	at := &url.URL{Path: "/"}
	o := thousand()
	pages := make([]*sentParts, 100)
	for i := range pages {
		pages[i] = newSentParts()
	}
	read := func() (bytes int) {
		s := &state{Reading: &overview.Reading{Overview: o}, rows: &sync.Map{}}
		for _, sent := range pages {
			bytes += len(c.changes(at, s, sent, ""))
		}
		return bytes
	}
	read()
	b.ReportAllocs()
	bytes := 0
	for i := 0; b.Loop(); i++ {
		o.Workloads[3].Pending = overview.Known(i)
		o.Workloads[3].Slots[9].Reason, o.Workloads[3].Slots[9].Pod = "", fmt.Sprint("pod-", i)
		bytes += read()
	}
	b.ReportMetric(float64(bytes)/float64(b.N)/100, "B/page")
}
