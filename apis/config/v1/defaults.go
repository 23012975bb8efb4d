// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	defaultAnnotationPrefix   = "berth.dev"
	defaultLockNamespace      = "berth-system"
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
	if args.SpreadSpotOver == nil {
		args.SpreadSpotOver = []string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}
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

// SetDefaults_ResourceLimitArgs sets the defaults of the ResourceLimit plugin's arguments.
func SetDefaults_ResourceLimitArgs(args *ResourceLimitArgs) {
	if args.SyncTimeoutSeconds == nil {
		args.SyncTimeoutSeconds = ptr.To[int32](defaultSyncTimeoutSeconds)
	}
}

// SetDefaults_SchedulingPolicyArgs sets the defaults of the SchedulingPolicy plugin's arguments.
func SetDefaults_SchedulingPolicyArgs(args *SchedulingPolicyArgs) {
	if args.LockNamespace == "" {
		args.LockNamespace = defaultLockNamespace
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
