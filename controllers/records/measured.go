// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
)

// checkedEvery is how often lastChecked is written when nothing else changed.
const checkedEvery = 10 * time.Minute

// measurement is one measurement of a record.
type measurement struct {
	now        time.Time
	rec        *v1alpha1.DeploymentRecord
	v          observation
	components []component
}

// status returns the analyzer's part of the status, without what is enforced. It is a pure function.
func (m *measurement) status() v1alpha1.DeploymentRecordStatus {
	s := v1alpha1.DeploymentRecordStatus{LastApplied: slices.Clone(m.rec.Status.LastApplied)}
	var outcomes []prometheus.Outcome
	var all []v1alpha1.NFRCompliance
	for i := range m.components {
		c := &m.components[i]
		outcomes = append(outcomes, c.outcome)
		s.NFRRecommendations = append(s.NFRRecommendations, c.recommended...)
		all = append(all, nfr.Comply(c.observed, c.up, &c.nfr))
	}
	compliance := nfr.Merge(all...)
	compliance.LastChecked = new(metav1.NewTime(m.now.Truncate(time.Second)))
	s.NFRCompliance = &compliance
	s.Conditions = measuredConditions(m.rec.Status.Conditions)
	o := prometheus.Merge(outcomes...)
	setCondition(&s.Conditions, condition(v1alpha1.ConditionNFRObserved, o.OK(), o.Reason, o.Message), m.rec.Generation, m.now)
	setCondition(&s.Conditions, m.metricsAvailable(o), m.rec.Generation, m.now)
	return s
}

// metricsAvailable returns the condition MetricsAvailable, for the outcome of all components together.
func (m *measurement) metricsAvailable(o prometheus.Outcome) metav1.Condition {
	if !o.OK() && o.Reason != v1alpha1.ReasonPrometheusNoData {
		c := condition(v1alpha1.ConditionMetricsAvailable, false, o.Reason, o.Message)
		c.Status = metav1.ConditionUnknown
		return c
	}
	var missing []string
	for i := range m.components {
		c := &m.components[i]
		for _, series := range c.outcome.Missing {
			missing = append(missing, fmt.Sprintf("function %s: %s", c.spec.FunctionKey, series))
		}
	}
	if len(missing) > 0 {
		message := "Prometheus has no data of " + strings.Join(missing, "; ")
		return condition(v1alpha1.ConditionMetricsAvailable, false, v1alpha1.ReasonMissingSeries, message)
	}
	return condition(v1alpha1.ConditionMetricsAvailable, true, v1alpha1.ReasonAllSeries, "Prometheus has all series that were queried")
}

// measuredConditions returns the conditions that the analyzer writes.
func measuredConditions(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !isMeasured(c) })
}

func isMeasured(c metav1.Condition) bool {
	return c.Type == v1alpha1.ConditionNFRObserved || c.Type == v1alpha1.ConditionMetricsAvailable
}

// replicas is the recommended number of replicas of a function, nil for none.
func (c *component) replicas() *v1alpha1.NFRRecommendation {
	for i := range c.recommended {
		if r := &c.recommended[i]; r.Dimension == v1alpha1.DimensionReplicas {
			return r
		}
	}
	return nil
}

// window is what the status has kept for a function.
func (m *measurement) window(c *component) *nfr.Window {
	for _, w := range m.rec.Status.NFRWindows {
		if w.Component == c.Workload && w.Dimension == v1alpha1.DimensionReplicas {
			return &nfr.Window{Target: w.Target, Since: w.Since.Time, Seen: w.Seen.Time}
		}
	}
	return nil
}

// input is what a decision about the replicas of a function depends on.
func (m *measurement) input(c *component, by scaleTarget) nfr.Input {
	in := nfr.Input{
		Mode:      modeOf(m.rec),
		Current:   by.current,
		Window:    m.window(c),
		Now:       m.now,
		High:      by.high,
		RaiseOnly: by.raise,
	}
	if r := c.replicas(); r != nil {
		in.Target = &r.Target
	}
	for _, a := range m.rec.Status.LastApplied {
		if a.Component == c.Workload && a.Dimension == v1alpha1.DimensionReplicas {
			in.LastApplied = a.Time.Time
		}
	}
	if n := c.spec.MinScale; n != nil {
		in.Low = int64(*n)
	}
	if n := c.spec.MaxScale; n != nil && *n > 0 && (in.High == 0 || int64(*n) < in.High) {
		in.High = int64(*n)
	}
	return in
}

// keep adds the window of a function to the status.
func (m *measurement) keep(s *v1alpha1.DeploymentRecordStatus, c *component, w *nfr.Window) {
	if w != nil {
		s.NFRWindows = append(s.NFRWindows, v1alpha1.NFRWindow{
			Component: c.Workload,
			Dimension: v1alpha1.DimensionReplicas,
			Target:    w.Target,
			Since:     metav1.NewTime(w.Since),
			Seen:      metav1.NewTime(w.Seen.Truncate(time.Second)),
		})
	}
}

// applied adds what was applied to the status.
func (m *measurement) applied(s *v1alpha1.DeploymentRecordStatus, a v1alpha1.AppliedRecommendation) {
	s.LastApplied = slices.DeleteFunc(s.LastApplied, func(b v1alpha1.AppliedRecommendation) bool {
		return b.Component == a.Component && b.Dimension == a.Dimension
	})
	s.LastApplied = append(s.LastApplied, a)
}

// sameMeasured compares the analyzer's part of two statuses. lastChecked alone is written every checkedEvery.
func sameMeasured(have, want *v1alpha1.DeploymentRecordStatus, now time.Time) bool {
	if have.NFRCompliance == nil || have.NFRCompliance.LastChecked == nil || now.Sub(have.NFRCompliance.LastChecked.Time) >= checkedEvery {
		return false
	}
	compliance := *want.NFRCompliance
	compliance.LastChecked = have.NFRCompliance.LastChecked
	return equality.Semantic.DeepEqual(measuredConditions(have.Conditions), want.Conditions) &&
		equality.Semantic.DeepEqual(*have.NFRCompliance, compliance) &&
		equality.Semantic.DeepEqual(have.NFRRecommendations, want.NFRRecommendations) &&
		equality.Semantic.DeepEqual(have.NFRWindows, want.NFRWindows) &&
		equality.Semantic.DeepEqual(have.LastApplied, want.LastApplied)
}
