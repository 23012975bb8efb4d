// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/split"
)

// planTimeout bounds a plan.
const planTimeout = time.Minute

// Question is what a plan answers: a CapacityMix with other numbers.
type Question struct {
	client.ObjectKey
	SpotPercent, MinOnDemand int32
	// MaxSpot is nil for none.
	MaxSpot *int32
}

// Planner makes plans, with warnings of what they leave out. It writes nothing.
type Planner func(ctx context.Context, q Question) (plan *overview.Plan, warnings []string, err error)

// mixOf is the CapacityMix that governs a workload, nil if there is none, or it could not be read.
func (s *state) mixOf(w *overview.Workload) *v1alpha1.CapacityMix {
	name, found := strings.CutPrefix(w.Source, governing.SourceCapacityMix)
	if !found {
		return nil
	}
	m, err := mixList.find([]string{w.Namespace, name}, s)
	if err != nil {
		return nil
	}
	return m
}

// mixForm are the numbers of a mix as texts.
type mixForm struct {
	URL, Name, Version                string
	SpotPercent, MinOnDemand, MaxSpot string
	// Planned is set if the numbers are those of a plan, which can be applied.
	Planned, Writable bool
	Problem           string
	Plan              *planView
	// Ribbons are the workloads that the mix governs, with the slots of its numbers. Replicas are those of the largest.
	Ribbons  []ribbonOfPlan
	Replicas int
}

// ribbonOfPlan is a workload with its slots.
type ribbonOfPlan struct {
	Name, URL string
	Ribbon    ribbon
}

// maxRibbons bounds the workloads that a plan draws.
const maxRibbons = 20

// draw draws the workloads of a mix, with the slots of its numbers.
func (f *mixForm) draw(m *v1alpha1.CapacityMix, q Question, s *state) {
	mix := split.Mix{SpotPercent: q.SpotPercent, MinOnDemand: q.MinOnDemand, MaxSpot: split.NoMax}
	if q.MaxSpot != nil {
		mix.MaxSpot = *q.MaxSpot
	}
	valid := mix.Validate() == nil
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		if w.Namespace != m.Namespace || w.Source != governing.SourceCapacityMix+m.Name {
			continue
		}
		f.Replicas = max(f.Replicas, w.Replicas)
		if valid && len(f.Ribbons) < maxRibbons && w.Role == "" { // a role has a type of its own
			under := w.Under(mix)
			f.Ribbons = append(f.Ribbons, ribbonOfPlan{workloadName(w), workloadURL(w), ribbonOf(&under, ribbonSlots, true)})
		}
	}
}

// planURL is the page of what another mix would do.
func planURL(m *v1alpha1.CapacityMix) string {
	return objectURL("mixes", m.Namespace, m.Name) + "/plan"
}

// numbers are the names of the numbers in a form.
var numbers = []string{"spotPercent", "minOnDemand", "maxSpot"}

// mixFormOf is a mix with the numbers of a form or, without them, its own.
func mixFormOf(m *v1alpha1.CapacityMix, sent url.Values) *mixForm {
	f := &mixForm{
		URL: planURL(m), Name: inert(m.Namespace + "/" + m.Name), Version: specVersion(m),
		SpotPercent: strconv.Itoa(int(m.Spec.SpotPercent)), MinOnDemand: strconv.Itoa(int(m.Spec.MinOnDemand)),
	}
	if m.Spec.MaxSpot != nil {
		f.MaxSpot = strconv.Itoa(int(*m.Spec.MaxSpot))
	}
	if f.Planned = sent.Has(numbers[0]); f.Planned {
		f.SpotPercent, f.MinOnDemand, f.MaxSpot = inert(sent.Get(numbers[0])), inert(sent.Get(numbers[1])), inert(sent.Get(numbers[2]))
	}
	return f
}

// parameters are the numbers as the parameters of a plan.
func (f *mixForm) parameters() url.Values {
	return url.Values{numbers[0]: {f.SpotPercent}, numbers[1]: {f.MinOnDemand}, numbers[2]: {f.MaxSpot}}
}

// question reads the numbers.
func (f *mixForm) question(m *v1alpha1.CapacityMix) (q Question, err error) {
	q.ObjectKey = client.ObjectKeyFromObject(m)
	if q.SpotPercent, err = number(numbers[0], f.SpotPercent); err != nil {
		return q, err
	}
	if q.MinOnDemand, err = number(numbers[1], f.MinOnDemand); err != nil || f.MaxSpot == "" {
		return q, err
	}
	most, err := number(numbers[2], f.MaxSpot)
	q.MaxSpot = &most
	return q, err
}

func number(name, text string) (int32, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is %q: it must be a whole number", name, inert(text))
	}
	return int32(n), nil
}

func (f *mixForm) page(s *state) *page {
	f.Writable = s.writable
	return &page{title: "What if: " + f.Name, parts: append(status(s), &part{id: "plan", before: render("plan", f), fixed: true})}
}

// planPage is the page of a mix without a plan: the parts of it that follow the cluster.
func planPage(path []string, q url.Values, s *state) (*page, error) {
	m, err := mixList.find(path, s)
	if err != nil {
		return nil, err
	}
	f := mixFormOf(m, nil)
	if own, err := f.question(m); err == nil {
		f.draw(m, own, s)
	}
	p := f.page(s)
	if applied := appliedTo(editedKinds[mixList.id], m, q, s); applied != nil {
		p.parts = slices.Insert(p.parts, len(p.parts)-1, applied)
	}
	return p, nil
}

