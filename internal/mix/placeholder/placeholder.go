// SPDX-License-Identifier: Apache-2.0

// Package placeholder creates the pod that reserves capacity for a replica before the replica moves: it has the
// requests of the replica, is limited to nodes of the other capacity type, and does nothing. It is pure.
package placeholder

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/nodeselector"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

const (
	// PriorityClass has a priority below that of every workload, so that every other pod preempts it. It is not below
	// -10, because the cluster-autoscaler launches no nodes for lower priorities. manifests/rbac/placeholders has it.
	PriorityClass = "berth-placeholder"

	// Never is a readiness gate that stays False: a placeholder is never Ready, so no Service routes traffic to it and
	// no PodDisruptionBudget counts it as healthy, whatever they select.
	Never = v1alpha1.AnnotationPrefix + "/never-ready"
)

// Assignment is the capacity that a placeholder reserves.
type Assignment struct {
	// Replica is the live pod that is to move.
	Replica *corev1.Pod
	// Next is the pod that its owner will create in its place, nil for one like the replica. The placeholder is what that pod
	// is for the filters.
	Next *corev1.Pod
	// Type is the capacity type of its replacement, Label the node label of the type, and Tolerations those that the
	// mix adds to gated pods of the type.
	Type        capacity.Type
	Label       gate.Label
	Tolerations []corev1.Toleration
	// Size is the replica's ResourceLimit, nil if it has none. It applies to the placeholder too.
	Size *v1alpha1.ResourceLimit
	// Volumes are the nodes that the replica's volumes can be attached to, one selector per volume.
	Volumes []*corev1.NodeSelector
	// Domains are requirements of the nodes where the pods that are there allow the replacement once the replica is gone. The
	// placeholder cannot have its labels, by which a Service, a controller or a disruption budget would select it, so the filters
	// do not count it as they will count the replacement, and they still count the replica.
	Domains []corev1.NodeSelectorRequirement
	// DropAffinity and DropAntiAffinity are the required terms of the replacement that Domains replace: all terms of pod
	// affinity, and those of pod anti-affinity at these positions.
	DropAffinity     bool
	DropAntiAffinity []int
}

func (a *Assignment) next() *corev1.Pod {
	if a.Next != nil {
		return a.Next
	}
	return a.Replica
}

// Name returns the name of the placeholder of a replica: there is at most one.
func Name(replica types.UID) string { return "berth-placeholder-" + string(replica) }

// Labels returns the labels of the placeholder of a replica with a ResourceLimit, or nil.
func Labels(replica types.UID, size *v1alpha1.ResourceLimit) map[string]string {
	all := map[string]string{
		v1alpha1.PlaceholderLabel: string(replica),
		v1alpha1.InjectLabel:      "disabled",
		"sidecar.istio.io/inject": "false",
	}
	if size != nil {
		all[v1alpha1.ResourceLimitLabel] = size.Name
	}
	return all
}

// Unable returns what a placeholder cannot reserve for a pod, "" if nothing.
func Unable(p *corev1.Pod) string {
	if len(p.Spec.ResourceClaims) > 0 {
		return "devices by resource claim"
	}
	return ""
}

// Pod returns the placeholder. It is owned by the replica, so it does not outlive it, but the replica is not its
// controller, because disruption budgets would then request its scale.
func Pod(assignment Assignment, image string) *corev1.Pod {
	replica, next := assignment.Replica, assignment.next()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: replica.Namespace, Name: Name(replica.UID),
			Labels: Labels(replica.UID, assignment.Size),
			Annotations: map[string]string{
				v1alpha1.CapacityTypeAnnotation: assignment.Type.String(),
				"linkerd.io/inject":             "disabled",
				pods.DoNotDisrupt:               "true",
				pods.SafeToEvict:                "false",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: replica.Name, UID: replica.UID}},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 next.Spec.SchedulerName,
			PriorityClassName:             PriorityClass,
			TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ImagePullSecrets:              slices.Clone(next.Spec.ImagePullSecrets),
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: Never}},
			Containers:                    []corev1.Container{container(next, image)},
		},
	}
	place(&p.Spec, assignment)
	secure(&p.Spec, next.Spec.OS)
	return p
}

