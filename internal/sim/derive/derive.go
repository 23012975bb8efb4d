// SPDX-License-Identifier: Apache-2.0

// Package derive makes the scenario of a simulation from the snapshot of a cluster: node pools of its nodes, and workloads of the owners of
// its pods. What the snapshot does not have is not invented, and what the scenario cannot have is noted.
package derive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config"
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/snapshot"
)

// Options are what a scenario depends on beside the snapshot.
type Options struct {
	// Duration is the simulated time.
	Duration time.Duration
	// Now determines which prices are old.
	Now time.Time
}

// Derived is a scenario with what a user has to know of it.
type Derived struct {
	Scenario scenario.Scenario
	Notes    []Note

	header snapshot.Header
	// sources are the comments of the fields of each node pool.
	sources []map[string]string
	// body is the file without the notes.
	body []byte
}

// deriver derives one scenario.
type deriver struct {
	*snapshot.Snapshot
	Options

	notes notes
	// prices has the prices and the interruptions of public lists.
	prices     *prices.Book
	classifier *capacity.Classifier
	resolver   governing.Resolver
	owners     owners
	mixes      map[types.NamespacedName]*v1alpha1.CapacityMix
	specs      map[ruleKey]*v1alpha1.CapacityMixSpec
	used       map[string]*usage

	workloads []*workload
	byOwner   map[ownerKey]*workload
}

// Derive returns the scenario of a snapshot. An error names what the snapshot lacks, or has too much of.
func Derive(s *snapshot.Snapshot, o Options) (*Derived, error) {
	if o.Duration <= 0 || o.Duration > scenario.MaxDuration {
		return nil, fmt.Errorf("duration: %s: must be more than 0 and at most %s", o.Duration, scenario.MaxDuration)
	}
	d, err := newDeriver(s, o)
	if err != nil {
		return nil, err
	}
	d.collect()
	d.govern()
	groups, err := d.groups()
	if err != nil {
		return nil, err
	}
	out := &Derived{header: s.Header}
	out.Scenario.Duration = metav1.Duration{Duration: o.Duration}
	for _, g := range groups {
		pool, sources := d.pool(g)
		out.Scenario.NodePools = append(out.Scenario.NodePools, pool)
		out.sources = append(out.sources, sources)
	}
	if err := d.addWorkloads(&out.Scenario); err != nil {
		return nil, err
	}
	d.general(&out.Scenario)
	if err := d.mergeIfTooLarge(out); err != nil {
		return nil, err
	}
	out.Notes = d.notes.list()
	return out, nil
}

