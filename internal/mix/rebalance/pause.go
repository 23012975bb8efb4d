// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// PauseScope is how much a pause is about.
type PauseScope string

// Scopes of pauses, the widest first.
const (
	PausedCluster   PauseScope = "cluster"
	PausedNamespace PauseScope = "namespace"
	PausedMix       PauseScope = "mix"
)

// PauseScopes are all scopes, the widest first.
var PauseScopes = []PauseScope{PausedCluster, PausedNamespace, PausedMix}

// Pause keeps the replicas of a mix, a namespace or the cluster where they are.
type Pause struct {
	Scope PauseScope
	// Name is that of the mix or of the namespace, "" for the cluster.
	Name string
	// By is the user or the field manager that paused, and Why the text that was given; "" where they are not known.
	By, Why string
	// Since is when, zero where it is not known.
	Since time.Time
	// Unknown is set where it could not be read whether there is a pause.
	Unknown bool
}

// What others write into annotations of a pause is cut off after so many bytes.
const maxPausedBy, maxPausedReason = 128, 200

// IsPaused reports whether the annotations of an object pause moves. A value that is not a boolean does so, too: whoever wrote "yes" or
// "True" expects that nothing moves.
func IsPaused(o metav1.Object) bool {
	value, there := o.GetAnnotations()[v1alpha1.PausedAnnotation]
	return there && value != "false"
}

// PauseOf is the pause that an object describes. The caller has found that there is one.
func PauseOf(scope PauseScope, name string, o metav1.Object) Pause {
	p := Pause{Scope: scope, Name: name}
	notes := o.GetAnnotations()
	p.By, p.Why = cut(notes[v1alpha1.PausedByAnnotation], maxPausedBy), cut(notes[v1alpha1.PausedReasonAnnotation], maxPausedReason)
	if at, err := time.Parse(time.RFC3339, notes[v1alpha1.PausedAtAnnotation]); err == nil {
		p.Since = at
	}
	if p.By != "" && !p.Since.IsZero() {
		return p
	}
	if w := WritersOfPause(scope, o); len(w) > 0 { // kubectl annotate, or an apply
		m := w[0]
		p.By = cmp.Or(p.By, cut(m.Manager, maxPausedBy))
		if p.Since.IsZero() && m.Time != nil {
			p.Since = m.Time.Time
		}
	}
	return p
}

// WritersOfPause is the field manager that paused last, with no more than is needed of it; none if that is not recorded.
func WritersOfPause(scope PauseScope, o metav1.Object) []metav1.ManagedFieldsEntry {
	var last *metav1.ManagedFieldsEntry
	entries := o.GetManagedFields()
	field := `"f:` + v1alpha1.PausedAnnotation + `"`
	if scope == PausedMix {
		field = `"f:paused"`
	}
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || e.Subresource != "" || !strings.Contains(e.FieldsV1.GetRawString(), field) {
			continue
		}
		if last == nil || last.Time == nil || e.Time != nil && e.Time.After(last.Time.Time) {
			last = e
		}
	}
	if last == nil {
		return nil
	}
	return []metav1.ManagedFieldsEntry{{Manager: last.Manager, Time: last.Time, FieldsV1: metav1.NewFieldsV1("{" + field + ":{}}")}}
}

// cut shortens a text of others, and makes it one line.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text[:min(len(text), limit)], "")
	return strings.Join(strings.Fields(text), " ")
}

// String is what is paused, by whom and why: "namespace shop, by alice since 2026-06-01T12:00:00Z: incident 4711".
func (p *Pause) String() string {
	text := string(p.Scope)
	if p.Scope == PausedCluster {
		text = "the cluster"
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.By+p.Why == "" && p.Since.IsZero() {
		return text
	}
	if p.By != "" {
		text += ", by " + p.By
	} else if !p.Since.IsZero() {
		text += ","
	}
	if !p.Since.IsZero() {
		text += " since " + p.Since.UTC().Format(time.RFC3339)
	}
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

// paused keeps everything where it is until a user resumes it. A pause that could not be read yet drops no placeholder.
func paused(s *subject) (v Verdict) {
	all := s.Cluster.Pauses
	if p := s.Settings.Paused; p != nil {
		all = append(slices.Clip(all), *p)
	}
	var of []string
	for i := range all {
		if all[i].Unknown {
			return ReasonStartupGrace.until(s.Cluster.Now.Add(HoldRefused),
				"whether moves are paused was not read yet: neither all Namespaces nor the ConfigMap of pauses are known")
		}
		of = append(of, all[i].String())
	}
	if len(of) > 0 {
		v = ReasonPaused.because("moves are paused for %s", strings.Join(of, "; and for "))
	}
	return v
}
