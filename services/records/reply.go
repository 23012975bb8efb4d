// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	oaasruntime "berth.dev/berth/apis/proto/oaas/runtime"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// found is the summary of a record of which nothing is known but that it is there.
const found = "found"

// state returns the first word of a record's summary.
func state(r *record) string {
	s := &r.Status
	switch {
	case r.DeletionTimestamp != nil:
		return string(v1alpha1.PhaseDeleting)
	case s.ObservedGeneration > 0 && s.ObservedGeneration < r.Generation:
		return v1alpha1.ConditionProgressing // the conditions are those of another spec
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionAvailable):
		return v1alpha1.ConditionAvailable
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDegraded):
		return v1alpha1.ConditionDegraded
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionProgressing):
		return v1alpha1.ConditionProgressing
	case s.Phase != "":
		return string(s.Phase)
	case s.Message != "":
		return s.Message
	}
	return found
}

// summary is one line about a record: its state and, where it is degraded, why.
func summary(r *record) string {
	out := state(r)
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDegraded); out == v1alpha1.ConditionDegraded && c != nil {
		if c.Reason != "" {
			out += " (" + c.Reason + ")"
		}
		if c.Message != "" {
			out += ": " + c.Message
		}
	}
	return out
}

// enums are those of a state. Nothing known counts as running, as clients are used to, and any other state as pending.
var enums = map[string]struct {
	condition oaasruntime.DeploymentCondition
	phase     oaasruntime.DeploymentPhase
}{
	v1alpha1.ConditionAvailable:    {oaasruntime.DeploymentCondition_RUNNING, oaasruntime.DeploymentPhase_PHASE_RUNNING},
	v1alpha1.ConditionDegraded:     {oaasruntime.DeploymentCondition_DOWN, oaasruntime.DeploymentPhase_FAILED},
	v1alpha1.ConditionProgressing:  {oaasruntime.DeploymentCondition_DEPLOYING, oaasruntime.DeploymentPhase_RESOURCE_PROVISIONING},
	string(v1alpha1.PhasePending):  {oaasruntime.DeploymentCondition_PENDING, oaasruntime.DeploymentPhase_RESOURCE_PROVISIONING},
	string(v1alpha1.PhaseDeleting): {oaasruntime.DeploymentCondition_DELETED, oaasruntime.DeploymentPhase_DEPLOYMENT_PHASE_UNKNOWN},
	found:                          {oaasruntime.DeploymentCondition_RUNNING, oaasruntime.DeploymentPhase_DEPLOYMENT_PHASE_UNKNOWN},
}

// toWire writes what a status shows of a record: what all revisions decode, and the environment under the number that the
// record's client uses. The number is unknown for a client whose revision is not known.
func toWire(r *record) *tolerantv1.Deployment {
	out := toRecord(r)
	switch revisionOf(r) {
	case revisionPlan:
		out.PlanTargetEnv = r.Spec.TargetEnvironment
	case revisionHead:
		out.HeadTargetEnv = r.Spec.TargetEnvironment
	}
	return out
}

// toRecord writes what all revisions have under the same number and with the same type.
func toRecord(r *record) *tolerantv1.Deployment {
	u := &r.Spec.DeploymentUnit
	return &tolerantv1.Deployment{
		Id: idOf(r), PackageName: u.PackageName, ClassKey: u.ClassKey, CreatedAt: timestamp(createdAt(r).Time),
	}
}

func timestamp(t time.Time) *oaascommon.Timestamp {
	return &oaascommon.Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())} //nolint:gosec // below a billion
}

func references(r *record) []*oaascommon.ResourceReference {
	var out []*oaascommon.ResourceReference
	for i := range r.Status.ResourceRefs {
		ref := &r.Status.ResourceRefs[i]
		out = append(out, &oaascommon.ResourceReference{
			Kind: ref.Kind, Name: ref.Name, Namespace: new(r.Namespace),
			Uid: optional(ref.UID),
		})
	}
	return out
}

