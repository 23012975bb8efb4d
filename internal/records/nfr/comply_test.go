// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	isMet      = v1alpha1.ComplianceMet
	isViolated = v1alpha1.ComplianceViolated
	isUnknown  = v1alpha1.ComplianceUnknown
)

func TestThroughputCompliance(t *testing.T) {
	none := Figure{}
	for name, c := range map[string]struct {
		rps, p99 Figure
		target   int32
		latency  *int32
		want     v1alpha1.Compliance
	}{
		"not requested":                               {Known(1), Known(9000), 0, nil, ""},
		"requests unknown":                            {none, Known(9000), 100, nil, isUnknown},
		"as many as requested, however slow":          {Known(100), Known(9000), 100, nil, isMet},
		"80 of 100":                                   {Known(80), Known(9000), 100, nil, isMet},
		"below that, and they wait":                   {Known(79.9), Known(251), 100, nil, isViolated},
		"below that, and they are answered at once":   {Known(79.9), Known(250), 100, nil, isMet},
		"below that, of unknown latency":              {Known(79.9), none, 100, nil, isUnknown},
		"no requests":                                 {Known(0), none, 100, nil, isUnknown},
		"no requests, and the latency is from before": {Known(0.01), Known(9000), 100, nil, isUnknown},
		"slow, but within its requirement":            {Known(10), Known(400), 100, ptr.To[int32](500), isMet},
		"quick, but not for its requirement":          {Known(10), Known(100), 100, ptr.To[int32](50), isViolated},
	} {
		t.Run(name, func(t *testing.T) {
			got := Comply(Observed{RPS: c.rps, P99Milliseconds: c.p99}, Availability{}, &v1alpha1.NFRRequirements{MinThroughputRPS: &c.target, MaxLatencyMS: c.latency})
			assert.Equal(t, c.want, got.Throughput)
		})
	}
}

func TestLatencyCompliance(t *testing.T) {
	for name, c := range map[string]struct {
		p99  Figure
		most *int32
		want v1alpha1.Compliance
	}{
		"not requested":      {p99: Known(100)},
		"unknown":            {Figure{}, ptr.To[int32](100), isUnknown},
		"just as configured": {Known(100), ptr.To[int32](100), isMet},
		"above":              {Known(100.1), ptr.To[int32](100), isViolated},
	} {
		t.Run(name, func(t *testing.T) {
			got := Comply(Observed{P99Milliseconds: c.p99}, Availability{}, &v1alpha1.NFRRequirements{MaxLatencyMS: c.most})
			assert.Equal(t, c.want, got.Latency)
			assert.Equal(t, c.want, got.Overall)
		})
	}
}

func TestAvailabilityCompliance(t *testing.T) {
	for name, c := range map[string]struct {
		up, down time.Duration
		target   string
		want     v1alpha1.Compliance
	}{
		"never looked":                         {0, 0, "0.99", isUnknown},
		"not for long":                         {9 * time.Minute, 0, "0.99", isUnknown},
		"ten minutes":                          {10 * time.Minute, 0, "0.99", isMet},
		"an hour, with as much lost as may be": {time.Hour - 36*time.Second, 36 * time.Second, "0.99", isMet},
		"an hour, with more lost":              {time.Hour - 37*time.Second, 37 * time.Second, "0.99", isViolated},
		"more lost than an hour may":           {0, 37 * time.Second, "0.99", isViolated},
		"less than an hour, with a greater share lost, that the rest may make up for": {10 * time.Minute, 30 * time.Second, "0.99", isUnknown},
		"nothing may be lost, and was":     {time.Hour, time.Second, "1", isViolated},
		"nothing may be lost, and was not": {time.Hour, 0, "1.0", isMet},
		"all may be lost":                  {0, time.Hour, "0", isMet},
		"no number":                        {time.Hour, 0, "often", isUnknown},
		"NaN":                              {time.Hour, 0, "NaN", isUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := Comply(Observed{}, Availability{Up: c.up, Down: c.down}, &v1alpha1.NFRRequirements{Availability: &c.target})
			assert.Equal(t, c.want, got.Availability)
		})
	}
	assert.Empty(t, Comply(Observed{}, Availability{Up: time.Hour}, nil), "no requirements")
	assert.Empty(t, Comply(Observed{}, Availability{Up: time.Hour}, &v1alpha1.NFRRequirements{}), "no requirements")
}

func TestTheWorstOfAllIsTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		parts []v1alpha1.NFRCompliance
		want  v1alpha1.NFRCompliance
	}{
		"nothing":         {},
		"no requirements": {parts: []v1alpha1.NFRCompliance{{}, {}}},
		"met": {
			parts: []v1alpha1.NFRCompliance{{Latency: isMet}, {}},
			want:  v1alpha1.NFRCompliance{Overall: isMet, Latency: isMet},
		},
		"unknown is worse than met": {
			parts: []v1alpha1.NFRCompliance{{Latency: isUnknown}, {Latency: isMet}},
			want:  v1alpha1.NFRCompliance{Overall: isUnknown, Latency: isUnknown},
		},
		"violated is worse than unknown": {
			parts: []v1alpha1.NFRCompliance{{Latency: isUnknown, Throughput: isMet}, {Availability: isViolated}},
			want:  v1alpha1.NFRCompliance{Overall: isViolated, Latency: isUnknown, Throughput: isMet, Availability: isViolated},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Merge(c.parts...)) })
	}
}

func TestUptime(t *testing.T) {
	const minute = time.Minute
	begin := time.Unix(1_800_000_000, 0)
	// looks are at one a minute: u is up, d is down, - is none.
	for name, c := range map[string]struct {
		looks string
		want  Availability
	}{
		"no measurement":                          {"", Availability{}},
		"one look is no time":                     {"u", Availability{}},
		"up":                                      {"uuu", Availability{Up: 2 * minute}},
		"what is deployed is not yet down":        {"ddduu", Availability{Up: minute}},
		"down counts from the look that saw it":   {"uduu", Availability{Up: 2 * minute, Down: minute}},
		"one look that was missed changes little": {"u-u", Availability{Up: 2 * minute}},
		"two that were missed are not looked at":  {"u--uu", Availability{Up: minute}},
	} {
		t.Run(name, func(t *testing.T) {
			var u Uptime
			now := begin
			for _, look := range c.looks {
				if now = now.Add(minute); look != '-' {
					u = u.Next(now, look == 'u', 150*time.Second)
				}
			}
			assert.Equal(t, c.want, u.Availability(now))
		})
	}
}

func TestUptimeForgetsWhatIsAnHourOld(t *testing.T) {
	now, u := time.Unix(1_800_000_000, 0), Uptime{}
	look := func(n int, answers bool) {
		for range n {
			now = now.Add(time.Minute)
			u = u.Next(now, answers, 150*time.Second)
		}
	}
	look(200, true)
	a := u.Availability(now)
	assert.Zero(t, a.Down)
	assert.LessOrEqual(t, a.Up, UptimeWindow)
	assert.Greater(t, a.Up, UptimeWindow-bucketLength)
	look(10, false)
	assert.Equal(t, 9*time.Minute, u.Availability(now).Down, "the last look counts from now on")
	look(66, true)
	assert.Zero(t, u.Availability(now).Down)
	assert.Zero(t, u.Availability(now.Add(2*time.Hour)), "no measurement for two hours")
	before := u
	u = u.Next(now.Add(-time.Minute), true, 150*time.Second)
	assert.Equal(t, before.Availability(now), u.Availability(now), "a clock that was set back adds nothing")
}
