// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/internal/kube/display"
)

// heading is a part of the notes.
type heading int

const (
	leftOut heading = iota
	changed
	unknown
	toAdd
)

var headings = [...]string{
	leftOut: "Left out", changed: "Simulated in another way", unknown: "Not known, so not in the scenario", toAdd: "To add, as no snapshot has it",
}

// cause is what a note is about.
type cause int

const (
	controlPlane cause = iota
	cordoned
	departing
	notReady
	tainted
	untyped
	full
	ofJobs
	finished
	terminating
	placeholders
	withoutReplicas
	tooLarge
	invalidMixes
	invalidBudgets
	reservations
	policies
	limits

	asDeployments
	otherKinds
	ofNodes
	bare
	unequalNodes
	unequalPods
	taintsIgnored
	nodeSelectors
	topology
	devices
	volumes
	hostPorts
	renamed
	merged
	minAvailable
	severalBudgets
	sharedBudgets
	roles
	units
	tolerations
	windows
	sharedMixes
	namedGroups
	otherSchedulers
	invalidAnnotations

	unpriced
	reserved
	uninterrupted
	unstarted
)

// texts are what the notes about a number of things are. Things of no name have the name of a kind.
var texts = [...]struct {
	heading     heading
	thing, rest string
}{
	controlPlane:    {leftOut, "node", " of the control plane"},
	cordoned:        {leftOut, "node", ", cordoned"},
	departing:       {leftOut, "node", ", about to be removed"},
	notReady:        {leftOut, "node", ", not Ready"},
	tainted:         {leftOut, "node", ", with taints that no workload tolerates by their keys"},
	untyped:         {leftOut, "node", ", of unknown capacity type (docs/node-types.md)"},
	full:            {leftOut, "node", ", without CPU, memory or pods for workloads"},
	ofJobs:          {leftOut, "pod", " of Jobs"},
	finished:        {leftOut, "finished pod", ""},
	terminating:     {leftOut, "terminating pod", ""},
	placeholders:    {leftOut, "placeholder pod", ""},
	withoutReplicas: {leftOut, "workload", " without replicas"},
	tooLarge:        {leftOut, "workload", ", as no node pool has a node for such a pod"},
	invalidMixes:    {leftOut, "CapacityMix", ", not valid"},
	invalidBudgets:  {leftOut, "PodDisruptionBudget", ", not valid"},
	reservations:    {leftOut, "Reservation", ""},
	policies:        {leftOut, "SchedulingPolicy", ""},
	limits:          {leftOut, "ResourceLimit", ""},

	asDeployments:      {changed, "", ", each as a Deployment"},
	otherKinds:         {changed, "workload", " of other kinds, each as a Deployment"},
	ofNodes:            {changed, "pod", " of DaemonSets, and static ones: the requests reduce what a node of the pool has"},
	bare:               {changed, "pod", " without a controller: the requests reduce what all nodes of the pool have"},
	unequalNodes:       {changed, "node pool", " of unequal nodes, each with the least CPU, memory and pods"},
	unequalPods:        {changed, "workload", " of unequal pods, each with the largest requests"},
	taintsIgnored:      {changed, "node", ", without taints: any workload may run there"},
	nodeSelectors:      {changed, "workload", ", without node selector and required node affinity"},
	topology:           {changed, "workload", ", without pod affinity, anti-affinity and topology spread constraints"},
	devices:            {changed, "workload", ", without requests for other resources than CPU and memory"},
	volumes:            {changed, "workload", ", without persistent volumes"},
	hostPorts:          {changed, "workload", ", without host ports"},
	renamed:            {changed, "workload", ", renamed"},
	merged:             {changed, "workload", ", merged with equal ones, as a scenario is of limited size"},
	minAvailable:       {changed, "workload", ", with a maxUnavailable that has the effect of minAvailable at these replicas"},
	severalBudgets:     {changed, "workload", ", with the strictest of several PodDisruptionBudgets"},
	sharedBudgets:      {changed, "PodDisruptionBudget", " of several workloads, as one for each of them"},
	roles:              {changed, "workload", ", with the mix of the role"},
	units:              {changed, "workload", " with units of several pods, as if each pod had a slot"},
	tolerations:        {changed, "CapacityMix", ", without tolerations"},
	windows:            {changed, "mix", ", without windows: replicas are moved at any time"},
	sharedMixes:        {changed, "CapacityMix", " of several workloads as one group, as one for each of them"},
	namedGroups:        {changed, "workload", ", without the group in annotations"},
	otherSchedulers:    {changed, "workload", " with a mix and another scheduler, as if placed by berth-scheduler"},
	invalidAnnotations: {changed, "workload", " with annotations of a mix that are not valid, without them"},

	unpriced:      {unknown, "node pool", " without a price"},
	reserved:      {unknown, "node pool", " of reserved capacity, without a price"},
	uninterrupted: {unknown, "node pool", " of spot nodes without a rate of interruptions: none is interrupted"},
	unstarted:     {unknown, "workload", " of unknown startup time, with the default of startupSeconds"},
}

