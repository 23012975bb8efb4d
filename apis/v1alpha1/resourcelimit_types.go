// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceLimitSpec defines the resources of pods and the nodes that they may run on. Requests and limits apply to the
// pod as a whole, all its containers together.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.cpuLimit) || string(self.cpu).matches('[eE].{4}') || !isQuantity(string(self.cpu)) || string(self.cpuLimit).matches('[eE].{4}') || !isQuantity(string(self.cpuLimit)) || quantity(string(self.cpuLimit)).compareTo(quantity(string(self.cpu))) >= 0",message="cpuLimit must not be below cpu",messageExpression="'cpuLimit must not be below cpu: ' + string(self.cpuLimit) + ' is below ' + string(self.cpu)",fieldPath=".cpuLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.memoryLimit) || string(self.memory).matches('[eE].{4}') || !isQuantity(string(self.memory)) || string(self.memoryLimit).matches('[eE].{4}') || !isQuantity(string(self.memoryLimit)) || quantity(string(self.memoryLimit)).compareTo(quantity(string(self.memory))) >= 0",message="memoryLimit must not be below memory",messageExpression="'memoryLimit must not be below memory: ' + string(self.memoryLimit) + ' is below ' + string(self.memory)",fieldPath=".memoryLimit"
type ResourceLimitSpec struct {
	// description is a human-readable description of the ResourceLimit, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// cpu is the CPU that a pod requests, in cores: 500m, 2. If unset, the pod's own requests apply, without a bound.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1000000 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpu must be at most 1M`
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the memory that a pod requests, in bytes: 512Mi, 2Gi. If unset, the pod's own requests apply, without a
	// bound.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memory must be at most 1Pi`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// cpuLimit is the maximum CPU request and limit of a pod, in cores. It must not be below cpu. Defaults to cpu.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpuLimit must be a quantity above 0`,messageExpression=`"cpuLimit must be a quantity above 0, such as 500m or 2, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1000000 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpuLimit must be at most 1M`
	// +optional
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`

	// memoryLimit is the maximum memory request and limit of a pod, in bytes. It must not be below memory. Defaults to
	// memory.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memoryLimit must be a quantity above 0`,messageExpression=`"memoryLimit must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memoryLimit must be at most 1Pi`
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`

	// ephemeralStorage is the node-local storage that a pod requests, in bytes, which is also its maximum request and
	// limit. If unset, the pod's own requests apply, without a bound.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`ephemeralStorage must be a quantity above 0`,messageExpression=`"ephemeralStorage must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`ephemeralStorage must be at most 1Pi`
	// +optional
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`

	// volumes are the volumes that are added to a pod, by name, at most 8. Each pod gets its own PersistentVolumeClaim
	// for each of them, which is deleted with the pod. Names must be DNS labels, mount paths must be unique.
	//
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a == b || (has(self[a].mountPath) ? self[a].mountPath : '/volumes/' + a) != (has(self[b].mountPath) ? self[b].mountPath : '/volumes/' + b)))",message="volumes must not have the same mountPath twice"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 63 && k.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",message="volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit",messageExpression=`"volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit, not '" + self.filter(k, !(k.size() <= 63 && k.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')))[0] + "'"`
	// +optional
	Volumes map[string]VolumeLimit `json:"volumes,omitempty"`

	// nodeSelector is a map of labels that a node must have for a pod to run on it, at most 16. It applies in addition
	// to nodeAffinity and to the pod's own nodeSelector.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message=`nodeSelector must have label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"nodeSelector must have label keys, not '" + self.filter(k, !(k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')))[0] + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	NodeSelector map[string]NodeLabelValue `json:"nodeSelector,omitempty"`

	// nodeAffinity specifies the nodes on which a pod must run and those that it prefers. It applies in addition to
	// nodeSelector and to the pod's own affinity.
	//
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`

	// selector selects the pods of the namespace that use this ResourceLimit although they do not name it. A pod that
	// names a ResourceLimit by the label berth.dev/resource-limit uses that one. If unset, no pod is selected; an empty
	// selector ({}) selects every pod. If several ResourceLimits select a pod, the oldest applies.
	//
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`
}

// VolumeLimit is a volume that is added to every pod that uses a ResourceLimit.
type VolumeLimit struct {
	// size is the size of the volume, in bytes: 10Gi.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`size must be a quantity above 0`,messageExpression=`"size must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`size must be at most 1Pi`
	// +required
	Size resource.Quantity `json:"size"`

	// storageClass is the name of the StorageClass of the volume. If unset, the default StorageClass of the cluster is
	// used.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="storageClass must be the name of a StorageClass: lower-case letters, digits, '-' or '.', with a letter or digit at both ends",messageExpression=`"storageClass must be the name of a StorageClass, not '" + self + "': lower-case letters, digits, '-' or '.', with a letter or digit at both ends"`
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`

	// mountPath is the path within the pod's main container at which the volume is mounted. Defaults to
	// /volumes/<name>.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="mountPath must be an absolute path without ':'",messageExpression=`"mountPath must be an absolute path without ':', not '" + self + "'"`
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}

// NodeAffinity specifies the nodes on which pods must run and those that they prefer, like the nodeAffinity of a pod.
//
// +structType=atomic
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution is the set of terms of which a node must match at least one.
	//
	// +optional
	RequiredDuringSchedulingIgnoredDuringExecution *NodeTerms `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution is a list of preferences, at most 16. The score of a node is the
	// sum of the weights of the preferences that it matches.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	PreferredDuringSchedulingIgnoredDuringExecution []PreferredNodeTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeTerms is a list of alternative terms, of which a node must match at least one.
//
// +structType=atomic
type NodeTerms struct {
	// nodeSelectorTerms is the list of alternative terms, 1 to 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="nodeSelectorTerms must have at least one term"
	// +listType=atomic
	// +required
	NodeSelectorTerms []NodeTerm `json:"nodeSelectorTerms"`
}

// PreferredNodeTerm is a preference for the nodes that match a term.
type PreferredNodeTerm struct {
	// weight is the score of a node that matches, from 1 to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 100`,message=`weight must be between 1 and 100`
	// +required
	Weight int32 `json:"weight"`

	// preference is the term that a node must match.
	//
	// +required
	Preference NodeTerm `json:"preference"`
}

// NodeTerm is a set of requirements, all of which a node must meet.
//
// +kubebuilder:validation:XValidation:rule="(has(self.matchExpressions) && self.matchExpressions.size() > 0) || (has(self.matchFields) && self.matchFields.size() > 0)",message="matchExpressions or matchFields must have at least one condition",fieldPath=".matchExpressions"
type NodeTerm struct {
	// matchExpressions is a list of requirements on the node's labels, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []NodeRequirement `json:"matchExpressions,omitempty"`

	// matchFields is a list of requirements on the node's fields, at most 4. Only metadata.name is supported.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	// +optional
	MatchFields []NodeFieldRequirement `json:"matchFields,omitempty"`
}

// NodeRequirement is a requirement on one label of a node.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : true",message="values must not be empty when operator is In or NotIn",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || self.values.size() == 0 : true",message="values must be empty when operator is Exists or DoesNotExist",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Gt', 'Lt'] ? has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$') : true",message="values must be a single integer of at most 18 digits, without a sign, when operator is Gt or Lt",fieldPath=".values"
type NodeRequirement struct {
	// key is the label key that the requirement applies to, at most 317 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`key must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"key must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +required
	Key string `json:"key"`

	// operator is the relation of the label to values: the label's value is one of values (In), is none of them or the
	// label is absent (NotIn), the label is present (Exists), it is absent (DoesNotExist), or its value is an integer
	// above (Gt) or below (Lt) the one in values.
	//
	// +required
	Operator NodeOperator `json:"operator"`

	// values are the values that the operator compares with: 1 to 32 label values for In and NotIn, one integer without
	// a sign for Gt and Lt (a label value cannot begin with '-'), none for Exists and DoesNotExist.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`values must hold label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"values must hold label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeFieldRequirement is a requirement on the name of a node.
type NodeFieldRequirement struct {
	// key is the field that the requirement applies to: metadata.name.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == 'metadata.name'",message="key must be metadata.name",messageExpression=`"key must be metadata.name, not '" + self + "'"`
	// +required
	Key string `json:"key"`

	// operator specifies whether the node's name must be the value (In) or must differ from it (NotIn).
	//
	// +required
	Operator NodeFieldOperator `json:"operator"`

	// values is the name of one node.
	//
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message=`values must hold the name of a node: lower-case letters, digits, '-' or '.', with a letter or digit at both ends`,messageExpression=`"values must hold the name of a node, not '" + self + "': lower-case letters, digits, '-' or '.', with a letter or digit at both ends"`
	// +kubebuilder:validation:XValidation:rule="self.size() == 1",message="values must be the name of one node"
	// +listType=atomic
	// +required
	Values []string `json:"values"`
}

// NodeLabelValue is the value of a label in nodeSelector. The type carries only the validation.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`nodeSelector must have label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"nodeSelector must have label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
type NodeLabelValue = string

// NodeOperator relates a node's label to the values of a NodeRequirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
type NodeOperator string

const (
	// NodeOpIn matches if the label's value is one of the values.
	NodeOpIn NodeOperator = "In"

	// NodeOpNotIn matches if the label's value is none of the values, or the label is absent.
	NodeOpNotIn NodeOperator = "NotIn"

	// NodeOpExists matches if the label is present.
	NodeOpExists NodeOperator = "Exists"

	// NodeOpDoesNotExist matches if the label is absent.
	NodeOpDoesNotExist NodeOperator = "DoesNotExist"

	// NodeOpGt matches if the label's value is an integer above the value.
	NodeOpGt NodeOperator = "Gt"

	// NodeOpLt matches if the label's value is an integer below the value.
	NodeOpLt NodeOperator = "Lt"
)

// NodeFieldOperator relates a node's name to the value of a NodeFieldRequirement.
//
// +kubebuilder:validation:Enum=In;NotIn
type NodeFieldOperator string

const (
	// NodeFieldOpIn matches the node of that name.
	NodeFieldOpIn NodeFieldOperator = "In"

	// NodeFieldOpNotIn matches every other node.
	NodeFieldOpNotIn NodeFieldOperator = "NotIn"
)

// AsNodeAffinity returns the same rules as a corev1.NodeAffinity, nil for nil. The result shares no memory with a.
func (a *NodeAffinity) AsNodeAffinity() *corev1.NodeAffinity {
	if a == nil {
		return nil
	}
	out := &corev1.NodeAffinity{}
	if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		out.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for i := range required.NodeSelectorTerms {
			terms := &out.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*terms = append(*terms, required.NodeSelectorTerms[i].asNodeSelectorTerm())
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		preferred := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: preferred.Weight, Preference: preferred.Preference.asNodeSelectorTerm()})
	}
	return out
}

func (t *NodeTerm) asNodeSelectorTerm() corev1.NodeSelectorTerm {
	var out corev1.NodeSelectorTerm
	for i := range t.MatchExpressions {
		r := &t.MatchExpressions[i]
		out.MatchExpressions = append(out.MatchExpressions,
			corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: slices.Clone(r.Values)})
	}
	for i := range t.MatchFields {
		r := &t.MatchFields[i]
		out.MatchFields = append(out.MatchFields,
			corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: slices.Clone(r.Values)})
	}
	return out
}