// toSummary writes a record as lists show it.
func toSummary(r *record) *oaasruntime.ClassRuntimeSummary {
	u, is := &r.Spec.DeploymentUnit, enums[state(r)]
	updated := server.RFC3339(new(lastChange(r)))
	out := &oaasruntime.ClassRuntimeSummary{
		Id: idOf(r), DeploymentUnitId: u.ID, PackageName: u.PackageName, ClassKey: u.ClassKey,
		TargetEnvironment: r.Spec.TargetEnvironment, ClusterName: optional(u.TargetCluster),
		Status: &oaasruntime.ClassRuntimeStatus{
			Condition: cmp.Or(is.condition, oaasruntime.DeploymentCondition_PENDING), Phase: is.phase,
			Message: new(summary(r)), LastUpdated: updated,
		},
		ResourceRefs: references(r), CreatedAt: server.RFC3339(&r.CreationTimestamp), UpdatedAt: updated, PartitionCount: 1,
	}
	if c := r.Spec.ODGMConfig; c != nil && c.PartitionCount != nil {
		out.PartitionCount = uint32(*c.PartitionCount) //nolint:gosec // the CRD has it above 0
	}
	for i := range r.Status.Functions {
		out.Status.Functions = append(out.Status.Functions, toFunction(&r.Status.Functions[i], r.Status.Template))
	}
	out.NfrCompliance = compliance(r)
	return out
}

// accepted writes a record that was just stored. One that the controller has not observed is being deployed.
func accepted(r *record) *oaasruntime.ClassRuntimeSummary {
	out := toSummary(r)
	if r.Status.ObservedGeneration != r.Generation {
		is := enums[v1alpha1.ConditionProgressing]
		out.Status.Condition, out.Status.Phase, out.Status.Message = is.condition, is.phase, new(v1alpha1.ConditionProgressing)
	}
	return out
}

// compliance writes whether a record meets its requirements, nil before they are measured.
func compliance(r *record) *oaasruntime.NfrCompliance {
	c := r.Status.NFRCompliance
	if c == nil {
		return nil
	}
	return &oaasruntime.NfrCompliance{
		OverallStatus: string(c.Overall), ThroughputStatus: optional(string(c.Throughput)), LatencyStatus: optional(string(c.Latency)),
		AvailabilityStatus: optional(string(c.Availability)), LastChecked: server.RFC3339(c.LastChecked),
	}
}

// recommendations writes those of the last measurement.
func recommendations(r *record) []*oaasdeployment.NfrRecommendation {
	var out []*oaasdeployment.NfrRecommendation
	for i := range r.Status.NFRRecommendations {
		n := &r.Status.NFRRecommendations[i]
		out = append(out, &oaasdeployment.NfrRecommendation{
			Component: n.Component, Dimension: string(n.Dimension), Target: n.Target, Basis: n.Basis,
			ConfidencePercent: n.ConfidencePercent,
		})
	}
	return out
}

func toFunction(f *v1alpha1.FunctionStatus, template string) *oaasruntime.FunctionStatus {
	out := &oaasruntime.FunctionStatus{
		FunctionKey: f.FunctionKey, Service: f.Service, Port: uint32(f.Port), //nolint:gosec // the CRD has it above 0
		PredictedUrl: f.URL, Template: template, Ready: new(f.Ready),
		Reason: optional(f.Reason), Message: optional(f.Message), LastTransitionTime: optional(server.RFC3339(f.LastTransitionTime)),
	}
	if f.Ready {
		out.ObservedUrl = optional(f.URL)
	}
	return out
}

// lastChange is when anything of a status last changed its state.
func lastChange(r *record) metav1.Time {
	last := r.CreationTimestamp
	later := func(t *metav1.Time) {
		if t != nil && last.Before(t) {
			last = *t
		}
	}
	for i := range r.Status.Conditions {
		later(&r.Status.Conditions[i].LastTransitionTime)
	}
	for i := range r.Status.Functions {
		later(r.Status.Functions[i].LastTransitionTime)
	}
	return last
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
