// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/render"
)

const aboutRecommendations = `Shows what the last measurement recommends for the functions of a record, the current value, how long a recommendation has been stable and when
it is applied, and what was applied last. cpu and memory are the sum of the requests of all pods of the component.

A recommendation is applied when it has been stable for records.nfr.stabilitySeconds of the controller. The plugin cannot read that value:
it uses the default unless --stability is given. A bound of the record can reduce what is applied.`

// Recommendations is what `records recommendations` shows.
type Recommendations struct {
	Namespace       string                   `json:"namespace"`
	Name            string                   `json:"name"`
	Enforcement     v1alpha1.EnforcementMode `json:"enforcement"`
	Compliance      *v1alpha1.NFRCompliance  `json:"compliance,omitempty"`
	Recommendations []RecommendationStatus   `json:"recommendations"`
	// Problem is why nothing could be measured, "" if it could.
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// RecommendationStatus is what is known of one dimension of a component. Values are replicas, millicores or bytes.
type RecommendationStatus struct {
	Component string                `json:"component"`
	Dimension v1alpha1.NFRDimension `json:"dimension"`
	// Now is what there is, absent where it could not be read; Floor is the least that a HorizontalPodAutoscaler keeps.
	Now   *int64 `json:"now,omitempty"`
	Floor *int64 `json:"floor,omitempty"`
	// Recommended is absent where nothing is recommended any more.
	Recommended       *int64                          `json:"recommended,omitempty"`
	Basis             string                          `json:"basis,omitempty"`
	ConfidencePercent int32                           `json:"confidencePercent,omitempty"`
	Window            *RecommendationWindow           `json:"window,omitempty"`
	LastApplied       *v1alpha1.AppliedRecommendation `json:"lastApplied,omitempty"`
}

// RecommendationWindow is a recommendation that waits to be applied.
type RecommendationWindow struct {
	// Target is the recommendation as far as the bounds of the record let it.
	Target int64       `json:"target"`
	Since  metav1.Time `json:"since"`
	Seen   metav1.Time `json:"seen"`
	// Due is when it is applied, if it is recommended until then.
	Due metav1.Time `json:"due"`
	// Stale is set where it was not confirmed for so long that the window starts again.
	Stale bool `json:"stale,omitempty"`
}

func newRecommendations(o *command.Options) *cobra.Command {
	s := nfr.DefaultSettings
	cmd := aRecord(o, "recommendations", "Show what is recommended for a record", aboutRecommendations,
		"  kubectl berth records recommendations cart --stability 10m",
		func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error {
			p, err := readParts(ctx, o, c, rec)
			if err != nil {
				return err
			}
			return showRecommendations(o, recommendationsOf(p, s, o.Now()))
		})
	cmd.Flags().DurationVar(&s.Stability, "stability", s.Stability, "The value of records.nfr.stabilitySeconds of the controller.")
	cmd.Flags().DurationVar(&s.Interval, "interval", s.Interval, "The value of records.nfr.intervalSeconds of the controller.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// recommendationsOf joins the status of each dimension with what there is.
func recommendationsOf(p *recordParts, s nfr.Settings, now time.Time) *Recommendations {
	rec := p.rec
	sum := recordOf(rec)
	out := &Recommendations{
		Namespace: rec.Namespace, Name: rec.Name, Enforcement: sum.Enforcement, Compliance: rec.Status.NFRCompliance,
		Recommendations: []RecommendationStatus{}, Notes: recordKind.Notes(p.rec),
	}
	if c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionNFRObserved); c != nil && c.Status != metav1.ConditionTrue {
		out.Problem = c.Reason + ": " + c.Message
	}
	at := func(component string, d v1alpha1.NFRDimension) *RecommendationStatus {
		i := slices.IndexFunc(out.Recommendations,
			func(r RecommendationStatus) bool { return r.Component == component && r.Dimension == d })
		if i < 0 {
			r := RecommendationStatus{Component: component, Dimension: d}
			r.Now, r.Floor = p.current(component, d)
			out.Recommendations, i = append(out.Recommendations, r), len(out.Recommendations)
		}
		return &out.Recommendations[i]
	}
	for i := range rec.Status.NFRRecommendations {
		n := &rec.Status.NFRRecommendations[i]
		r := at(n.Component, n.Dimension)
		r.Recommended, r.Basis, r.ConfidencePercent = &n.Target, n.Basis, n.ConfidencePercent
	}
	for _, w := range rec.Status.NFRWindows {
		at(w.Component, w.Dimension).Window = &RecommendationWindow{
			Target: w.Target, Since: w.Since, Seen: w.Seen, Due: metav1.NewTime(w.Since.Add(s.Stability)),
			Stale: now.Sub(w.Seen.Time) > s.Gap(),
		}
	}
	for i := range rec.Status.LastApplied {
		a := &rec.Status.LastApplied[i]
		at(a.Component, a.Dimension).LastApplied = a
	}
	order := []v1alpha1.NFRDimension{v1alpha1.DimensionReplicas, v1alpha1.DimensionCPU, v1alpha1.DimensionMemory}
	slices.SortFunc(out.Recommendations, func(a, b RecommendationStatus) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component),
			cmp.Compare(slices.Index(order, a.Dimension), slices.Index(order, b.Dimension)))
	})
	return out
}

