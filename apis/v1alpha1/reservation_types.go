// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationSpec defines the capacity that is held and the pods that may use it. Only replicas and expirationSeconds can be
// changed later.
//
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) != has(self.podName)",message="spec must have exactly one of podSelector and podName"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) || has(self.memory) || has(self.ephemeralStorage) || (has(self.extendedResources) && self.extendedResources.size() > 0)",message="spec must have at least one of cpu, memory, ephemeralStorage and extendedResources"
// +kubebuilder:validation:XValidation:rule="(!has(self.podName) && !has(self.nodeName)) || !has(self.replicas) || self.replicas == 1",message="replicas must be 1 with podName and with nodeName",fieldPath=".replicas"
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) == has(oldSelf.podSelector) && (!has(self.podSelector) || self.podSelector == oldSelf.podSelector)",message="podSelector must not be changed",fieldPath=".podSelector"
// +kubebuilder:validation:XValidation:rule="has(self.podName) == has(oldSelf.podName) && (!has(self.podName) || self.podName == oldSelf.podName)",message="podName must not be changed",fieldPath=".podName"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || string(self.cpu).matches('[eE].{4}') || string(oldSelf.cpu).matches('[eE].{4}') || !isQuantity(string(self.cpu)) || quantity(string(self.cpu)).compareTo(quantity(string(oldSelf.cpu))) == 0)",message="cpu must not be changed",fieldPath=".cpu"
// +kubebuilder:validation:XValidation:rule="has(self.memory) == has(oldSelf.memory) && (!has(self.memory) || string(self.memory).matches('[eE].{4}') || string(oldSelf.memory).matches('[eE].{4}') || !isQuantity(string(self.memory)) || quantity(string(self.memory)).compareTo(quantity(string(oldSelf.memory))) == 0)",message="memory must not be changed",fieldPath=".memory"
// +kubebuilder:validation:XValidation:rule="has(self.ephemeralStorage) == has(oldSelf.ephemeralStorage) && (!has(self.ephemeralStorage) || string(self.ephemeralStorage).matches('[eE].{4}') || string(oldSelf.ephemeralStorage).matches('[eE].{4}') || !isQuantity(string(self.ephemeralStorage)) || quantity(string(self.ephemeralStorage)).compareTo(quantity(string(oldSelf.ephemeralStorage))) == 0)",message="ephemeralStorage must not be changed",fieldPath=".ephemeralStorage"
// +kubebuilder:validation:XValidation:rule="has(self.extendedResources) == has(oldSelf.extendedResources) && (!has(self.extendedResources) || self.extendedResources == oldSelf.extendedResources)",message="extendedResources must not be changed",fieldPath=".extendedResources"
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) == has(oldSelf.nodeSelector) && (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)",message="nodeSelector must not be changed",fieldPath=".nodeSelector"
// +kubebuilder:validation:XValidation:rule="has(self.nodeName) == has(oldSelf.nodeName) && (!has(self.nodeName) || self.nodeName == oldSelf.nodeName)",message="nodeName must not be changed",fieldPath=".nodeName"
// +kubebuilder:validation:XValidation:rule="has(self.tolerations) == has(oldSelf.tolerations) && (!has(self.tolerations) || self.tolerations == oldSelf.tolerations)",message="tolerations must not be changed",fieldPath=".tolerations"
// +kubebuilder:validation:XValidation:rule="has(self.schedulerName) == has(oldSelf.schedulerName) && (!has(self.schedulerName) || self.schedulerName == oldSelf.schedulerName)",message="schedulerName must not be changed",fieldPath=".schedulerName"
// +kubebuilder:validation:XValidation:rule="has(self.allocateOnce) == has(oldSelf.allocateOnce) && (!has(self.allocateOnce) || self.allocateOnce == oldSelf.allocateOnce)",message="allocateOnce must not be changed",fieldPath=".allocateOnce"
type ReservationSpec struct {
	// podSelector selects the pods of the namespace that may use the capacity. An empty selector ({}) selects every pod.
	//
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// podName is the name of the only pod that may use the capacity, in place of podSelector.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message=`podName must be the name of a pod: lower-case letters, digits, '-' or '.', with a letter or digit at both ends`,messageExpression=`"podName must be the name of a pod, not '" + self + "': lower-case letters, digits, '-' or '.', with a letter or digit at both ends"`
	// +optional
	PodName string `json:"podName,omitempty"`

	// replicas is the number of pods for which capacity is held, from 1 to 100. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// cpu is the CPU that is held for each pod, in cores: 500m, 2.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1000000 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpu must be at most 1M`
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the memory that is held for each pod, in bytes: 512Mi, 2Gi.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memory must be at most 1Pi`
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// ephemeralStorage is the node-local storage that is held for each pod, in bytes: 10Gi.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self > 0 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`ephemeralStorage must be a quantity above 0`,messageExpression=`"ephemeralStorage must be a quantity above 0, such as 512Mi or 10Gi, not '" + string(self) + "'"`
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self <= 1125899906842624 : self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`ephemeralStorage must be at most 1Pi`
	// +optional
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`

	// extendedResources is a map of the extended resources that are held for each pod, such as nvidia.com/gpu: 1, at most 4.
	//
	// +kubebuilder:validation:MaxProperties=4
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 317 && k.indexOf('/') > 0 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message=`extendedResources must have names with a DNS prefix, such as nvidia.com/gpu`,messageExpression=`"extendedResources must have names with a DNS prefix, such as nvidia.com/gpu, not '" + self.filter(k, !(k.size() <= 317 && k.indexOf('/') > 0 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')))[0] + "'"`
	// +optional
	ExtendedResources map[string]ResourceCount `json:"extendedResources,omitempty"`

	// nodeSelector is a map of labels that a node must have for capacity to be held there, at most 16.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message=`nodeSelector must have label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"nodeSelector must have label keys, not '" + self.filter(k, !(k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')))[0] + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	NodeSelector map[string]NodeLabelValue `json:"nodeSelector,omitempty"`

	// nodeName is the name of the only node on which capacity is held, as soon as the node has it. If unset, the scheduler
	// chooses nodes.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message=`nodeName must be the name of a node: lower-case letters, digits, '-' or '.', with a letter or digit at both ends`,messageExpression=`"nodeName must be the name of a node, not '" + self + "': lower-case letters, digits, '-' or '.', with a letter or digit at both ends"`
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// tolerations is the list of taints of nodes that do not prevent that capacity is held there, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// schedulerName is the name of the scheduler profile by whose rules nodes are chosen. Defaults to berth-scheduler.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// expirationSeconds is the time after the creation of the Reservation when it expires and the capacity is released, from 1
	// to 2592000 (30 days). Defaults to 3600.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ExpirationSeconds *int32 `json:"expirationSeconds,omitempty"`

	// ttlSecondsAfterFinished is the time after which a Reservation is deleted that has expired or whose capacity is used up,
	// from 0 to 2592000. Defaults to 3600.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// allocateOnce specifies whether capacity that a pod has used is released when that pod ends (true), or held for the next
	// one until the Reservation expires (false). Defaults to true.
	//
	// +optional
	AllocateOnce *bool `json:"allocateOnce,omitempty"`
}