// place limits the placeholder to the nodes of the type that its replica may run on.
func place(spec *corev1.PodSpec, assignment Assignment) {
	next := assignment.next()
	own := next.Spec.DeepCopy()
	assignment.drop(own.Affinity)
	spec.NodeSelector, spec.Affinity, spec.Tolerations = own.NodeSelector, withoutLabelKeys(own.Affinity), own.Tolerations
	spec.TopologySpreadConstraints = settledSpread(own.TopologySpreadConstraints, next.Labels)
	if _, ungated := gate.LimitedTo(next); ungated {
		gate.Unrequire(spec, next)
		assignment.Label.Unlimit(spec)
	}
	if assignment.Size != nil {
		registry.Constrain(spec, assignment.Size)
	}
	for _, v := range assignment.Volumes {
		attachable(spec, v)
	}
	if len(assignment.Domains) > 0 {
		attachable(spec, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: assignment.Domains}}})
	}
	assignment.Label.Limit(spec, assignment.Type)
	if gate.Made(next) { // the replacement has the gate too, and gets them
		gate.Tolerate(spec, assignment.Tolerations)
	}
}

// drop removes the terms that the domains replace.
func (a *Assignment) drop(own *corev1.Affinity) {
	if own == nil {
		return
	}
	if own.PodAffinity != nil && a.DropAffinity {
		own.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	if own.PodAntiAffinity != nil {
		var kept []corev1.PodAffinityTerm
		for i, term := range own.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if !slices.Contains(a.DropAntiAffinity, i) {
				kept = append(kept, term)
			}
		}
		own.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = kept
	}
}

// withoutLabelKeys drops the label keys of terms: the API server added the pod's own values to the selectors when the replica
// was created.
func withoutLabelKeys(a *corev1.Affinity) *corev1.Affinity {
	if a == nil {
		return nil
	}
	drop := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			required[i].MatchLabelKeys, required[i].MismatchLabelKeys = nil, nil
		}
		for i := range preferred {
			preferred[i].PodAffinityTerm.MatchLabelKeys, preferred[i].PodAffinityTerm.MismatchLabelKeys = nil, nil
		}
	}
	if p := a.PodAffinity; p != nil {
		drop(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		drop(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return a
}

// settledSpread adds the replica's values of label keys to the selectors, unless the API server did: the placeholder
// has none of these labels.
func settledSpread(constraints []corev1.TopologySpreadConstraint, own map[string]string) []corev1.TopologySpreadConstraint {
	for i := range constraints {
		c := &constraints[i]
		for _, key := range c.MatchLabelKeys {
			value, there := own[key]
			if !there || c.LabelSelector == nil || pods.SelectsBy(c.LabelSelector, key) {
				continue
			}
			c.LabelSelector.MatchExpressions = append(c.LabelSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
		c.MatchLabelKeys = nil
	}
	return constraints
}

// attachable limits a pod to nodes by a selector in addition to its own.
func attachable(spec *corev1.PodSpec, nodes *corev1.NodeSelector) {
	if nodes == nil || len(nodes.NodeSelectorTerms) == 0 {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required, _ = nodeselector.Both(*required, nodes, math.MaxInt)
}

// container requests everything that the replica requests, including init containers, sidecars and overhead.
func container(replica *corev1.Pod, image string) corev1.Container {
	c := corev1.Container{Name: "placeholder", Image: image}
	requests := resourcehelper.PodRequests(replica, resourcehelper.PodResourcesOptions{})
	most := resourcehelper.PodLimits(replica, resourcehelper.PodResourcesOptions{})
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	if len(requests) > 0 {
		c.Resources.Requests, c.Resources.Limits = requests, corev1.ResourceList{}
	}
	for name, q := range requests {
		limit, there := most[name]
		switch {
		case !overcommits(name):
			c.Resources.Limits[name] = q // the API server requires them to be equal
		case there && limit.Cmp(q) >= 0:
			c.Resources.Limits[name] = limit // a quota may require it
		}
	}
	for _, own := range slices.Concat(replica.Spec.InitContainers, replica.Spec.Containers) {
		for _, port := range own.Ports {
			if port.HostPort > 0 {
				port.Name = ""
				c.Ports = append(c.Ports, port)
			}
		}
	}
	return c
}

// overcommits reports whether the limit of a resource may be above its request.
func overcommits(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// secure applies the Pod Security Standard "restricted". The user is that of the image, because some clusters assign
// users to each namespace.
func secure(spec *corev1.PodSpec, os *corev1.PodOS) {
	if os != nil {
		spec.OS = os.DeepCopy()
	}
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	if os != nil && os.Name == corev1.Windows {
		return // Windows rejects the fields below
	}
	spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