func newDeriver(s *snapshot.Snapshot, o Options) (*deriver, error) {
	d := &deriver{
		Snapshot: s, Options: o, notes: notes{of: map[subject]*tally{}}, owners: ownersOf(s),
		mixes: map[types.NamespacedName]*v1alpha1.CapacityMix{}, specs: map[ruleKey]*v1alpha1.CapacityMixSpec{},
		used: map[string]*usage{}, byOwner: map[ownerKey]*workload{},
	}
	var err error
	if d.prices, err = prices.New(prices.Options{}); err != nil {
		return nil, err
	}
	args, err := defaults()
	if err != nil {
		return nil, err
	}
	if d.classifier, err = arguments.Classifier(args); err != nil {
		return nil, err
	}
	d.resolver = governing.Resolver{Conventions: arguments.Conventions(args), Mixes: governing.NewRegistry(), Controllers: d.owners}
	for _, m := range s.CapacityMixes {
		if err := d.resolver.Mixes.Set(m); err != nil {
			d.notes.add(invalidMixes, nameOf(m))
			continue
		}
		d.mixes[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = m
	}
	return d, nil
}

// defaults are the arguments of the scheduler plugin that a user does not set.
func defaults() (*config.CapacityMixArgs, error) {
	versioned, args := &configv1.CapacityMixArgs{}, &config.CapacityMixArgs{}
	configv1.SetDefaults_CapacityMixArgs(versioned)
	return args, configv1.Convert_v1_CapacityMixArgs_To_config_CapacityMixArgs(versioned, args, nil)
}

// nameOf is the name of an object in a note.
func nameOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// addWorkloads adds the workloads to the scenario, whose node pools are complete.
func (d *deriver) addWorkloads(s *scenario.Scenario) error {
	budgets := d.budgets()
	names, pods := newUnique(), int64(0)
	for _, w := range d.workloads {
		of, fits := d.workload(w, s.NodePools)
		if !fits {
			d.notes.add(tooLarge, w.title())
			continue
		}
		d.budget(budgets, w, &of)
		of.Namespace = label(w.namespace, metav1.NamespaceDefault)
		of.Name = names.name(of.Namespace, label(w.name, "workload"))
		if of.Name != w.name || of.Namespace != w.namespace {
			d.notes.add(renamed, w.title()+" is "+of.Namespace+"/"+of.Name)
		}
		if w.kind != "Deployment" {
			d.notes.addKind(asDeployments, w.kind, "")
		}
		pods = budget.Add(pods, w.replicas)
		s.Workloads = append(s.Workloads, of)
	}
	for _, b := range budgets.all {
		if b.workloads > 1 {
			d.notes.add(sharedBudgets, nameOf(b.of))
		}
	}
	switch {
	case len(s.Workloads) == 0:
		return d.nothing("workload with replicas that fit on its nodes")
	case pods > scenario.MaxPods:
		return fmt.Errorf("the workloads have %d replicas, more than the %d of a scenario: take the snapshot of one namespace", pods, scenario.MaxPods)
	}
	return nil
}

// nothing is the error of a snapshot without what a scenario needs, with all that was left out.
func (d *deriver) nothing(what string) error {
	text := "the snapshot has no " + what
	var left []string
	for _, n := range d.notes.list() {
		if n.Heading == headings[leftOut] {
			left = append(left, n.Text)
		}
	}
	if len(left) > 0 {
		text += ". Left out: " + strings.Join(left, "; ")
	}
	return errors.New(text)
}

// general notes what is not about one object.
func (d *deriver) general(s *scenario.Scenario) {
	for c, n := range map[cause]int{reservations: len(d.Reservations), policies: len(d.SchedulingPolicies), limits: len(d.ResourceLimits)} {
		for range n {
			d.notes.add(c, "")
		}
	}
	if d.Namespace != "" {
		only := display.Inert(d.Namespace, maxName)
		d.notes.line(unknown, "pods of other namespaces than %s: nodes seem to have the capacity that they use", only)
	}
	for _, m := range d.Missing {
		d.notes.line(unknown, "%s, which could not be read when the snapshot was taken (%s)", m.List, m.Reason)
	}
	has := func(t string) bool {
		return slices.ContainsFunc(s.NodePools, func(p scenario.NodePool) bool { return p.CapacityType == t })
	}
	for _, t := range []string{v1alpha1.CapacityTypeSpot, v1alpha1.CapacityTypeOnDemand} {
		if !has(t) {
			d.notes.line(toAdd, "a node pool with capacityType %s, as no node has this type", t)
		}
	}
	if !slices.ContainsFunc(s.Workloads, func(w scenario.Workload) bool { return w.Mix != nil }) {
		d.notes.line(toAdd, "mix: no workload has one. kubectl berth suggest has a mix for each workload")
	}
	d.notes.line(toAdd, "availability.trace: when spot nodes are available (docs/simulation.md)")
	d.notes.line(toAdd, "max: the largest number of nodes of a pool. Without it, there is no limit")
	d.notes.line(toAdd, "events: changes of replicas and rollouts")
}

// byName orders workloads by their namespaces, names and kinds.
func byName(a, b *workload) int {
	return cmp.Or(
		cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.part, b.part),
	)
}
