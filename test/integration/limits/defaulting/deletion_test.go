// SPDX-License-Identifier: Apache-2.0

package defaulting_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Its guard.
func TestALimitInUseIsNotDeleted(t *testing.T) {
	w := guarded(t)
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")), builders.ResourceLimit("spare", figures("1", "1Gi")))
	waitLimit(w, "size", "it is not in use", used(v1alpha1.ReasonNotReferenced))
	assert.Equal(t, []string{v1alpha1.ResourceLimitFinalizer}, get(w, "size").Finalizers)
	web := builders.Deployment("web", 3, sized("size"))
	w.Create(web)
	l := waitLimit(w, "size", "three pods of web have it", func(l *v1alpha1.ResourceLimit) bool {
		return l.Status.PodCount == 3 && l.Status.WorkloadCount == 1 && inUse(l, v1alpha1.ReasonReferenced)
	})
	assert.Equal(t, []v1alpha1.WorkloadReference{{Kind: "Deployment", Namespace: w.Namespace, Name: "web"}}, l.Status.Workloads)

	w.Delete(get(w, "size"))
	w.Delete(get(w, "spare"))
	waitGone(w, "spare") // it is not in use
	waitLimit(w, "size", "its deletion waits", func(l *v1alpha1.ResourceLimit) bool {
		c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionInUse)
		return inUse(l, v1alpha1.ReasonDeletionBlocked) && strings.Contains(c.Message, "3 pods of Deployment "+w.Namespace+"/web")
	})
	eventSays(w, "size", v1alpha1.EventReasonDeletionBlocked, "Deployment "+w.Namespace+"/web", v1alpha1.ForceDeleteAnnotation)
	w.Always(testenv.Short, "the limit is kept", func() (bool, string) { return get(w, "size") != nil, "" })

	w.Delete(web, client.PropagationPolicy(metav1.DeletePropagationForeground))
	waitGone(w, "size") // the last reference releases it
}

func TestADeletionCanBeForced(t *testing.T) {
	w := guarded(t)
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")), builders.Deployment("web", 2, sized("size")))
	waitLimit(w, "size", "it is in use", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 2 })
	w.Delete(get(w, "size"))
	waitLimit(w, "size", "its deletion waits", used(v1alpha1.ReasonDeletionBlocked))
	force := func(value string) {
		changeLimit(w, "size", func(l *v1alpha1.ResourceLimit) {
			metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.ForceDeleteAnnotation, value)
		})
	}
	force("false")
	w.Always(testenv.Short, "only true forces", func() (bool, string) { return get(w, "size") != nil, "" })
	force("true")
	waitGone(w, "size")
	eventSays(w, "size", v1alpha1.EventReasonDeletionForced, "Deployment "+w.Namespace+"/web")
	w.WaitReady("web", 2) // its pods run on
}

// A template counts although it has no pod at present.
func TestALimitOfAWorkloadWithoutPodsIsInUse(t *testing.T) {
	w := guarded(t)
	annotated := builders.PodAnnotation(v1alpha1.ResourceLimitLabel, "size")
	set := builders.StatefulSet("set", 0, appsv1.ParallelPodManagement, sized("size"))
	daemons := builders.DaemonSet("daemons", sized("size"), builders.OnNodesWith("no", "node"))
	job := builders.Job("job", 1, batchv1.NonIndexedCompletion, sized("size"))
	job.Spec.Suspend = new(true)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job.Spec.Template}},
	}}
	rs := builders.ReplicaSet("alone", 0, sized("size"))
	all := []client.Object{builders.Deployment("web", 0, annotated), set, daemons, job, cron, rs}
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")))
	w.Create(all...)
	want := []string{"CronJob/cron", "DaemonSet/daemons", "Deployment/web", "Job/job", "ReplicaSet/alone", "StatefulSet/set"}
	waitLimit(w, "size", "all six have it", func(l *v1alpha1.ResourceLimit) bool { return l.Status.WorkloadCount == 6 })
	assert.Equal(t, want, names(get(w, "size")))
	assert.Zero(t, get(w, "size").Status.PodCount)
	w.Delete(get(w, "size"))
	waitLimit(w, "size", "its deletion waits", used(v1alpha1.ReasonDeletionBlocked))
	testenv.Patch(w, all[0].(*appsv1.Deployment), func(d *appsv1.Deployment) { delete(d.Spec.Template.Annotations, v1alpha1.ResourceLimitLabel) })
	waitLimit(w, "size", "web does not name it any more", func(l *v1alpha1.ResourceLimit) bool { return l.Status.WorkloadCount == 5 })
	for _, o := range all[1:] {
		w.Delete(o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
	waitGone(w, "size")
}

func TestPodsAreCountedForTheWorkloadAtTheTop(t *testing.T) {
	w := guarded(t)
	w.Create(builders.ResourceLimit("size", func(s *v1alpha1.ResourceLimitSpec) {
		s.Selector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: v1alpha1.PodSelectorOpExists}}}
	}))
	w.Create(builders.Deployment("web", 2), builders.StatefulSet("db", 2, appsv1.ParallelPodManagement), builders.Pod("bare", "bare"), builders.Pod("done", "done"), builders.DaemonSet("daemons"))
	l := waitLimit(w, "size", "seven pods have it", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 7 })
	assert.Equal(t, []string{"DaemonSet/daemons", "Deployment/web", "Pod/bare", "Pod/done", "StatefulSet/db"}, names(l))
	waitNode(w, "done")
	w.Succeeds("a pod is finished", func() error { return w.SetPhase("done", corev1.PodSucceeded) })
	waitLimit(w, "size", "a finished pod does not count", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 6 && l.Status.WorkloadCount == 3 })
}

