// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/sim/scenario"
)

// longestStart is longer than a pod takes to become Ready: one that took longer became Ready again.
const longestStart = time.Hour

// workload is what is simulated as a Deployment.
type workload struct {
	namespace, kind, name, part string
	// replicas is the wanted number. It is that of the pods where counted is set, because the owner is not in the snapshot.
	replicas int64
	counted  bool
	// template is that of the owner, and owner the controller of its pods, nil where they are unknown.
	template *corev1.PodTemplateSpec
	owner    *metav1.OwnerReference
	newest   *corev1.Pod
	// cpu and memory are the largest requests of its pods, once it is sized. They are unequal where pods differ.
	cpu, memory    resource.Quantity
	sized, unequal bool
	// starts are how many seconds pods took to become Ready.
	starts []int32
	mix    *governing.Mix
}

// title is the name in notes.
func (w *workload) title() string { return w.namespace + "/" + w.name }

// usage is what pods that are no replicas take on a node. What bare pods take is not taken on other nodes.
type usage struct{ cpu, memory, pods, bareCPU, bareMemory, barePods int64 }

// collect finds the workloads and what else takes capacity.
func (d *deriver) collect() {
	for _, o := range d.Deployments {
		d.own(ownerKey{namespace: o.Namespace, GroupKind: deploymentKind, name: o.Name}, o.Spec.Replicas, &o.Spec.Template, nil)
	}
	for _, o := range d.StatefulSets {
		ref := metav1.NewControllerRef(o, statefulSetKind.WithVersion("v1"))
		d.own(ownerKey{namespace: o.Namespace, GroupKind: statefulSetKind, name: o.Name}, o.Spec.Replicas, &o.Spec.Template, ref)
	}
	for _, o := range d.ReplicaSets {
		d.replicaSet(o)
	}
	for _, p := range d.Pods {
		d.pod(p)
	}
	slices.SortFunc(d.workloads, byName)
}

// replicaSet adds a ReplicaSet to the workload of its owner, or as one of its own.
func (d *deriver) replicaSet(o *appsv1.ReplicaSet) {
	self := ownerKey{namespace: o.Namespace, GroupKind: replicaSetKind, name: o.Name}
	key, ref := self, metav1.NewControllerRef(o, replicaSetKind.WithVersion("v1"))
	if above := metav1.GetControllerOfNoCopy(o); above != nil {
		key = keyOf(o.Namespace, above)
	}
	replicas := ptr.Deref(o.Spec.Replicas, 1)
	switch w := d.byOwner[key]; {
	case d.owners[key] != nil && key != self: // it has the number of its Deployment
		if w != nil && replicas > 0 {
			w.owner = ref
		}
	case w != nil:
		w.replicas += int64(max(replicas, 0))
	case replicas > 0 || key == self:
		d.own(key, &replicas, &o.Spec.Template, ref)
	}
	d.byOwner[self] = d.byOwner[key]
}

// own adds a workload of an owner with a number of replicas.
func (d *deriver) own(key ownerKey, replicas *int32, template *corev1.PodTemplateSpec, owner *metav1.OwnerReference) {
	w := &workload{
		namespace: key.namespace, kind: key.Kind, name: key.name,
		replicas: int64(ptr.Deref(replicas, 1)), template: template, owner: owner,
	}
	if w.replicas <= 0 {
		d.notes.add(withoutReplicas, w.title())
		return
	}
	d.byOwner[key] = w
	d.workloads = append(d.workloads, w)
}

func (d *deriver) pod(p *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(p)
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pods.Finished(p):
		d.notes.add(finished, "")
	case p.DeletionTimestamp != nil:
		d.notes.add(terminating, "")
	case pods.IsPlaceholder(p):
		d.notes.add(placeholders, "")
	case mirror || pods.OfNode(ref):
		d.use(p, ofNodes)
	case ref == nil:
		if _, released := pods.ReleasedFrom(p); released { // another pod has its slot
			d.notes.add(terminating, "")
		} else {
			d.use(p, bare)
		}
	case replacement.MakerOf(ref) == replacement.Job:
		d.notes.add(ofJobs, "")
	default:
		if w := d.workloadOf(p, ref); w != nil {
			w.add(p)
		}
	}
}

