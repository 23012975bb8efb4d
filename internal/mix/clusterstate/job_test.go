// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

func once(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

func rules(rules ...batchv1.PodFailurePolicyRule) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: rules}
}

var (
	ignoreDisruptions = batchv1.PodFailurePolicyRule{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}
	failOnExitCode = batchv1.PodFailurePolicyRule{
		Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Values: []int32{143}},
	}
	ignoreExitCode = batchv1.PodFailurePolicyRule{
		Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Values: []int32{1}},
	}
)

func TestJobPodsCountAsFailedUnlessTheJobOptsIn(t *testing.T) {
	tests := map[string]struct {
		optIn  string
		policy *batchv1.PodFailurePolicy
		want   bool
	}{
		"by default":                  {want: true},
		"opted in without a policy":   {optIn: "true", want: true},
		"a policy without the opt-in": {policy: rules(ignoreDisruptions), want: true},
		"both":                        {optIn: "true", policy: rules(ignoreDisruptions), want: false},
		"another value":               {optIn: "yes", policy: rules(ignoreDisruptions), want: true},
		"a rule before that fails the Job by exit code": {optIn: "true", policy: rules(failOnExitCode, ignoreDisruptions), want: true},
		"a rule before that ignores an exit code":       {optIn: "true", policy: rules(ignoreExitCode, ignoreDisruptions), want: false},
		"a policy that ignores only an exit code":       {optIn: "true", policy: rules(ignoreExitCode), want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := job("j")
			j.Annotations = map[string]string{v1alpha1.EvictJobPodsAnnotation: test.optIn}
			j.Spec.PodFailurePolicy = test.policy
			f := fill(newClusterState(), j, podNamed("a", ownedBy("batch/v1", "Job", "j", "uid-j"), once))
			assert.Equal(t, test.want, one(t, f).CountsFailures)
		})
	}
}

func TestPodsThatRunOnceCountAsFailedWhateverTheirOwner(t *testing.T) {
	f := fill(newClusterState(), podNamed("a", ownedBy("example.com/v1", "SparkApplication", "s", "uid-s"), once))
	assert.True(t, one(t, f).CountsFailures)
	f = fill(newClusterState(), podNamed("a", ownedBy("apps.kruise.io/v1alpha1", "CloneSet", "c", "uid-c")))
	assert.False(t, one(t, f).CountsFailures)
}

func TestAnOwnerThatMakesNoMorePodsHasEnded(t *testing.T) {
	key := governing.GroupKey{Namespace: namespaceName, ID: "uid-j"}
	condition := func(c batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: c, Status: corev1.ConditionTrue}}
		}
	}
	for name, change := range map[string]func(*batchv1.Job){
		"complete":      condition(batchv1.JobComplete),
		"failed":        condition(batchv1.JobFailed),
		"about to fail": condition(batchv1.JobFailureTarget),
		"about to end":  condition(batchv1.JobSuccessCriteriaMet),
		"suspended":     func(j *batchv1.Job) { j.Spec.Suspend = new(true) },
		"being deleted": func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{} },
	} {
		t.Run(name, func(t *testing.T) {
			j := job("j")
			f := fill(newClusterState(), j, podNamed("a", ownedBy("batch/v1", "Job", "j", "uid-j"), once))
			assert.False(t, one(t, f).Ended)
			assert.True(t, f.Follows(key))
			changed := job("j")
			change(changed)
			f.SetOwner(changed)
			assert.True(t, one(t, f).Ended)
			assert.False(t, f.Follows(key), "its moves end at once")
		})
	}
}

func TestTheReplicasOfAJobThatToleratesEvictions(t *testing.T) {
	j := job("j")
	j.Annotations = map[string]string{v1alpha1.EvictJobPodsAnnotation: "true"}
	j.Spec.PodFailurePolicy, j.Spec.Parallelism, j.Spec.Completions = rules(ignoreDisruptions), new(int32(8)), new(int32(10))
	j.Status.Succeeded = 3
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"x"}}
	g := one(t, fill(newClusterState(), j, podNamed("a", ownedBy("batch/v1", "Job", "j", "uid-j"), once)))
	assert.True(t, g.Counted)
	assert.Equal(t, 6, g.Replicas)
}

func TestTheNodeOfATemplateIsRead(t *testing.T) {
	rs := replicaSet("rs", 1)
	rs.Spec.Template.Spec.NodeName = "o"
	assert.Equal(t, "o", one(t, fill(newClusterState(), rs, podNamed("a", owned(rs)))).FixedNode)
}