// current is what there is of a dimension, nil where it is unknown.
func (p *recordParts) current(name string, d v1alpha1.NFRDimension) (now, floor *int64) {
	i := slices.IndexFunc(p.rec.Status.Functions, func(f v1alpha1.FunctionStatus) bool { return f.Service == name })
	if d == v1alpha1.DimensionReplicas {
		if h := p.hpa(name); h != nil {
			floor = new(int64(ptr.Deref(h.Spec.MinReplicas, 1)))
		}
		if o := p.deployment(name); o != nil {
			return new(int64(ptr.Deref(o.Spec.Replicas, 1))), floor
		}
	}
	if i < 0 || p.cluster.Missing("pods") {
		return nil, floor
	}
	var replicas, cpu, memory int64
	function := map[string]string{
		v1alpha1.ComponentLabel: render.ComponentFunction,
		v1alpha1.FunctionLabel:  render.Hash(p.rec.Status.Functions[i].FunctionKey),
	}
	for _, pod := range p.podsLike(function) {
		replicas, cpu, memory = replicas+1, cpu+pod.CPU, memory+pod.Memory
	}
	switch d {
	case v1alpha1.DimensionReplicas:
		return &replicas, floor
	case v1alpha1.DimensionCPU:
		return &cpu, nil
	case v1alpha1.DimensionMemory:
		return &memory, nil
	}
	return nil, nil
}

func showRecommendations(o *command.Options, r *Recommendations) error {
	if done, err := o.Print(r); done {
		return err
	}
	what := map[v1alpha1.EnforcementMode]string{
		v1alpha1.EnforcementOff: "nothing is measured", v1alpha1.EnforcementObserve: "nothing is applied",
		v1alpha1.EnforcementEnforce: "replicas are applied",
	}
	o.Sentence(fmt.Sprintf("DeploymentRecord %s/%s has enforcement %s: %s", r.Namespace, r.Name, r.Enforcement, what[r.Enforcement]))
	if r.Compliance != nil {
		o.Sentence(complianceText(o, r.Compliance))
	}
	if r.Problem != "" {
		o.Sentence("The last measurement failed: " + r.Problem)
	}
	if len(r.Recommendations) == 0 {
		o.Sentence("Nothing is recommended, and nothing was applied")
	} else {
		fmt.Fprintln(o.Out)
	}
	t := &printers.Table{Header: []string{
		"COMPONENT", "DIMENSION", "NOW", "RECOMMENDED", "CONFIDENCE", "WINDOW", "LAST-APPLIED", "BASIS",
	}}
	for i := range r.Recommendations {
		t.Add(recommendationRow(o, &r.Recommendations[i])...)
	}
	return o.WriteTables(r.Notes, t)
}

func recommendationRow(o *command.Options, r *RecommendationStatus) []any {
	now, recommended, confidence, applied := "<unknown>", "", "", ""
	if r.Now != nil {
		now = r.Dimension.Format(*r.Now)
	}
	if r.Floor != nil {
		now += fmt.Sprintf(" (at least %d)", *r.Floor)
	}
	if r.Recommended != nil {
		recommended, confidence = r.Dimension.Format(*r.Recommended), fmt.Sprintf("%d%%", r.ConfidencePercent)
	}
	if a := r.LastApplied; a != nil {
		applied = fmt.Sprintf("%s, %s ago", r.Dimension.Format(a.Value), o.Age(a.Time))
	}
	return []any{r.Component, r.Dimension, now, recommended, confidence, r.Window.text(r.Dimension, o.Now()), applied, r.Basis}
}

// text is "4 for 80s, applied in 100s", "" for no window.
func (w *RecommendationWindow) text(d v1alpha1.NFRDimension, now time.Time) string {
	switch {
	case w == nil:
		return ""
	case w.Stale:
		return fmt.Sprintf("%s, not confirmed for %s: starts again", d.Format(w.Target), printers.Age(now, w.Seen.Time))
	}
	when := "applied at the next measurement"
	if left := w.Due.Sub(now); left > 0 {
		when = "applied in " + printers.Age(w.Due.Time, now)
	}
	return fmt.Sprintf("%s for %s, %s", d.Format(w.Target), printers.Age(now, w.Since.Time), when)
}