// plan serves the page of a mix, with the plan of the numbers in the URL.
func (c *Console) plan(w http.ResponseWriter, r *http.Request) {
	if c.planner == nil || !r.URL.Query().Has(numbers[0]) {
		c.page(w, r)
		return
	}
	s, m, ok := c.mix(w, r)
	if !ok {
		return
	}
	f, status := mixFormOf(m, r.URL.Query()), http.StatusOK
	draft := r.URL.Query().Has("draft") // a slider moves: a plan of each step would take the turns of others
	q, err := f.question(m)
	if err == nil {
		f.draw(m, q, s)
		if f.Planned = !draft; f.Planned {
			f.Plan, err = c.planOf(r.Context(), userOf(r), q)
		}
	}
	if err != nil {
		f.Problem, f.Planned, status = inert(err.Error()), false, http.StatusUnprocessableEntity
	}
	if draft || r.URL.Query().Has("result") { // a slider has moved
		f.Writable = s.writable
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, string(render("plan-result", f))) // the client may be gone
		return
	}
	c.write(w, r, status, f.page(s), r.URL)
}

// mix is the one of the path, or a page that it is not there.
func (c *Console) mix(w http.ResponseWriter, r *http.Request) (*state, *v1alpha1.CapacityMix, bool) {
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return nil, nil, false // the client is gone
	}
	if s.Reading == nil {
		http.Error(w, "nothing was read yet: "+inert(s.failure), http.StatusServiceUnavailable)
		return nil, nil, false
	}
	m, err := mixList.find([]string{r.PathValue("namespace"), r.PathValue("name")}, s)
	if err != nil {
		c.write(w, r, http.StatusNotFound, failed(err), r.URL)
		return nil, nil, false
	}
	return s, m, true
}

// planOf makes one plan at a time: each takes a snapshot of the cluster.
func (c *Console) planOf(ctx context.Context, user string, q Question) (*planView, error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	done, err := c.planning.take(ctx, user, "other plans")
	if err != nil {
		return nil, err
	}
	defer done()
	p, warnings, err := c.planner(ctx, q)
	if err != nil {
		return nil, err
	}
	return planViewOf(p, warnings), nil
}

// planView is what the template of a plan gets.
type planView struct {
	Sentences, Notes []string
	Tables           []tableView
}

func planViewOf(p *overview.Plan, warnings []string) *planView {
	workloads := newTable("WORKLOAD", "REVISION", "REPLICAS", "ACTUAL", "DESIRED-NOW", "DESIRED-THEN", "TO-MOVE", "MOVES", "BLOCKED",
		"AFTER")
	for _, w := range p.Workloads {
		now := ""
		if w.DesiredBefore != nil {
			now = w.DesiredBefore.String()
		}
		workloads.add(overview.KindName(w.Kind, w.Name, w.Role, w.Bare), w.Revision, w.Count(w.Replicas), w.Actual, now, w.Desired,
			w.WrongSide, w.Moves, w.Blocked, w.After)
	}
	moves := newTable("MOVE", "WORKLOAD", "POD", "FROM", "TO", "SLOT", "NODE")
	for i := range p.Moves {
		m := &p.Moves[i]
		moves.add(m.Order, m.Workload, m.PodText(), m.From, m.To, m.Slot, m.NodeText())
	}
	blocked := newTable("BLOCKED", "WORKLOAD", "ON", "REASON", "MESSAGE")
	for _, b := range p.Blocked {
		blocked.add(b.Pod, b.Workload, b.On, b.Reason, b.Message)
	}
	return &planView{
		Sentences: allInert(p.Sentences()), Notes: allInert(append(p.Remarks(), warnings...)), Tables: withRows(workloads, moves, blocked),
	}
}

// applyMix writes the numbers of a plan.
func (c *Console) applyMix(w http.ResponseWriter, r *http.Request) {
	form, k, ok := c.form(w, r)
	if !ok {
		return
	}
	s, m, ok := c.mix(w, r)
	if !ok {
		return
	}
	f, before := mixFormOf(m, form), mixFormOf(m, nil).parameters()
	q, err := f.question(m)
	if err == nil {
		if m, err = writeMix(r.Context(), k, q, form.Get("version")); err == nil {
			c.hub.wrote(sessionOf(r), func(r *overview.Reading) { r.Mixes = append(without(r.Mixes, m), m) })
			redirectApplied(w, r, planURL(m), before)
			return
		}
	}
	f.Problem, f.Planned = inert(err.Error()), false
	c.write(w, r, http.StatusUnprocessableEntity, f.page(s), &url.URL{Path: f.URL})
}

// writeMix changes the numbers of a mix, if it is still the one that the plan is of.
func writeMix(ctx context.Context, k client.Client, q Question, version string) (*v1alpha1.CapacityMix, error) {
	var m v1alpha1.CapacityMix
	if err := k.Get(ctx, q.ObjectKey, &m); err != nil {
		return nil, err
	}
	if specVersion(&m) != version {
		return nil, errors.New("the mix was changed since it was planned: show the plan again")
	}
	m.Spec.SpotPercent, m.Spec.MinOnDemand, m.Spec.MaxSpot = q.SpotPercent, q.MinOnDemand, q.MaxSpot
	return &m, k.Update(ctx, &m)
}

// mixChangePage is the page of what another mix would do, or one that changes the mix.
func mixChangePage(path []string, q url.Values, s *state) (*page, error) {
	if path[2] == "plan" {
		return planPage(path, q, s)
	}
	return objectChangePage(mixList)(path, q, s)
}
