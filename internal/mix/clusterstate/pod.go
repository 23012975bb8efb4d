// SPDX-License-Identifier: Apache-2.0

// Package clusterstate is the little that must be known of the pods, nodes and
// workloads of a cluster to compare its workloads with their mixes. It is
// filled by whoever watches or lists them, and reads no API itself.
//
// A pod takes some 0.5 KB here, a tenth of the object: strings and label
// sets that pods share are kept once.
package clusterstate

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Pod is a pod as far as mixes are concerned.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Created is the pod's age, a Unix time in nanoseconds as the ledger has it.
	Created int64
	// Node is where it is bound, "" while it is pending.
	Node string
	// Labels are shared and must not be changed.
	Labels map[string]string
	// Annotations are those that Berth reads; shared, must not be changed. Annotation has two more.
	Annotations map[string]string
	// Owner is its controller, nil for a bare pod; shared.
	Owner *metav1.OwnerReference
	// SchedulerName is who placed it, or will.
	SchedulerName string
	// Terminating and Finished pods hold no slot.
	Terminating, Finished bool
	// Ready is the Ready condition; ReadySince its last change, a Unix time in seconds.
	Ready      bool
	ReadySince int64
	// Pinned pods name a capacity type themselves: they are counted and not steered.
	Pinned bool
	// Gated pods wait for their slot: they have Berth's scheduling gate.
	Gated bool
	// OtherGates pods have scheduling gates of others, such as a queue: they may not run yet, and are no replicas until then.
	OtherGates bool
	// LimitedTo is the type that the pod was limited to when its gate was removed, Unknown for all others. What limits it is
	// not its own, so it is not Pinned.
	LimitedTo capacity.Type
	// UsesGate is set where the pod was made with the scheduling gate. Its successor will be as well, so it has its type
	// whoever schedules it.
	UsesGate bool
	// SpreadByType is set where a hard topology spread counts only the nodes that the pod selects, as it does by default: those
	// of its capacity type, once its gate is removed. Pinned pods chose these themselves.
	SpreadByType bool
	// RunsOnce is set where restartPolicy is not Always: whatever controls the pod counts its end as success or failure.
	RunsOnce bool
	// Running is the phase of a placeholder, which holds its capacity then. Of a released pod it is set where that ends by itself. Of other
	// pods it is not kept.
	Running bool
	// LocalData names a volume whose data is lost with the pod, "" if there is none.
	LocalData string
	// CPU in millicores and memory in bytes that the pod requests, as the scheduler counts them.
	CPU, Memory int64
	// slot is the value of the slot annotation plus 1, and costly is set where the deletion cost is minus the slot: as
	// annotations they would be a set of its own for every pod.
	slot   int32
	costly bool
	// Grouped pods are members of a PodGroup, whose name is among the annotations: replicas share it.
	Grouped bool
	// CostOrigin is who decided the deletion cost. slotByOthers is set where the slot is not what Berth wrote: it gives no
	// right to a slot.
	CostOrigin   CostOrigin
	slotByOthers bool
	// Filtered is what Options.Filtered returned of a pod that takes capacity, or TooLarge; "" of all others.
	Filtered string
}

// Annotation returns the value of an annotation that Berth reads.
func (p *Pod) Annotation(key string) (value string, found bool) {
	switch {
	case key == v1alpha1.SlotAnnotation && p.slot > 0:
		return strconv.Itoa(int(p.slot) - 1), true
	case key == v1alpha1.PodDeletionCostAnnotation && p.costly:
		return governing.DeletionCost(int(p.slot) - 1), true
	}
	value, found = p.Annotations[key]
	return value, found
}

// AllAnnotations returns all that Annotation has.
func (p *Pod) AllAnnotations() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.Annotations)
	delete(all, podGroupKey)
	delete(all, respondsKey)
	for _, key := range []string{v1alpha1.SlotAnnotation, v1alpha1.PodDeletionCostAnnotation} {
		if v, found := p.Annotation(key); found {
			all[key] = v
		}
	}
	return all
}

