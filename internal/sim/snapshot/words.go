// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

// words keep their meaning in an anonymised snapshot: values of enums, kinds, and names that each cluster has. Manifests of the CRDs have
// those of Berth, and a test compares them.
var words = sets.New(strings.Fields(`
	In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute
	DoNotSchedule ScheduleAnyway Honor Ignore True False Unknown true false enabled disabled
	Pending Running Succeeded Failed Ready PodScheduled DisruptionTarget PodResizePending PodResizeInProgress
	Unschedulable SchedulingGated PodCompleted PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI DeletionByPodGC
	TerminationByKubelet ContainersNotReady Deferred Infeasible
	MemoryPressure DiskPressure PIDPressure NetworkUnavailable KubeletReady KubeletNotReady NodeStatusUnknown NodeStatusNeverUpdated
	KubeletHasSufficientMemory KubeletHasNoDiskPressure KubeletHasSufficientPID
	Always OnFailure Never TCP UDP SCTP PreemptLowerPriority Memory HugePages
	RollingUpdate Recreate OnDelete OrderedReady Parallel NonIndexed Indexed
	Complete Suspended FailureTarget SuccessCriteriaMet CompletionsReached BackoffLimitExceeded
	FailJob FailIndex Count IfHealthyBudget AlwaysAllow
	v1 apps/v1 batch/v1 leaderworkerset.x-k8s.io/v1 jobset.x-k8s.io/v1alpha2 argoproj.io/v1alpha1
	Pod Node ReplicaSet Deployment StatefulSet DaemonSet Job CronJob ReplicationController LeaderWorkerSet JobSet Rollout CapacityMix
	cpu memory ephemeral-storage storage pods
	nvidia.com/gpu amd.com/gpu gpu.intel.com/i915 habana.ai/gaudi aws.amazon.com/neuron google.com/tpu
	default kube-system kube-public kube-node-lease berth-system default-scheduler berth-scheduler
	system-node-critical system-cluster-critical metadata.name image kwok:// 0.0.0.0 127.0.0.1 ::
	spot on-demand reserved unknown Controller Top Selector Label SchedulingGroup NoLeader NoMix NoLabel Pinned
	berth.dev/capacity-mix berth.dev/never-ready berth.dev/surge berth.dev/rebalance
	OnDemand Wait Spot Report Enforce Off Placeholder Evict Surge SurgeOrEvict Order Respect None
	Balanced Spread Pack Locality Cost ResourceBalance Spreading Binpacking PreferredAffinity AntiAffinity TopologySpread
	Default High Low Name Random LeastLoaded RoundRobin WeightedRandom AffinityBased Optimistic Pessimistic TwoPhase
	Reserved Released Expired Used UncordonAfterReboot
	MON TUE WED THU FRI SAT SUN JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC yearly monthly weekly daily hourly
`)...)

// nodeLabels are the keys of labels and taints of nodes that say the same in each cluster. Their values are kept, too.
var nodeLabels = sets.New(slices.Concat(withDomain(capacity.NodeKeys()), []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	"topology.k8s.aws/zone-id",
	corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelArchStable, corev1.LabelOSStable, "beta.kubernetes.io/arch",
	"beta.kubernetes.io/os", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "cloud.google.com/machine-family",
	corev1.TaintNodeMemoryPressure,
})...)

// nodeLabelPrefixes are those of labels by which Karpenter describes instance types.
var nodeLabelPrefixes = []string{"karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-", "karpenter.k8s.gcp/instance-", "eks.amazonaws.com/instance-"}

// keys are the keys of labels that say the same in each cluster, and have names of the cluster as values.
var keys = sets.New(slices.Concat(capacity.NodeKeys(), capacity.PoolLabels(), []string{
	corev1.LabelHostname, corev1.LabelMetadataName, "metadata.name",
	"topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3",
	"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/part-of",
	appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, "rollouts-pod-template-hash", "pod-template-generation",
	appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid",
	batchv1.JobCompletionIndexAnnotation,
	"leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/group-index",
	"leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/template-revision-hash",
	"jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index",
	"jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/replicatedjob-name",
	"kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/podset",
	v1alpha1.PlaceholderLabel, v1alpha1.FloorLabel, v1alpha1.ResourceLimitLabel, v1alpha1.InjectLabel, v1alpha1.BindGroupLabel,
	governing.PrefixSpotalis + "/enabled",
})...)

// numbered are labels whose values are numbers that decisions read.
var numbered = sets.New(appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation, "leaderworkerset.sigs.k8s.io/group-index",
	"leaderworkerset.sigs.k8s.io/worker-index", "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index",
	"jobset.sigs.k8s.io/restart-attempt")

// ruleValues are the values of labels by which rules determine a capacity type.
var ruleValues = func() map[string]sets.Set[string] {
	all := map[string]sets.Set[string]{}
	for _, r := range capacity.DefaultRules() {
		if all[r.Key] == nil {
			all[r.Key] = sets.New[string]()
		}
		all[r.Key].Insert(r.Values...)
	}
	return all
}()

// withDomain returns the keys with the domain of those who define them, without those whose value is the name of a pool or a cluster: a
// label such as lifecycle may have any meaning.
func withDomain(all []string) (some []string) {
	for _, key := range all {
		required := slices.ContainsFunc(capacity.DefaultRules(), func(r capacity.Rule) bool { return r.Requires == key })
		if strings.Contains(key, "/") && !required && !anyValue(key) {
			some = append(some, key)
		}
	}
	return some
}

// anyValue reports whether only the presence of a taint counts: its value may be the ID of an event, or a text.
func anyValue(key string) bool {
	return strings.HasPrefix(key, "aws-node-termination-handler/") || key == corev1.TaintNodeOutOfService
}

// keepsValues reports whether a label of nodes keeps its values.
func keepsValues(key string) bool {
	return nodeLabels.Has(key) || slices.ContainsFunc(nodeLabelPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// isWord reports whether a text is no text of a user.
func isWord(s string) bool {
	return words.Has(s) || keys.Has(s) || keepsValues(s) || isLargePages(s)
}

// isLargePages reports whether a text is the name of a resource that consists of large pages.
func isLargePages(s string) bool {
	size, ok := strings.CutPrefix(s, corev1.ResourceHugePagesPrefix)
	_, err := budget.ParseQuantity(size)
	return ok && err == nil
}