// A limit that was stored before a rule was added is not kept indefinitely.
func TestALimitThatIsNotValidCanBeDeleted(t *testing.T) {
	w := testenv.New(t, fast())
	w.CreateInvalid("resourcelimits", builders.ResourceLimit("bad", builders.SizeRequires(disk, v1alpha1.NodeOpGt, "many"),
		func(s *v1alpha1.ResourceLimitSpec) { s.CPU = quantity("-1") }))
	w.Controller(testenv.Impatient)
	waitLimit(w, "bad", "it reports it", func(l *v1alpha1.ResourceLimit) bool {
		c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAccepted)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonInvalid && strings.Contains(c.Message, "matchExpressions[0]")
	})
	w.Delete(get(w, "bad"))
	waitGone(w, "bad")
}

func TestAnOlderLimitThatSelectsTheSamePodsIsReported(t *testing.T) {
	w := guarded(t)
	selects := builders.SizeSelects("web")
	w.Create(builders.ResourceLimit("a-older", selects), builders.Deployment("web", 1))
	waitLimit(w, "a-older", "it has the pod", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 1 })
	w.Create(builders.ResourceLimit("b-younger", selects))
	accepted := func(l *v1alpha1.ResourceLimit, reason string) bool {
		return conditionIs(l, v1alpha1.ConditionAccepted, reason, reason == v1alpha1.ReasonAccepted)
	}
	l := waitLimit(w, "b-younger", "an older one has its pods", func(l *v1alpha1.ResourceLimit) bool { return accepted(l, v1alpha1.ReasonConflict) })
	assert.Contains(t, meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAccepted).Message, "a-older")
	assert.True(t, accepted(get(w, "a-older"), v1alpha1.ReasonAccepted))
	changeLimit(w, "a-older", func(l *v1alpha1.ResourceLimit) { l.Spec.Selector = nil })
	waitLimit(w, "b-younger", "it has the pods now", func(l *v1alpha1.ResourceLimit) bool {
		return accepted(l, v1alpha1.ReasonAccepted) && l.Status.PodCount == 1
	})
}

// limitWrites are the writes of the controller to the test's limits.
func limitWrites(w *testenv.World) []testenv.Request {
	return w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthControllerUser && strings.HasPrefix(r.Resource, "resourcelimits") && r.Write()
	})
}

func TestARestartLeavesStatusesAlone(t *testing.T) {
	w := testenv.New(t, fast())
	c := w.Controller(testenv.Impatient)
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")), builders.ResourceLimit("idle"), builders.Deployment("web", 3, sized("size")), builders.Deployment("off", 0, sized("size")))
	l := waitLimit(w, "size", "it is in use", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 3 && l.Status.WorkloadCount == 2 })
	waitLimit(w, "idle", "it is not", used(v1alpha1.ReasonNotReferenced))
	w.Always(testenv.Short, "all is written", func() (bool, string) { return true, "" })
	before := len(limitWrites(w))
	require.Positive(t, before)
	testenv.End(c, false)
	w.Controller(testenv.Impatient)
	w.Always(testenv.Holds, "nothing is written", func() (bool, string) {
		now := limitWrites(w)
		return len(now) == before, fmt.Sprint(now[before:], l.Status, get(w, "size").Status)
	})
	assert.Equal(t, l.ResourceVersion, get(w, "size").ResourceVersion)
}

// A burst of changes costs a write a second at most. Writes are counted over all
// of the burst: on their way to the API server two may come closer together.
func TestStatusWritesAreBounded(t *testing.T) {
	w := guarded(t)
	w.Create(builders.ResourceLimit("size"))
	waitLimit(w, "size", "it is reconciled", func(l *v1alpha1.ResourceLimit) bool { return true })
	before, began := len(limitWrites(w)), time.Now()
	for i := range 60 {
		w.Create(bare(fmt.Sprintf("web-%d", i), "size"))
	}
	waitLimit(w, "size", "all have it", func(l *v1alpha1.ResourceLimit) bool { return l.Status.PodCount == 60 })
	w.Reaches("writes in the audit log", before+1, func() int { return len(limitWrites(w)) })
	assert.LessOrEqual(t, len(limitWrites(w))-before, 2+int(time.Since(began).Seconds()), "in %s", time.Since(began))
}