// SetAnnotations replaces the annotations of a copy of a record.
func (p *Pod) SetAnnotations(all map[string]string) {
	p.Annotations, p.slot, p.costly = all, 0, false
}

// claimed is the slot that the scheduler wrote on the pod, NoSlot for none.
func (p *Pod) claimed(o *corev1.Pod) int {
	if p.slotByOthers {
		return split.NoSlot
	}
	if p.slot > 0 {
		return int(p.slot) - 1
	}
	slot, _ := governing.ClaimedSlot(o)
	return slot
}

// takeSlot moves what differs from replica to replica from annotations to the
// record, unless someone has written it in another way than Berth does.
func (p *Pod) takeSlot(kept map[string]string) {
	text := kept[v1alpha1.SlotAnnotation]
	slot, err := strconv.ParseInt(text, 10, 32)
	if err != nil || slot < 0 || slot > split.MaxSlot || strconv.FormatInt(slot, 10) != text {
		return
	}
	p.slot = int32(slot) + 1
	delete(kept, v1alpha1.SlotAnnotation)
	if cost := kept[v1alpha1.PodDeletionCostAnnotation]; len(cost) == len(text)+1 && cost[0] == '-' && cost[1:] == text {
		p.costly = true
		delete(kept, v1alpha1.PodDeletionCostAnnotation)
	}
}

// Live reports whether the pod holds a slot.
func (p *Pod) Live() bool { return !p.Terminating && !p.Finished }

// takesRoom reports whether the pod uses resources of a node.
func (p *Pod) takesRoom() bool { return p.Node != "" && !p.Finished }

// holdsRoom reports whether the pod is a placeholder.
func (p *Pod) holdsRoom() bool {
	_, holds := p.Labels[v1alpha1.PlaceholderLabel]
	return holds
}

// ReleasedFrom returns where the pod was released from, and whether it was.
func (p *Pod) ReleasedFrom() (r pods.Release, released bool) {
	return pods.ReleasedBy(p.Annotations, p.UID, p.Owner)
}

// Leaves reports whether the pod was released, and ends by itself.
func (p *Pod) Leaves() bool {
	_, released := p.ReleasedFrom()
	return released && p.Running && !p.holdsRoom()
}

// ofNode reports whether the pod belongs to its node: it runs on each, and is not replaced elsewhere.
func (p *Pod) ofNode() bool {
	return pods.OfNode(p.Owner)
}

// Bound reports whether the pod has a node.
func (p *Pod) Bound() bool { return p.Node != "" }

// Object returns a pod object with what internal/mix/governing reads.
func (p *Pod) Object() *corev1.Pod {
	o := &corev1.Pod{}
	p.Into(o)
	return o
}

// Into is Object for an object that is used for one pod after the other, where
// every pod of a namespace is checked.
func (p *Pod) Into(o *corev1.Pod) {
	o.Namespace, o.Name, o.UID = p.Namespace, p.Name, p.UID
	o.Labels, o.Annotations, o.Spec.SchedulerName, o.Spec.SchedulingGroup = p.Labels, p.Annotations, p.SchedulerName, nil
	if p.Grouped {
		name := p.Annotations[podGroupKey]
		o.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	o.OwnerReferences = o.OwnerReferences[:0]
	if p.Owner != nil {
		o.OwnerReferences = append(o.OwnerReferences, *p.Owner)
	}
}

// keepAnnotation reports whether Berth reads an annotation of pods or of their controllers.
func keepAnnotation(key string) bool {
	switch key {
	case pods.DoNotDisrupt, pods.SafeToEvict, pods.SafeToEvictVolumes, pods.PreferNoEviction,
		v1alpha1.PodDeletionCostAnnotation, corev1.MirrorPodAnnotationKey, batchv1.JobCompletionIndexAnnotation:
		return true
	}
	prefix, _, ok := strings.Cut(key, "/")
	return ok && (prefix == v1alpha1.AnnotationPrefix || prefix == "spotalis.io") || governing.ReadsAnnotation(key)
}

func keptAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range budget.Bounded(all) {
		if keepAnnotation(k) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[k] = v
		}
	}
	return kept
}

