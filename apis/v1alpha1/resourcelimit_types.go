// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceLimitSpec is a named size for pods, and the nodes that they may run on. What it says counts for a pod as a
// whole, all its containers together.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.cpuLimit) || !isQuantity(string(self.cpu)) || !isQuantity(string(self.cpuLimit)) || quantity(string(self.cpuLimit)).compareTo(quantity(string(self.cpu))) >= 0",message="cpuLimit must not be below cpu",messageExpression="'cpuLimit must not be below cpu: ' + string(self.cpuLimit) + ' is below ' + string(self.cpu)",fieldPath=".cpuLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.memoryLimit) || !isQuantity(string(self.memory)) || !isQuantity(string(self.memoryLimit)) || quantity(string(self.memoryLimit)).compareTo(quantity(string(self.memory))) >= 0",message="memoryLimit must not be below memory",messageExpression="'memoryLimit must not be below memory: ' + string(self.memoryLimit) + ' is below ' + string(self.memory)",fieldPath=".memoryLimit"
type ResourceLimitSpec struct {
	// description says to people what the size is for, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// cpu is what a pod of this size requests, in cores: 500m, 2. Absent means that the pod's own requests count,
	// without a bound.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + string(self) + "'"`
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is what a pod of this size requests, in bytes: 512Mi, 2Gi. Absent means that the pod's own requests count,
	// without a bound.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// cpuLimit is the most that a pod may request or be limited to, in cores; not below cpu. Absent means the same as
	// cpu.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpuLimit must be a quantity above 0`,messageExpression=`"cpuLimit must be a quantity above 0, such as 500m or 2, not '" + string(self) + "'"`
	// +optional
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`

	// memoryLimit is the most that a pod may request or be limited to, in bytes; not below memory. Absent means the same
	// as memory.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memoryLimit must be a quantity above 0`,messageExpression=`"memoryLimit must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`

	// ephemeralStorage is the node-local storage that a pod of this size requests, in bytes, and the most that it may
	// request or be limited to. Absent means that the pod's own requests count, without a bound.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`ephemeralStorage must be a quantity above 0`,messageExpression=`"ephemeralStorage must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +optional
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`

	// volumes are the volumes that a pod of this size gets, by name, at most 8. Each pod gets a claim of its own for each
	// of them, which is deleted with the pod. Names are DNS labels, mount paths differ.
	//
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a == b || (has(self[a].mountPath) ? self[a].mountPath : '/volumes/' + a) != (has(self[b].mountPath) ? self[b].mountPath : '/volumes/' + b)))",message="volumes must not have the same mountPath twice"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 63 && k.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",message="volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit",messageExpression=`"volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit, not '" + self.filter(k, !(k.size() <= 63 && k.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')))[0] + "'"`
	// +optional
	Volumes map[string]VolumeLimit `json:"volumes,omitempty"`

	// nodeSelector lists labels that a node must have to take a pod of this size, at most 16. It counts in addition to the pod's
	// own nodeSelector, and in addition nodeAffinity.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message=`nodeSelector must have label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"nodeSelector must have label keys, not '" + self.filter(k, !(k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')))[0] + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	NodeSelector map[string]NodeLabelValue `json:"nodeSelector,omitempty"`

	// nodeAffinity says on which nodes a pod of this size must run, and on which it should. It counts in addition to the pod's
	// own affinity, and in addition nodeSelector.
	//
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`

	// selector selects the pods of the namespace that have this size without naming it. A pod that names a size by the
	// label berth.dev/resource-limit has that one. Absent selects none, an empty selector ({}) every pod. Where several
	// sizes select a pod, the oldest counts.
	//
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`
}

// VolumeLimit is a volume that every pod of a size gets.
type VolumeLimit struct {
	// size is the size of the volume, in bytes: 10Gi.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`size must be a quantity above 0`,messageExpression=`"size must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +required
	Size resource.Quantity `json:"size"`

	// storageClass names the StorageClass that the volume is made by. Absent means the cluster's default.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="storageClass must be the name of a StorageClass: lower-case letters, digits, '-' or '.', with a letter or digit at both ends",messageExpression=`"storageClass must be the name of a StorageClass, not '" + self + "': lower-case letters, digits, '-' or '.', with a letter or digit at both ends"`
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`

	// mountPath is the directory at which the pod's main container sees the volume. Absent means /volumes/<name>.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="mountPath must be an absolute path without ':'",messageExpression=`"mountPath must be an absolute path without ':', not '" + self + "'"`
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}

// NodeAffinity says on which nodes pods must and should run, as a pod's own nodeAffinity does.
//
// +structType=atomic
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must hold for a node to take the pod.
	//
	// +optional
	RequiredDuringSchedulingIgnoredDuringExecution *NodeTerms `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution are preferences, at most 16. A node scores the sum of the weights of
	// those that it matches.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	PreferredDuringSchedulingIgnoredDuringExecution []PreferredNodeTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeTerms are alternatives: a node must match at least one.
//
// +structType=atomic
type NodeTerms struct {
	// nodeSelectorTerms are the alternatives, 1 to 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="nodeSelectorTerms must have at least one term"
	// +listType=atomic
	// +required
	NodeSelectorTerms []NodeTerm `json:"nodeSelectorTerms"`
}

// PreferredNodeTerm is a preference for the nodes that match a term.
type PreferredNodeTerm struct {
	// weight is what a node that matches scores, from 1 to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 100`,message=`weight must be between 1 and 100`
	// +required
	Weight int32 `json:"weight"`

	// preference is what such a node must match.
	//
	// +required
	Preference NodeTerm `json:"preference"`
}

// NodeTerm is a set of conditions that must all hold for a node.
//
// +kubebuilder:validation:XValidation:rule="(has(self.matchExpressions) && self.matchExpressions.size() > 0) || (has(self.matchFields) && self.matchFields.size() > 0)",message="matchExpressions or matchFields must have at least one condition",fieldPath=".matchExpressions"
type NodeTerm struct {
	// matchExpressions are conditions on the node's labels, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []NodeRequirement `json:"matchExpressions,omitempty"`

	// matchFields are conditions on the node's fields, of which only metadata.name can be used, at most 4.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	// +optional
	MatchFields []NodeFieldRequirement `json:"matchFields,omitempty"`
}

// NodeRequirement is a condition on one label of a node.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : true",message="values must not be empty when operator is In or NotIn",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || self.values.size() == 0 : true",message="values must be empty when operator is Exists or DoesNotExist",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Gt', 'Lt'] ? has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$') : true",message="values must be a single integer of at most 18 digits, without a sign, when operator is Gt or Lt",fieldPath=".values"
type NodeRequirement struct {
	// key is the label key that the condition is about, at most 317 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`key must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"key must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +required
	Key string `json:"key"`

	// operator says what must hold: the label's value is one of values (In), is none of them or the label is absent
	// (NotIn), the label is present (Exists), it is absent (DoesNotExist), or its value is an integer above (Gt) or below
	// (Lt) the one in values.
	//
	// +required
	Operator NodeOperator `json:"operator"`

	// values are what the operator compares with: 1 to 32 label values for In and NotIn, one integer without a sign for Gt
	// and Lt (a label value cannot begin with '-'), none for Exists and DoesNotExist.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`values must hold label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"values must hold label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeFieldRequirement is a condition on the name of a node.
type NodeFieldRequirement struct {
	// key is the field that the condition is about: metadata.name.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == 'metadata.name'",message="key must be metadata.name",messageExpression=`"key must be metadata.name, not '" + self + "'"`
	// +required
	Key string `json:"key"`

	// operator says whether the node's name must be the value (In) or must not be it (NotIn).
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

// NodeLabelValue is the value of a label in nodeSelector. It is an alias, which only carries the validation.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`nodeSelector must have label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"nodeSelector must have label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
type NodeLabelValue = string

// NodeOperator relates a node's label to the values of a NodeRequirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
type NodeOperator string

const (
	// NodeOpIn holds when the label's value is one of the values.
	NodeOpIn NodeOperator = "In"

	// NodeOpNotIn holds when the label's value is none of the values, or the label is absent.
	NodeOpNotIn NodeOperator = "NotIn"

	// NodeOpExists holds when the label is present.
	NodeOpExists NodeOperator = "Exists"

	// NodeOpDoesNotExist holds when the label is absent.
	NodeOpDoesNotExist NodeOperator = "DoesNotExist"

	// NodeOpGt holds when the label's value is an integer above the value.
	NodeOpGt NodeOperator = "Gt"

	// NodeOpLt holds when the label's value is an integer below the value.
	NodeOpLt NodeOperator = "Lt"
)

// NodeFieldOperator relates a node's name to the value of a NodeFieldRequirement.
//
// +kubebuilder:validation:Enum=In;NotIn
type NodeFieldOperator string

const (
	// NodeFieldOpIn holds for the node of that name.
	NodeFieldOpIn NodeFieldOperator = "In"

	// NodeFieldOpNotIn holds for every other node.
	NodeFieldOpNotIn NodeFieldOperator = "NotIn"
)

// AsNodeAffinity returns the same rules as the type that a pod has and the scheduler compiles, nil for nil. The result
// shares no memory with a.
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

// ResourceLimitStatus is what the controller last saw of a ResourceLimit.
type ResourceLimitStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the observations of this size, one per type: Accepted says whether it can be used, InUse whether
	// pods or workloads have it, which keeps it from being deleted.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// podCount is how many pods have this size. Finished ones do not count.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PodCount int32 `json:"podCount,omitempty"`

	// workloadCount is how many workloads make pods of this size, those that have no pod at present included.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	WorkloadCount int32 `json:"workloadCount,omitempty"`

	// workloads are those workloads in the order of namespace, kind and name, at most 50; workloadCount counts all.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Workloads []WorkloadReference `json:"workloads,omitempty"`
}

// WorkloadReference names a workload, or a pod that has none.
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
	// ConditionInUse is True while pods or workloads have a size.
	ConditionInUse = "InUse"

	// ReasonReferenced is the reason of InUse=True.
	ReasonReferenced = "Referenced"

	// ReasonNotReferenced is the reason of InUse=False.
	ReasonNotReferenced = "NotReferenced"

	// ReasonDeletionBlocked is the reason of InUse=True when the object is to be deleted and waits for its last pod or
	// workload. ForceDeleteAnnotation lets it go.
	ReasonDeletionBlocked = "DeletionBlocked"
)

// ResourceLimit is a named size for pods: what they request and may use, the volumes they get, and the nodes that they
// may run on. A change counts for new pods; running ones stay as they are.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourcelimits,scope=Namespaced,shortName=rlim,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.cpu`,description="What a pod requests, in cores"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.memory`,description="What a pod requests, in bytes"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.podCount`,description="Pods that have this size"
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloadCount`,description="Workloads that make such pods"
// +kubebuilder:printcolumn:name="CPU-Limit",type=string,JSONPath=`.spec.cpuLimit`,priority=1,description="The most that a pod may use, in cores"
// +kubebuilder:printcolumn:name="Memory-Limit",type=string,JSONPath=`.spec.memoryLimit`,priority=1,description="The most that a pod may use, in bytes"
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1,description="What the size is for"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters, so that a label can hold it"
type ResourceLimit struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name has at most 63 characters, so that a label can hold it.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the size and the nodes.
	//
	// +required
	Spec ResourceLimitSpec `json:"spec"`

	// status is what the controller last saw.
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

	// items are the objects of the list.
	//
	// +required
	Items []ResourceLimit `json:"items"`
}
