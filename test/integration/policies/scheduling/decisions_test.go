// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestADecisionIsRecordedAndServed(t *testing.T) {
	w := testenv.New(t, six()...)
	s := start(w)
	w.Create(builders.SchedulingPolicy("all", preset(v1alpha1.ScorePresetPack), records(v1alpha1.RecordAlways)), builders.Pod("web", "web-0"))
	pod := w.WaitBound("web", 1)[0]

	got := s.records("web-0", decision.Bound)
	require.Len(t, got, 1)
	assert.Equal(t, pod.Spec.NodeName, got[0].Node)
	assert.Equal(t, pod.UID, got[0].UID)
	assert.Equal(t, 6, got[0].Feasible)
	require.Len(t, got[0].Candidates, 5)
	assert.Equal(t, pod.Spec.NodeName, got[0].Candidates[0].Node)
	w.WaitEvent("web-0", "it is bound", func(e *corev1.Event) bool {
		return e.Reason == v1alpha1.EventReasonBindSuccess && e.Message == "Decision "+got[0].ID+": bound to node "+pod.Spec.NodeName
	})
}

// Every reason of a pod that waits is recorded by its class, with an example.
func TestAFailureIsRecordedByDefault(t *testing.T) {
	nodes := six()[:3]
	nodes[0].CPU = "1"
	nodes[1].Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	nodes[2].Labels = map[string]string{"arch": "arm64"}
	w := testenv.New(t, nodes...)
	s := start(w)
	w.Create(builders.SchedulingPolicy("all"), builders.Pod("web", "web-0", builders.CPU("2"),
		builders.RequireNodeLabel("arch", corev1.NodeSelectorOpDoesNotExist)))
	w.WaitUnschedulable("web", 1)
	got := s.records("web-0", decision.Unschedulable)
	reasons := map[decision.Reason]decision.Rejection{}
	for _, r := range got[0].Rejections {
		reasons[r.Reason] = r
		assert.Equal(t, 1, r.Nodes)
	}
	require.Len(t, reasons, 3)
	assert.Equal(t, nodes[0].Name, reasons[decision.InsufficientCPU].Example)
	assert.Equal(t, "dedicated", reasons[decision.TaintWithoutToleration].Key)
	assert.Equal(t, nodes[2].Name, reasons[decision.NodeAffinityMismatch].Example)
	assert.Contains(t, got[0].Message, "0/3 nodes are available")
}

// Records show which nodes a cluster has and how full they are, so they are served to those who may get the pod.
func TestRecordsAreServedToThoseWhoMayGetThePod(t *testing.T) {
	w := testenv.New(t, six()...)
	s := start(w)
	w.Create(builders.SchedulingPolicy("all", records(v1alpha1.RecordAlways)), builders.Pod("web", "web-0"))
	w.WaitBound("web", 1)

	code, body := s.get(w.Namespace, "web-0", "")
	assert.Equal(t, http.StatusUnauthorized, code, body)
	code, body = s.get(w.Namespace, "web-0", "not-a-token")
	assert.Equal(t, http.StatusUnauthorized, code, body)
	code, body = s.get(w.Namespace, "web-0", w.Token("default"))
	assert.Equal(t, http.StatusForbidden, code, body)
	assert.Contains(t, body, w.Namespace)
	assert.NotContains(t, body, "node-")
	_, unknown := s.get(w.Namespace, "web-1", w.Token("default"))
	assert.NotContains(t, unknown, "no record", "an answer without the right to get the pod does not show whether it has a record")

	s.records("web-0", decision.Bound)
	code, body = s.get("kube-system", "web-0", w.Token("default"))
	assert.Equal(t, http.StatusForbidden, code, body)
	code, body = s.get(w.Namespace, "web-1", w.Token("default"))
	assert.Equal(t, http.StatusNotFound, code, body)
}

// The command reads the records of the scheduler as the user of the kubeconfig.
func TestExplainShowsTheScores(t *testing.T) {
	w := testenv.New(t, six()...)
	s := start(w)
	bin := t.TempDir()
	w.BuildCLI(bin)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	w.Create(builders.SchedulingPolicy("all", preset(v1alpha1.ScorePresetPack), records(v1alpha1.RecordAlways)), builders.Pod("web", "web-0"))
	node := w.WaitBound("web", 1)[0].Spec.NodeName
	s.records("web-0", decision.Bound)
	out := string(w.Tool("kubectl", "berth", "explain", "web-0", "-n", w.Namespace, "--scores", "--scheduler-address", s.address))
	t.Log(out)
	for _, want := range []string{"Bound", "all", "LeastLoaded", "Binpacking*1", node} {
		assert.Contains(t, out, want)
	}
	_, err := w.TryTool("kubectl", "berth", "explain", "web-0", "-n", w.Namespace, "--scores")
	assert.ErrorContains(t, err, "no berth-scheduler leads", "the scheduler of this test needs no lease")
}

// The last record of a pod is an object where the policy requests it: without the scheduler, for as long as its pod, and no longer
// than its time.
func TestADecisionIsKeptAsAnObject(t *testing.T) {
	w := testenv.New(t, six()...)
	expired := builders.SchedulingDecision("old-0", time.Now().Add(-time.Minute))
	w.Create(expired)
	s := start(w)
	w.Create(builders.SchedulingPolicy("all", preset(v1alpha1.ScorePresetSpread), records(v1alpha1.RecordAlways), func(s *v1alpha1.SchedulingPolicySpec) {
		s.Decisions.Objects = true
	}), builders.Pod("web", "web-0"), builders.Pod("big", "big-0", builders.CPU("64")))
	pod := w.WaitBound("web", 1)[0]
	served := s.records("web-0", decision.Bound)[0]
	o := decided(w, "web-0", v1alpha1.AttemptBound)
	kept := decision.FromObject(o)
	assert.Equal(t, served.ID, kept.ID)
	assert.Equal(t, served.Candidates, kept.Candidates)
	assert.Equal(t, pod.UID, kept.UID)
	assert.InDelta(t, time.Hour.Seconds(), time.Until(o.ExpirationTime.Time).Seconds(), 120)
	assert.Equal(t, string(decision.InsufficientCPU), decided(w, "big-0", v1alpha1.AttemptUnschedulable).Attempt.Rejections[0].Reason)
	assert.Regexp(t, `NAME +OUTCOME +NODE +SCORE +FEASIBLE +POLICY +AGE(.|\n)*web-0 +Bound +`+pod.Spec.NodeName+` +[0-9.]+ +6 +all `,
		string(w.Tool("kubectl", "get", "sdec", "-n", w.Namespace)))
	w.WaitDeleted(expired)

	bin := t.TempDir()
	w.BuildCLI(bin)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out := string(w.Tool("kubectl", "berth", "explain", "web-0", "-n", w.Namespace, "--scores", "--scheduler-address", w.FreeAddress()))
	assert.Contains(t, out, served.ID, "without the scheduler")

	w.Delete(&pod)
	w.WaitDeleted(o)
}

// decided waits for the object of a pod with an outcome.
func decided(w *testenv.World, pod string, outcome v1alpha1.AttemptOutcome) *v1alpha1.SchedulingDecision {
	w.T.Helper()
	return testenv.WaitFor(w, pod, "its decision is written", func(o *v1alpha1.SchedulingDecision) bool { return o.Attempt.Outcome == outcome })
}
