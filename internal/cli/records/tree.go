// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/split"
)

// RecordNode is an object that was made of a record, or a function or the ODGM with its objects below.
type RecordNode struct {
	// APIVersion is "" for a function and the ODGM, which are no objects.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Name       string `json:"name,omitempty"`
	// Replicas are those of a workload, absent for all else.
	Replicas *ReplicaCount `json:"replicas,omitempty"`
	// Pods are those of a workload by the type of their node, Pending those without one; absent where they could not be read.
	Pods    *overview.Split `json:"pods,omitempty"`
	Pending int             `json:"pending,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	// Missing is set where the controller has made it and it is not there any more.
	Missing  bool         `json:"missing,omitempty"`
	Children []RecordNode `json:"children,omitempty"`
}

// ReplicaCount is how many replicas are ready, of those that should be.
type ReplicaCount struct {
	Ready  int32 `json:"ready"`
	Wanted int32 `json:"wanted"`
}

// String is "2/3".
func (r *ReplicaCount) String() string { return fmt.Sprintf("%d/%d", r.Ready, r.Wanted) }

// shownFirst is the order of kinds below one parent.
var shownFirst = []schema.GroupVersionKind{kindMix, kindLimit, kindDeployment, kindKnative, kindHPA, kindService}

const notReady = "not ready"

// treeOf orders what the record refers to, and what is there although it does
// not yet: the record's own objects first, then those of each function, of the ODGM and of each add-on.
func treeOf(p *recordParts) []RecordNode {
	below := map[component][]RecordNode{}
	for _, ref := range p.references() {
		kind := groupKindOf(ref)
		object := p.objects[objectKey{kind, ref.Name}]
		n := RecordNode{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
		parent := p.parent(kind, ref.Name, object)
		if object != nil {
			p.describe(&n, object)
		} else if n.Missing = p.read[kind]; n.Missing {
			n.Detail = "no longer exists"
		}
		below[parent] = append(below[parent], n)
	}
	tree := below[component{}]
	for i := range p.rec.Status.Functions {
		f := &p.rec.Status.Functions[i]
		n := RecordNode{Kind: "Function", Name: f.FunctionKey, Children: below[component{function: f.FunctionKey}]}
		if f.Service != "" {
			n.Replicas = &ReplicaCount{Ready: f.ReadyReplicas, Wanted: f.Replicas}
		}
		if n.Detail = f.Message; f.Reason != "" {
			n.Detail = strings.TrimSuffix(f.Reason+": "+f.Message, ": ")
		}
		tree = append(tree, n)
	}
	if children := below[component{odgm: true}]; p.rec.Status.ODGM != nil || len(children) > 0 {
		n := RecordNode{Kind: "ODGM", Children: children}
		if s := p.rec.Status.ODGM; s != nil && !s.Ready {
			n.Detail = notReady
		}
		tree = append(tree, n)
	}
	return append(tree, addonsOf(p, below)...)
}

// addonsOf are the add-ons of the status with their objects, and those that it does not have yet.
func addonsOf(p *recordParts, below map[component][]RecordNode) (nodes []RecordNode) {
	ready := map[string]bool{}
	for _, a := range p.rec.Status.Addons {
		ready[a.Name] = a.Ready
	}
	for parent := range below {
		if _, known := ready[parent.addon]; parent.addon != "" && !known {
			ready[parent.addon] = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		n := RecordNode{Kind: "Addon", Name: name, Children: below[component{addon: name}]}
		if !ready[name] {
			n.Detail = notReady
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// references are those of the status, and those to objects that it does not have yet, in the order in which they are shown.
func (p *recordParts) references() []v1alpha1.ResourceRef {
	all := slices.Clone(p.rec.Status.ResourceRefs)
	known := map[objectKey]bool{}
	for _, ref := range all {
		known[objectKey{groupKindOf(ref), ref.Name}] = true
	}
	for _, kind := range shownFirst {
		for key := range p.objects {
			if key.GroupKind == kind.GroupKind() && !known[key] {
				all = append(all, v1alpha1.ResourceRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: key.name})
			}
		}
	}
	place := func(ref v1alpha1.ResourceRef) int {
		i := slices.IndexFunc(shownFirst, func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == groupKindOf(ref) })
		if i < 0 {
			return len(shownFirst)
		}
		return i
	}
	slices.SortFunc(all, func(a, b v1alpha1.ResourceRef) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// isODGM reports whether an object has the name of the ODGM's Service or of the workload of one of its members: see
// internal/records/render.
func isODGM(name, service string) bool {
	first := strings.TrimSuffix(service, "-svc")
	number, another := strings.CutPrefix(name, first+"-")
	_, err := strconv.Atoi(number)
	return name == service || name == first || another && err == nil
}

// parent returns the part of the record that an object is for: by its labels, or by its name where it was not read.
func (p *recordParts) parent(kind schema.GroupKind, name string, object client.Object) component {
	if object != nil {
		return p.component(object.GetLabels())
	}
	if s := p.rec.Status.ODGM; s != nil && s.Service != "" && isODGM(name, s.Service) {
		return component{odgm: true}
	}
	for i := range p.rec.Status.Functions {
		if f := &p.rec.Status.Functions[i]; f.Service == name && kind != kindLimit.GroupKind() { // that one is for all functions
			return component{function: f.FunctionKey}
		}
	}
	return component{}
}

// describe sets the fields of an object that users of its kind look for.
func (p *recordParts) describe(n *RecordNode, object client.Object) {
	switch o := object.(type) {
	case *v1alpha1.CapacityMix:
		m := split.New(o.Spec.SpotPercent, o.Spec.MinOnDemand)
		if o.Spec.MaxSpot != nil {
			m.MaxSpot = *o.Spec.MaxSpot
		}
		n.Detail = m.String()
	case *v1alpha1.ResourceLimit:
		n.Detail = sizeText(&o.Spec)
	case *appsv1.Deployment:
		n.Replicas = &ReplicaCount{Ready: o.Status.ReadyReplicas, Wanted: ptr.Deref(o.Spec.Replicas, 1)}
		if c := o.Spec.Template.Spec.Containers; len(c) > 0 {
			n.Detail = c[0].Image
		}
		p.place(n, o.GetLabels())
	case *autoscalingv2.HorizontalPodAutoscaler:
		n.Detail = fmt.Sprintf("%d to %d replicas, desired %d", ptr.Deref(o.Spec.MinReplicas, 1), o.Spec.MaxReplicas, o.Status.DesiredReplicas)
	case *corev1.Service:
		var ports []string
		for i := range o.Spec.Ports {
			ports = append(ports, fmt.Sprintf("%d -> %s", o.Spec.Ports[i].Port, o.Spec.Ports[i].TargetPort.String()))
		}
		n.Detail = strings.Join(ports, ", ")
	case *unstructured.Unstructured:
		n.Detail = readyText(o)
		p.place(n, o.GetLabels())
	}
}

// place counts the pods of a workload by where they run.
func (p *recordParts) place(n *RecordNode, labels map[string]string) {
	if !p.podsRead() {
		return
	}
	var placed split.Count
	for _, pod := range p.podsLike(labels) {
		if pod.Bound() {
			placed.Add(p.cluster.State.Node(pod.Node).Type)
		} else {
			n.Pending++
		}
	}
	n.Pods = new(overview.Split(placed))
}

// sizeText is "cpu 200m, memory 256Mi, memory at most 512Mi".
func sizeText(s *v1alpha1.ResourceLimitSpec) string {
	var parts []string
	for _, size := range []struct {
		label string
		value *resource.Quantity
	}{{"cpu ", s.CPU}, {"cpu at most ", s.CPULimit}, {"memory ", s.Memory}, {"memory at most ", s.MemoryLimit}} {
		if size.value != nil {
			parts = append(parts, size.label+size.value.String())
		}
	}
	return strings.Join(parts, ", ")
}

// readyText is the readiness that a Knative Service reports.
func readyText(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		return strings.TrimRight(fmt.Sprintf("Ready %v: %s %s", c["status"], reason, message), ": ")
	}
	return "no condition yet"
}

// rows writes a tree line by line, the first column with the branches of the tree.
func rows(t *printers.Table, nodes []RecordNode, prefix string) {
	for i := range nodes {
		n := &nodes[i]
		branch, further := "├─ ", "│  "
		if i == len(nodes)-1 {
			branch, further = "└─ ", "   "
		}
		name := strings.TrimSuffix(n.Kind+"/"+n.Name, "/")
		replicas, pods, pending := "-", "-", "-"
		if n.Replicas != nil {
			replicas = n.Replicas.String()
		}
		if n.Pods != nil {
			pods, pending = n.Pods.String(), fmt.Sprint(n.Pending)
		} else if n.APIVersion != "" && n.Replicas != nil { // a workload whose pods could not be read
			pods, pending = "<unknown>", "<unknown>"
		}
		t.Add(prefix+branch+name, replicas, pods, pending, cmp.Or(n.Detail, "-"))
		rows(t, n.Children, prefix+further)
	}
}