// sharedAnnotations are the annotations of a record. The claim is in LimitedTo: it
// has the pod's UID in it, and with it no two pods would share a set. The few
// that fell back keep it: it proves that their annotations are their own.
func sharedAnnotations(o *corev1.Pod) map[string]string {
	kept := keptAnnotations(o.Annotations)
	if _, fellBack := kept[v1alpha1.FallbackAnnotation]; !fellBack {
		delete(kept, v1alpha1.ClaimAnnotation)
	}
	delete(kept, v1alpha1.UngatedAtAnnotation) // of each pod its own
	keep := func(key, value string) {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	if g := o.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		keep(podGroupKey, *g.PodGroupName)
	}
	if pods.Responds(o) {
		keep(respondsKey, "")
	}
	return kept
}

// Responds reports whether someone beside Berth and Kubernetes answers requests to evict the pod.
func (p *Pod) Responds() bool {
	_, responds := p.Annotations[respondsKey]
	return responds
}

// podOf is the record of a pod. What is as in the record that there was of it,
// if there was one, is shared with that.
func (st *State) podOf(o *corev1.Pod, old *Pod) *Pod {
	if old == nil {
		names := strings.Clone(o.Name + string(o.UID)) // one piece of memory for both
		old = &Pod{Namespace: st.texts.one(o.Namespace), Name: names[:len(o.Name)], UID: types.UID(names[len(o.Name):])}
	} else if old.UID != o.UID {
		return st.podOf(o, nil)
	}
	p := &Pod{
		Namespace:     old.Namespace,
		Name:          old.Name,
		UID:           old.UID,
		Created:       o.CreationTimestamp.UnixNano(),
		Node:          st.texts.one(o.Spec.NodeName),
		Labels:        st.sets.same(old.Labels, o.Labels),
		SchedulerName: st.texts.one(o.Spec.SchedulerName),
		Terminating:   o.DeletionTimestamp != nil,
		Finished:      pods.Finished(o),
		Gated:         gate.Has(o),
		OtherGates:    gate.HasOthers(o),
		UsesGate:      gate.Made(o),
		Grouped:       o.Spec.SchedulingGroup != nil,
		LocalData:     st.texts.one(localData(o)),
		RunsOnce:      o.Spec.RestartPolicy == corev1.RestartPolicyNever || o.Spec.RestartPolicy == corev1.RestartPolicyOnFailure,
		slotByOthers:  slotByOthers(o),
	}
	p.CostOrigin, _ = CostWriter(o)
	kept := sharedAnnotations(o)
	p.takeSlot(kept)
	p.Annotations = st.sets.same(old.Annotations, kept)
	if !p.Gated {
		p.LimitedTo, _ = gate.LimitedTo(o)
	}
	if _, holds := o.Labels[v1alpha1.PlaceholderLabel]; holds {
		p.Running = o.Status.Phase == corev1.PodRunning
	} else if pods.Leaves(o) {
		p.Running = true
	}
	p.Pinned = p.LimitedTo == capacity.Unknown && st.Classifier.Pins(&o.Spec)
	p.SpreadByType = !p.Pinned && spreadByType(&o.Spec)
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		p.Owner = st.owners.one(ref)
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == corev1.PodReady {
			p.Ready, p.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Unix()
		}
	}
	p.CPU, p.Memory = requests(o)
	return p
}

// filtered returns what the filters read of a pod, nil for one that takes no capacity of a node: it is neither bound nor nominated. It
// needs no lock, which a large pod would hold for long.
func (st *State) filtered(o *corev1.Pod) []byte {
	if st.Filtered == nil || pods.Finished(o) || o.Spec.NodeName == "" && o.Status.NominatedNodeName == "" {
		return nil
	}
	kept := st.Filtered(o)
	if len(kept) > maxFiltered {
		return []byte(TooLarge)
	}
	return kept
}

// maxFiltered bounds what is kept for the filters of a pod, in bytes. Most pods have a few hundred, which all replicas share. A larger
// pod has to be read again.
const maxFiltered = 8 << 10

