// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	defaultAnnotationPrefix = "berth.dev"
	// defaultNamespace is that of Berth.
	defaultNamespace          = "berth-system"
	defaultNodeSampleSize     = 32
	defaultSyncTimeoutSeconds = 60
)

// SetDefaults_CapacityMixArgs sets the defaults of the CapacityMix plugin's arguments. Validation rejects empty lists:
// a user who sets one does not expect the default.
func SetDefaults_CapacityMixArgs(args *CapacityMixArgs) {
	if args.BuiltinNodeRules == "" {
		args.BuiltinNodeRules = BuiltinNodeRulesAppend
	}
	if args.AnnotationPrefixes == nil {
		args.AnnotationPrefixes = []string{defaultAnnotationPrefix}
	}
	if args.OnePodKinds == nil {
		args.OnePodKinds = defaultOnePodKinds()
	}
	if args.SpreadSpotOver == nil {
		args.SpreadSpotOver = []string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}
	}
	if args.InterruptionsNamespace == "" {
		args.InterruptionsNamespace = defaultNamespace
	}
	if args.NodeSampleSize == nil {
		args.NodeSampleSize = ptr.To[int32](defaultNodeSampleSize)
	}
	if args.RankSampleBy == "" {
		args.RankSampleBy = RankSampleByLeastAllocated
	}
	if args.SyncTimeoutSeconds == nil {
		args.SyncTimeoutSeconds = ptr.To[int32](defaultSyncTimeoutSeconds)
	}
}

// defaultOnePodKinds are kinds of which a set makes many objects with one pod each. Sources, read on 2026-11-29:
//   - EphemeralRunner: the controller copies the label from its set to the pod (actions-runner-controller v0.27.6, and its main branch).
//   - TaskRun: the label names the Pipeline, or the PipelineRun if that has no reference to one. A TaskRun of no PipelineRun has none
//     (tektoncd/pipeline v1.9.0).
//   - GameServer: Agones sets the label on GameServers and not on their pods (googleforgames/agones, main branch).
//   - VirtualMachineInstance: KubeVirt sets no label of the pool or replica set; its examples have this one (kubevirt v1.7.0).
//
// The pods of the last two have the label only if the template in their set has it.
func defaultOnePodKinds() []OnePodKind {
	return []OnePodKind{
		{APIGroup: "actions.github.com", Kind: "EphemeralRunner", SetLabel: "actions.github.com/scale-set-name"},
		{APIGroup: "tekton.dev", Kind: "TaskRun", SetLabel: "tekton.dev/pipeline"},
		{APIGroup: "agones.dev", Kind: "GameServer", SetLabel: "agones.dev/fleet"},
		{APIGroup: "kubevirt.io", Kind: "VirtualMachineInstance", SetLabel: "kubevirt.io/vmpool"},
	}
}

// SetDefaults_ResourceLimitArgs sets the defaults of the ResourceLimit plugin's arguments.
func SetDefaults_ResourceLimitArgs(args *ResourceLimitArgs) {
	if args.SyncTimeoutSeconds == nil {
		args.SyncTimeoutSeconds = ptr.To[int32](defaultSyncTimeoutSeconds)
	}
}

// SetDefaults_SchedulingPolicyArgs sets the defaults of the SchedulingPolicy plugin's arguments.
func SetDefaults_SchedulingPolicyArgs(args *SchedulingPolicyArgs) {
	if args.LockNamespace == "" {
		args.LockNamespace = defaultNamespace
	}
	if args.SyncTimeoutSeconds == nil {
		args.SyncTimeoutSeconds = ptr.To[int32](defaultSyncTimeoutSeconds)
	}
}

// SetDefaults_MixSpec sets the defaults of a mix. spotPercent has none.
func SetDefaults_MixSpec(mix *MixSpec) {
	if mix.MinOnDemand == nil {
		mix.MinOnDemand = ptr.To[int32](0)
	}
	if mix.WhenSpotUnavailable == "" {
		mix.WhenSpotUnavailable = WhenSpotUnavailableOnDemand
	}
	if mix.WhenOnDemandUnavailable == "" {
		mix.WhenOnDemandUnavailable = WhenOnDemandUnavailableWait
	}
}