const (
	// maxNames are how many things a note names, and maxName how long a name is.
	maxNames, maxName = 5, 140
	// maxKinds are how many kinds have a note of their own.
	maxKinds = 20
)

// Note is what of a snapshot is not in the scenario, or in another way.
type Note struct{ Heading, Text string }

// subject is what is counted together.
type subject struct {
	cause cause
	// thing is a kind, for a cause without one.
	thing string
}

type tally struct {
	n     int
	names []string
}

// notes counts what there is to note. Its size does not depend on that of the cluster.
type notes struct {
	of    map[subject]*tally
	kinds int
	// lines are those without a number.
	lines []Note
}

// add counts a thing, with its name unless that is empty.
func (n *notes) add(c cause, name string) { n.count(subject{cause: c}, name) }

// addKind counts a thing of a kind that a user may choose.
func (n *notes) addKind(c cause, kind, name string) {
	key := subject{c, display.Inert(kind, maxName)}
	if n.of[key] == nil {
		if n.kinds == maxKinds {
			key = subject{cause: otherKinds}
		} else {
			n.kinds++
		}
	}
	n.count(key, name)
}

func (n *notes) count(key subject, name string) {
	t := n.of[key]
	if t == nil {
		t = &tally{}
		n.of[key] = t
	}
	t.n++
	if name != "" && len(t.names) < maxNames {
		t.names = append(t.names, display.Inert(name, maxName))
	}
}

func (n *notes) line(h heading, format string, args ...any) {
	n.lines = append(n.lines, Note{headings[h], fmt.Sprintf(format, args...)})
}

// list returns the notes in the order of their causes.
func (n *notes) list() (all []Note) {
	keys := make([]subject, 0, len(n.of))
	for key := range n.of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b subject) int { return cmp.Or(cmp.Compare(a.cause, b.cause), cmp.Compare(a.thing, b.thing)) })
	for h, title := range headings {
		for _, key := range keys {
			if t := &texts[key.cause]; t.heading == heading(h) {
				all = append(all, Note{title, n.of[key].text(cmp.Or(key.thing, t.thing), t.rest)})
			}
		}
		for _, l := range n.lines {
			if l.Heading == title {
				all = append(all, l)
			}
		}
	}
	return all
}

// text is such as "7 nodes, cordoned: a, b, c, d, e and 2 more".
func (t *tally) text(thing, rest string) string {
	text := display.Count(t.n, thing) + rest
	if len(t.names) == 0 {
		return text
	}
	if strings.Contains(rest, ":") {
		text += " (" + strings.Join(t.names, ", ")
	} else {
		text += ": " + strings.Join(t.names, ", ")
	}
	if more := t.n - len(t.names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if strings.Contains(rest, ":") {
		text += ")"
	}
	return text
}
