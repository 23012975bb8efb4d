// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/mix/suggest"
)

// subject is a workload whose facts are collected.
type subject struct {
	suggest.Workload
	top    clusterstate.Workload
	newest *corev1.Pod
	record *clusterstate.Pod
	// common are the labels that all pods have.
	common   labels.Set
	selected bool
	pods     []*clusterstate.Pod
	// units are how many pods each unit has, of workloads whose replicas are units.
	units map[string]int
	// instanceTypes are the pods by the node type that their node has in the tables of prices.
	instanceTypes map[nodeBand]int
}

// gatherer collects the facts of all workloads in one pass over the pods.
type gatherer struct {
	*SuggestInput
	list        []*subject
	at          map[[3]string]*subject
	owners      map[types.UID]any
	nodes       map[string]*nodeForecast
	claims      map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes     map[string]*corev1.PersistentVolume
	quarantined map[string]time.Time
	labels      map[string]*suggest.Labels
	// number is that of a workload among those of its namespace.
	number  map[*subject]int
	ofNodes int
	// mixesUnread is set where there may be mixes that were not read.
	mixesUnread bool
}

func gather(in *SuggestInput) *gatherer {
	g := &gatherer{
		SuggestInput: in, at: map[[3]string]*subject{}, owners: map[types.UID]any{}, nodes: map[string]*nodeForecast{},
		claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		labels: map[string]*suggest.Labels{}, number: map[*subject]int{},
	}
	for _, o := range in.Owners {
		g.owners[o.GetUID()] = o
	}
	for _, n := range in.Nodes {
		g.nodes[n.Name] = &nodeForecast{object: n}
	}
	for _, c := range in.Claims {
		g.claims[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = c
	}
	for _, v := range in.Volumes {
		g.volumes[v.Name] = v
	}
	if in.Interruptions != nil {
		g.quarantined, _ = in.Interruptions.Quarantined(in.Now)
	}
	g.mixesUnread = slices.ContainsFunc(in.Problems, func(p Problem) bool { return p.Resource == MixesResource && !p.NotServed })
	for o, p := range in.LivePods() {
		g.pod(o, p)
	}
	for _, s := range g.list {
		g.workload(s)
	}
	for _, s := range g.list {
		g.selector(s)
	}
	return g
}

// pod adds a pod to its workload.
func (g *gatherer) pod(o *corev1.Pod, p *clusterstate.Pod) {
	if _, placeholder := p.Labels[v1alpha1.PlaceholderLabel]; placeholder || p.Leaves() {
		return
	}
	if pods.OfNode(p.Owner) {
		g.ofNodes++
		return
	}
	s := g.subjectOf(o, p)
	s.Pods++
	s.pods = append(s.pods, p)
	s.selected = s.selected || g.Selector == nil || g.Selector.Empty() || g.Selector.Matches(labels.Set(o.Labels))
	s.common = suggest.Common(s.common, o.Labels)
	if s.newest == nil || s.newest.CreationTimestamp.Before(&o.CreationTimestamp) {
		s.newest, s.record = o, p
	}
	s.Keep = cmp.Or(s.Keep, keeps(p))
	s.LocalData = cmp.Or(s.LocalData, p.LocalData)
	s.Pinned, s.Grouped = s.Pinned || p.Pinned, s.Grouped || p.Grouped
	g.volumesOf(s, o)
	g.history(s, o, p)
	g.node(s, p)
}

// keeps is the annotation that forbids to disrupt a pod: one that ends counts, too, as the next pod has it again.
func keeps(p *clusterstate.Pod) string {
	key, _ := p.Keeps(time.Unix(0, p.Created))
	return key
}

// subjectOf returns the workload of a pod.
func (g *gatherer) subjectOf(o *corev1.Pod, p *clusterstate.Pod) *subject {
	top := g.State.Above(p)
	set := governing.SetOf(o)
	if set != nil {
		top.Kind, top.Name, top.APIVersion = set.Kind, o.Labels[set.Name], set.GroupVersion().String()
	}
	key := [3]string{p.Namespace, top.Kind, top.Name}
	s := g.at[key]
	if s == nil {
		s = &subject{top: top, Workload: suggest.Workload{
			Namespace: p.Namespace, Kind: display.Inert(top.Kind, maxName), Name: display.Inert(top.Name, maxName), Unit: 1,
			Notice: suggest.LongestNotice, NodesUnread: g.Missing("nodes"), BudgetsUnread: g.Missing("poddisruptionbudgets.policy"),
			MixesUnread: g.mixesUnread,
		}}
		g.at[key] = s
		g.list = append(g.list, s)
	}
	if set != nil {
		if s.units == nil {
			s.units = map[string]int{}
		}
		s.units[o.Labels[set.Unit]]++
	}
	return s
}

// history adds what a pod did so far.
func (g *gatherer) history(s *subject, o *corev1.Pod, p *clusterstate.Pod) {
	restarts := 0
	for i := range o.Status.ContainerStatuses {
		restarts += int(o.Status.ContainerStatuses[i].RestartCount)
	}
	s.Restarts += restarts
	start := o.Status.StartTime
	if start == nil {
		return
	}
	s.Age += max(0, g.Now.Sub(start.Time))
	if took := time.Unix(p.ReadySince, 0).Sub(start.Truncate(time.Second)); p.Ready && restarts == 0 && took >= 0 {
		s.Starts = append(s.Starts, took)
	}
}

// workload adds what the controller and the newest pod have of it: the next pod is as this one.
func (g *gatherer) workload(s *subject) {
	spec := &s.newest.Spec
	s.Grace = 30 * time.Second
	if t := spec.TerminationGracePeriodSeconds; t != nil {
		s.Grace = time.Duration(min(max(*t, 0), 1<<31)) * time.Second
	}
	s.RunsOnce = s.record.RunsOnce
	s.PriorityClass = spec.PriorityClassName
	if spec.Priority != nil {
		s.Priority = *spec.Priority
	}
	s.NeverPreempts = spec.PreemptionPolicy != nil && *spec.PreemptionPolicy == corev1.PreemptNever
	if !g.Berths(spec.SchedulerName) && !s.record.UsesGate {
		s.SchedulerName = cmp.Or(spec.SchedulerName, corev1.DefaultSchedulerName)
	}
	if names := g.Profile.SchedulerNames; len(names) > 0 {
		s.BerthsName = names[0]
	}
	if mix, _ := g.State.Resolve(s.record); mix != nil {
		s.Governed, s.Now = display.Inert(mix.Source, maxName), mix.Mix
	}
	g.controller(s)
	slices.Sort(s.UnknownNodes)
	s.UnknownNodes = slices.Compact(s.UnknownNodes)
	slices.Sort(s.Quarantined)
	s.Quarantined = slices.Compact(s.Quarantined)
	s.Bands = bandsOf(s.instanceTypes)
	s.Releasable = s.Kind == "Deployment" && s.AttachedClaim == "" && s.LocalClaim == "" && !s.VolumesUnread
	of := g.labels[s.Namespace]
	if of == nil {
		of = &suggest.Labels{}
		g.labels[s.Namespace] = of
	}
	g.number[s] = of.Add(s.newest.Labels)
}

// controller adds how pods are replaced, and how many replicas are requested.
func (g *gatherer) controller(s *subject) {
	owner := s.record.Owner
	switch maker := replacement.MakerOf(owner); {
	case s.units != nil:
		s.Replaced = suggest.ByKubernetes
	case maker == replacement.Nobody:
		s.Replaced = suggest.ByNobody
	case maker == replacement.Unknown:
		s.Replaced = suggest.ByUnknown
	}
	s.Stateful = s.Kind == "StatefulSet"
	s.Replicas = s.Pods
	if owner != nil {
		if job, is := g.owners[owner.UID].(*batchv1.Job); is {
			s.IgnoresDisruptions = clusterstate.IgnoresDisruptions(job.Spec.PodFailurePolicy)
		}
	}
	if s.units != nil {
		s.Replicas, s.Unit = len(s.units), 1
		for _, n := range s.units {
			s.Unit = max(s.Unit, n)
		}
		return
	}
	if n, _ := requestOf(g.owners[s.top.UID]); n > 0 {
		s.Replicas = int(n)
	}
}

// requestOf is how many pods a controller requests, and of which labels: 0 and nil where that is unknown.
func requestOf(owner any) (replicas int32, selector *suggest.Selector) {
	switch o := owner.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(o.Spec.Replicas, 1), o.Spec.Selector
	case *appsv1.StatefulSet:
		return ptr.Deref(o.Spec.Replicas, 1), o.Spec.Selector
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1), o.Spec.Selector
	}
	return 0, nil
}

// selector finds what selects the pods of a workload and no others: the selector of its controller, else the labels of its pods.
func (g *gatherer) selector(s *subject) {
	_, own := requestOf(g.owners[s.top.UID])
	s.Selector = g.labels[s.Namespace].Alone(g.number[s], own, suggest.SelectorOf(s.common))
}

// node adds the node of a pod.
func (g *gatherer) node(s *subject, p *clusterstate.Pod) {
	n := g.nodes[p.Node]
	if n == nil {
		return
	}
	s.Notice = min(s.Notice, suggest.NoticeOf(n.object.Spec.ProviderID))
	record := g.State.Node(p.Node)
	if record.Type == capacity.Unknown {
		s.UnknownNodes = append(s.UnknownNodes, p.Node)
	}
	if _, is := g.quarantined[record.Domain]; is {
		s.Quarantined = append(s.Quarantined, record.Domain)
	}
	if s.instanceTypes == nil {
		s.instanceTypes = map[nodeBand]int{}
	}
	s.instanceTypes[n.look(g.Book)]++
}