// ResourceLimitStatus is the most recently observed status of a ResourceLimit.
type ResourceLimitStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the ResourceLimit. Accepted is true if it is valid, InUse if pods or
	// workloads use it, which prevents its deletion.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// podCount is the number of pods that use this ResourceLimit, without finished ones.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PodCount int32 `json:"podCount,omitempty"`

	// workloadCount is the number of workloads whose pods use this ResourceLimit, including workloads without a pod. A pod
	// without a controller is no workload.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	WorkloadCount int32 `json:"workloadCount,omitempty"`

	// workloads is the list of these workloads, and of the pods without a controller that use this ResourceLimit, ordered by
	// namespace, kind and name, at most 50. workloadCount and podCount count all.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Workloads []WorkloadReference `json:"workloads,omitempty"`
}

// WorkloadReference identifies a workload, or a pod without a controller.
type WorkloadReference struct {
	// kind is the kind of the workload: Deployment, StatefulSet, CronJob, Pod, …
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the workload.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name is the name of the workload.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

const (
	// ConditionInUse is True while pods or workloads use a ResourceLimit.
	ConditionInUse = "InUse"

	// ReasonReferenced is the reason of InUse=True.
	ReasonReferenced = "Referenced"

	// ReasonNotReferenced is the reason of InUse=False.
	ReasonNotReferenced = "NotReferenced"

	// ReasonDeletionBlocked is the reason of InUse=True if the deletion was requested and pods or workloads still use
	// the object. ForceDeleteAnnotation deletes it nevertheless.
	ReasonDeletionBlocked = "DeletionBlocked"
)

// ResourceLimit defines the resource requests and limits of pods, the volumes that are added to them, and the nodes
// that they may run on. A change applies to new pods. Running pods do not change.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourcelimits,scope=Namespaced,shortName=rlim,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.cpu`,description="CPU that a pod requests, in cores"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.memory`,description="Memory that a pod requests, in bytes"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.podCount`,description="Pods that use this ResourceLimit"
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloadCount`,description="Workloads whose pods use this ResourceLimit"
// +kubebuilder:printcolumn:name="CPU-Limit",type=string,JSONPath=`.spec.cpuLimit`,priority=1,description="Maximum CPU of a pod, in cores"
// +kubebuilder:printcolumn:name="Memory-Limit",type=string,JSONPath=`.spec.memoryLimit`,priority=1,description="Maximum memory of a pod, in bytes"
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1,description="Description of the ResourceLimit"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",fieldPath=".metadata",message="metadata.name must be at most 63 characters, so that it is a valid label value"
type ResourceLimit struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name has at most 63 characters, so that it is a valid label value.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the resources and the nodes of pods.
	//
	// +required
	Spec ResourceLimitSpec `json:"spec"`

	// status is the most recently observed status of the ResourceLimit.
	//
	// +optional
	Status ResourceLimitStatus `json:"status,omitempty"`
}

// ResourceLimitList is a list of ResourceLimit objects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ResourceLimitList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of ResourceLimit objects.
	//
	// +required
	Items []ResourceLimit `json:"items"`
}