// ResourceCount is a number of extended resources. The type carries only the validation.
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=1000000
type ResourceCount = int64

// ReservationStatus is the most recently observed status of a Reservation. The leading berth-scheduler writes it.
type ReservationStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the Reservation. Reserved is true while capacity for all replicas is held or
	// used. Otherwise its reason is Unschedulable, Invalid, TooMany, Expired or Used.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// heldCount is the number of pods for which capacity is held where they can run, and not used.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	HeldCount int32 `json:"heldCount,omitempty"`

	// usedCount is the number of pods that use the capacity and, if allocateOnce is true, that have used it.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	UsedCount int32 `json:"usedCount,omitempty"`

	// expirationTime is the time when the Reservation expires.
	//
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// holds is the list of places where capacity is or was held, at most 100: one for each replica that has a node.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Holds []Hold `json:"holds,omitempty"`
}

// Hold is capacity for one pod on one node.
type Hold struct {
	// nodeName is the name of the node.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	NodeName string `json:"nodeName"`

	// podName is the name of the pod that uses the capacity or has used it. If unset, the capacity is free.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`

	// podUID is the UID of that pod.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PodUID string `json:"podUID,omitempty"`
}

const (
	// ConditionReserved is True while capacity for all replicas of a Reservation is held or used.
	ConditionReserved = "Reserved"

	// ReasonReserved is the reason of Reserved=True.
	ReasonReserved = "Reserved"

	// ReasonUnschedulable is the reason of Reserved=False while no node has the capacity for some of the replicas.
	ReasonUnschedulable = "Unschedulable"

	// ReasonReleased is the reason of the event of a Reservation whose capacity on a node was released, because it was not there
	// any more or pods cannot run there: the scheduler holds it on another node if it can.
	ReasonReleased = "Released"

	// ReasonExpired is the reason of Reserved=False after the expiration: the capacity is released.
	ReasonExpired = "Expired"

	// ReasonUsed is the reason of Reserved=False after pods have used all of the capacity, with allocateOnce.
	ReasonUsed = "Used"
)

// ReservationAnnotation is the name of the Reservation whose capacity a pod uses. The scheduler adds it to the pod in its
// Binding, so that a restarted scheduler finds what is used.
const ReservationAnnotation = AnnotationPrefix + "/reservation"

// BindGroupLabel identifies, on a Reservation, the group of a pod that is bound in two phases. The scheduler creates such a
// Reservation for each pod of the group before it binds the first of them.
const BindGroupLabel = AnnotationPrefix + "/bind-group"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Reservation holds capacity on nodes for pods that come later. berth-scheduler places no other pod on it; other schedulers
// ignore it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=reservations,scope=Namespaced,shortName=rsv,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Pods for which capacity is to be held"
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.heldCount`,description="Pods for which capacity is held and not used"
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.usedCount`,description="Pods that use the capacity or have used it"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Reserved")].reason`,description="Reserved, or the reason why capacity is not held for all replicas"
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expirationTime`,description="When the capacity is released"
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.holds[*].nodeName`,priority=1,description="Nodes on which capacity is or was held"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Reservation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the capacity and its users.
	//
	// +required
	Spec ReservationSpec `json:"spec"`

	// status is the most recently observed status of the Reservation.
	//
	// +optional
	Status ReservationStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ReservationList is a list of Reservation objects.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of Reservation objects.
	//
	// +required
	Items []Reservation `json:"items"`
}