// TooLarge is in the place of what is larger.
const TooLarge = "\xff"

// equal reports whether nothing changed that counts.
func (p *Pod) equal(q *Pod) bool {
	return p.sameState(q) && p.sameNeeds(q) && maps.Equal(p.Labels, q.Labels) && maps.Equal(p.Annotations, q.Annotations) &&
		sameOwner(p.Owner, q.Owner)
}

func (p *Pod) sameState(q *Pod) bool {
	return p.UID == q.UID && p.slot == q.slot && p.costly == q.costly && p.CostOrigin == q.CostOrigin &&
		p.slotByOthers == q.slotByOthers && p.Created == q.Created && p.Node == q.Node &&
		p.Ready == q.Ready && p.ReadySince == q.ReadySince && p.Running == q.Running && p.Terminating == q.Terminating &&
		p.Finished == q.Finished
}

// sameNeeds: a gated pod may still get a nodeSelector, and a running one other requests.
func (p *Pod) sameNeeds(q *Pod) bool {
	return p.Pinned == q.Pinned && p.Gated == q.Gated && p.OtherGates == q.OtherGates && p.LimitedTo == q.LimitedTo &&
		p.UsesGate == q.UsesGate && p.Grouped == q.Grouped && p.Filtered == q.Filtered && p.LocalData == q.LocalData &&
		p.CPU == q.CPU && p.Memory == q.Memory &&
		p.SchedulerName == q.SchedulerName
}

// podGroupKey has the name of a pod's PodGroup among the annotations of its record, and respondsKey is there where a pod names
// responders. No annotation of a pod with these keys is kept.
const (
	podGroupKey = "spec.schedulingGroup"
	respondsKey = "spec.evictionResponders"
)

func sameOwner(a, b *metav1.OwnerReference) bool {
	return a == b || a != nil && b != nil && refOf(a) == refOf(b)
}

func spreadByType(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule &&
			(c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor)
	})
}

// localData names the first volume of a pod whose content does not outlive it:
// a directory of the node, or an emptyDir that is not in memory. Generic and
// CSI ephemeral volumes are recreated with the pod by design.
func localData(o *corev1.Pod) string {
	if o.Annotations[pods.SafeToEvict] == "true" {
		return ""
	}
	safe := strings.Split(o.Annotations[pods.SafeToEvictVolumes], ",")
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		local := v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
		if local && !contains(safe, v.Name) {
			return v.Name
		}
	}
	return ""
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if strings.TrimSpace(s) == name {
			return true
		}
	}
	return false
}

// requests is what the scheduler takes a pod to need of a node, never more, so
// that "no node has free capacity" is certain: the pod's own spec counts while a resize
// in place goes on, and where it cannot be done what the pod has, if that is less.
func requests(o *corev1.Pod) (cpu, memory int64) {
	r := resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{})
	cpu, memory = r.Cpu().MilliValue(), r.Memory().Value()
	if resourcehelper.IsPodResizeInfeasible(o) {
		r = resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})
		cpu, memory = min(cpu, r.Cpu().MilliValue()), min(memory, r.Memory().Value())
	}
	return cpu, memory
}

// Keeps returns the annotation by which the pod's user forbids to evict it, "" if there is none, and until when: zero for as
// long as it is there. A duration of Karpenter's annotation counts from the creation of the pod. What time does not end comes
// first.
func (p *Pod) Keeps(now time.Time) (annotation string, until time.Time) {
	v := p.Annotations[pods.DoNotDisrupt]
	if v == "true" {
		return pods.DoNotDisrupt, time.Time{}
	}
	if p.Annotations[pods.SafeToEvict] == "false" {
		return pods.SafeToEvict, time.Time{}
	}
	if _, set := p.Annotations[pods.PreferNoEviction]; set {
		return pods.PreferNoEviction, time.Time{}
	}
	if d, err := time.ParseDuration(v); err == nil && now.Sub(time.Unix(0, p.Created)) < d {
		return pods.DoNotDisrupt, time.Unix(0, p.Created).Add(d)
	}
	return "", time.Time{}
}
