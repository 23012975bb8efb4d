// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"strconv"

	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// ThroughputPercent is the share of the throughput requested that may not be missed.
	ThroughputPercent = 80
)

// Comply returns whether a component meets its requirements. A dimension without one is absent; the caller sets lastChecked. It
// is never better than what was measured shows:
//
// Throughput is Met from 80 % of minThroughputRPS on. Fewer requests alone are no violation, as no one may have sent more. It
// is Violated only if there are requests and they wait: the 99th percentile is above maxLatencyMS (250 ms if that is not
// requested). It is Met if they do not wait, as then all that was requested was answered; Unknown without requests or latency.
//
// Latency is Violated where the 99th percentile is above maxLatencyMS. Without requests it is Unknown.
//
// Availability is the result of Uptime.
func Comply(o Observed, up Availability, r *v1alpha1.NFRRequirements) v1alpha1.NFRCompliance {
	if r == nil {
		return v1alpha1.NFRCompliance{}
	}
	c := v1alpha1.NFRCompliance{Throughput: throughput(o, r), Latency: latency(o, r), Availability: availability(up, r)}
	c.Overall = worst(c.Throughput, c.Latency, c.Availability)
	return c
}

func throughput(o Observed, r *v1alpha1.NFRRequirements) v1alpha1.Compliance {
	target := targetRPS(r)
	switch rps := o.RPS.Value(); {
	case target == 0:
		return ""
	case !o.RPS.Known():
		return v1alpha1.ComplianceUnknown
	case !exceeds(float64(target)*ThroughputPercent, rps*100):
		return v1alpha1.ComplianceMet
	case rps < IdleRPS:
		return v1alpha1.ComplianceUnknown
	}
	return within(o, ptr.Deref(r.MaxLatencyMS, SlowMilliseconds))
}

func latency(o Observed, r *v1alpha1.NFRRequirements) v1alpha1.Compliance {
	if r.MaxLatencyMS == nil {
		return ""
	}
	return within(o, *r.MaxLatencyMS)
}

// within reports whether the 99th percentile is at most a bound.
func within(o Observed, milliseconds int32) v1alpha1.Compliance {
	switch {
	case !o.P99Milliseconds.Known():
		return v1alpha1.ComplianceUnknown
	case exceeds(o.P99Milliseconds.Value(), float64(milliseconds)):
		return v1alpha1.ComplianceViolated
	}
	return v1alpha1.ComplianceMet
}

func availability(up Availability, r *v1alpha1.NFRRequirements) v1alpha1.Compliance {
	if r.Availability == nil {
		return ""
	}
	target, err := strconv.ParseFloat(*r.Availability, 64)
	if err != nil || !(target >= 0 && target <= 1) {
		return v1alpha1.ComplianceUnknown // the CRD refuses these
	}
	return up.meets(target)
}

// Merge makes one compliance of those of the components: the worst of each.
func Merge(components ...v1alpha1.NFRCompliance) v1alpha1.NFRCompliance {
	var all v1alpha1.NFRCompliance
	for _, c := range components {
		all.Throughput = worst(all.Throughput, c.Throughput)
		all.Latency = worst(all.Latency, c.Latency)
		all.Availability = worst(all.Availability, c.Availability)
	}
	all.Overall = worst(all.Throughput, all.Latency, all.Availability)
	return all
}

// worst is Violated before Unknown before Met, and absent if all are.
func worst(all ...v1alpha1.Compliance) v1alpha1.Compliance {
	rank := map[v1alpha1.Compliance]int{v1alpha1.ComplianceMet: 1, v1alpha1.ComplianceUnknown: 2, v1alpha1.ComplianceViolated: 3}
	var found v1alpha1.Compliance
	for _, c := range all {
		if rank[c] > rank[found] {
			found = c
		}
	}
	return found
}