// use adds what a pod takes that is no replica.
func (d *deriver) use(p *corev1.Pod, c cause) {
	if p.Spec.NodeName == "" {
		return
	}
	d.notes.add(c, "")
	u := d.used[p.Spec.NodeName]
	if u == nil {
		u = &usage{}
		d.used[p.Spec.NodeName] = u
	}
	r := requests(p)
	cpu, memory := milliOf(*r.Cpu()), memoryOf(*r.Memory())
	if c == bare {
		u.bareCPU, u.bareMemory, u.barePods = budget.Add(u.bareCPU, cpu), budget.Add(u.bareMemory, memory), u.barePods+1
		return
	}
	u.cpu, u.memory, u.pods = budget.Add(u.cpu, cpu), budget.Add(u.memory, memory), u.pods+1
}

func requests(p *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
}

// milliOf is an amount of CPU, and memoryOf one of memory, within what a scenario has.
func milliOf(q resource.Quantity) int64 { return within(q, scenario.MaxCPU).MilliValue() }

func memoryOf(q resource.Quantity) int64 { return within(q, scenario.MaxMemory).Value() }

// within is an amount that is neither negative nor above another one.
func within(q, most resource.Quantity) *resource.Quantity {
	switch {
	case q.Sign() < 0:
		return &resource.Quantity{}
	case q.Cmp(most) > 0:
		return &most
	}
	return &q
}

// workloadOf returns the workload of a pod, nil for a pod of a workload without replicas.
func (d *deriver) workloadOf(p *corev1.Pod, ref *metav1.OwnerReference) *workload {
	key := keyOf(p.Namespace, ref)
	if w, known := d.byOwner[key]; known {
		return w
	}
	if d.owners[key] != nil {
		return nil
	}
	if key.GroupKind == replicaSetKind {
		if w := d.selecting(p); w != nil {
			d.byOwner[key] = w
			return w
		}
	}
	if set := p.Labels[d.resolver.OnePodKinds[key.GroupKind]]; set != "" {
		key.name = set
	}
	// Such an owner may have pods of several templates, as for a head and its workers.
	r, source := requests(p), ""
	if m, _ := d.resolver.Resolve(p); m != nil {
		source = m.Source + "/" + m.RoleName + "/" + m.Mix.String()
	}
	key.part = fmt.Sprintf("%s %s %s", r.Cpu(), r.Memory(), source)
	w := d.byOwner[key]
	if w == nil {
		w = &workload{namespace: p.Namespace, kind: ref.Kind, name: key.name, part: key.part, counted: true}
		d.byOwner[key] = w
		d.workloads = append(d.workloads, w)
	}
	return w
}

// add adds a pod of the workload.
func (w *workload) add(p *corev1.Pod) {
	if w.counted {
		w.replicas++
	}
	if w.newest == nil || w.newest.CreationTimestamp.Before(&p.CreationTimestamp) {
		w.newest = p
	}
	w.size(requests(p))
	if s, known := start(p); known {
		w.starts = append(w.starts, s)
	}
}

// size has the workload have pods with these requests.
func (w *workload) size(r corev1.ResourceList) {
	cpu, memory := *r.Cpu(), *r.Memory()
	if !w.sized {
		w.cpu, w.memory, w.sized = cpu, memory, true
		return
	}
	w.unequal = w.unequal || w.cpu.Cmp(cpu) != 0 || w.memory.Cmp(memory) != 0
	if w.cpu.Cmp(cpu) < 0 {
		w.cpu = cpu
	}
	if w.memory.Cmp(memory) < 0 {
		w.memory = memory
	}
}

// start is how many seconds a pod took to become Ready after its node had it. That is not known of a pod that was not always Ready since.
func start(p *corev1.Pod) (seconds int32, known bool) {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].RestartCount > 0 {
			return 0, false
		}
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue || c.LastTransitionTime.IsZero() || p.Status.StartTime.IsZero() {
			continue
		}
		took := c.LastTransitionTime.Sub(p.Status.StartTime.Time)
		return int32(took / time.Second), took >= 0 && took <= longestStart //nolint:gosec // not used where it is longer
	}
	return 0, false
}

// startup is the median of the times that pods took to start, 0 where none is known. Times are in whole seconds, so that none is below 1.
func (w *workload) startup() int32 {
	if len(w.starts) == 0 {
		return 0
	}
	slices.Sort(w.starts)
	return max(w.starts[(len(w.starts)-1)/2], 1)
}

// like is a pod as the workload has them: the newest one, or one of the template.
func (w *workload) like() *corev1.Pod {
	if w.newest != nil {
		return w.newest
	}
	p := &corev1.Pod{ObjectMeta: *w.template.ObjectMeta.DeepCopy(), Spec: w.template.Spec}
	p.Namespace, p.Name = w.namespace, cmp.Or(p.Name, w.name)
	if w.owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*w.owner}
	}
	return p
}
