// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/plan"
)

func TestStatus(t *testing.T) {
	c := oneOfEach().cluster(t)
	for name, output := range map[string]string{"status.txt": "table", "status-wide.txt": asWide, "status.json": asJSON, "status.yaml": asYAML} {
		o, out, errOut := screen(output)
		require.NoError(t, o.showStatus(statusOf(c, ""), "shop"))
		golden(t, name, out.String())
		if output == "table" {
			golden(t, "status.stderr", errOut.String())
		}
	}
	o, out, _ := screen("table")
	require.NoError(t, o.showStatus(statusOf(c, "web"), ""))
	golden(t, "status-mix-all-namespaces.txt", out.String())
	o, out, errOut := screen("table")
	require.NoError(t, o.showStatus(&Status{}, "empty"))
	assert.Empty(t, out.String())
	assert.Equal(t, "No mixes, and no workloads that a mix governs, found in namespace empty.\n", errOut.String())
}

func TestStatusWithoutThePodsSaysThatItDoesNotKnow(t *testing.T) {
	s := oneOfEach()
	s.pods = nil
	c := s.cluster(t)
	c.Problems = []live.Problem{{Resource: "pods"}}
	o, out, _ := screen("table")
	require.NoError(t, o.showStatus(statusOf(c, "web"), "shop"))
	assert.Contains(t, out.String(), "<unknown>")
	assert.NotContains(t, out.String(), "True")
}

func TestNodes(t *testing.T) {
	c := oneOfEach().cluster(t)
	for name, unknown := range map[string]bool{"nodes.txt": false, "nodes-unknown.txt": true} {
		o, out, _ := screen("table")
		require.NoError(t, o.showNodes(nodesOf(c, unknown)))
		golden(t, name, out.String())
	}
}

// explained returns the explanation of every pod, as text, with room for all.
func explained(t *testing.T, c *live.Cluster, event *corev1.Event) string {
	t.Helper()
	var text []string
	for _, pod := range c.Pods {
		e := &explainer{cluster: c, pod: pod, record: c.State.Pod(pod.Namespace, pod.Name), now: now}
		e.room = func() (plan.Room, func(), error) { return plan.Ample{}, func() {}, nil }
		if event != nil && event.InvolvedObject.Name == pod.Name {
			e.borrowed = event
		}
		out, err := e.explain(context.Background())
		require.NoError(t, err)
		text = append(text, strings.Join(out.sentences(now), "\n"))
		asJSON, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Contains(t, string(asJSON), `"governed":`)
	}
	return strings.Join(text, "\n\n") + "\n"
}

func TestExplain(t *testing.T) {
	s := oneOfEach()
	s.pods[2].Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	s.pods[1].Annotations[v1alpha1.PodDeletionCostAnnotation] = "500"
	s.pods[0].Annotations[v1alpha1.SpotPercentAnnotation] = "lots"
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: "api-7dd8c6474c-1"}, LastTimestamp: ago(20 * time.Minute), Message: "Scheduled on on-demand node o1: no spot capacity for slot 1"}
	golden(t, "explain.txt", explained(t, s.cluster(t), event))
}

// planned is the plan of mixes for a shop, with room for so many replacements.
func planned(t *testing.T, s *shop, room plan.Room, wanted ...*wantedMix) *Plan {
	t.Helper()
	c := s.cluster(t)
	was := before(c, wanted)
	var mixes []*v1alpha1.CapacityMix
	for _, w := range wanted {
		mixes = append(mixes, w.mix)
	}
	result, err := plan.Change(context.Background(), c, mixes, room, now)
	require.NoError(t, err)
	return planOf(was, c, wanted, result)
}

// changed is a mix of the shop with other values.
func changed(s *shop, name string, change func(*v1alpha1.CapacityMix)) *wantedMix {
	for _, m := range s.mixes {
		if m.Name == name {
			then := m.DeepCopy()
			change(then)
			return &wantedMix{mix: then, old: m}
		}
	}
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now)}}
	change(m)
	return &wantedMix{mix: m, unvalidated: "capacitymixes.berth.dev is forbidden"}
}

func show(t *testing.T, p *Plan) string {
	t.Helper()
	o, out, _ := screen("table")
	require.NoError(t, o.showPlan(p))
	return out.String()
}

func TestPlan(t *testing.T) {
	s := &shop{}
	s.node("s1", "spot")
	s.node("o1", "on-demand")
	s.mix("web", 70, 1)
	s.deployment("web", nil, "o1", "s1", "s1", "o1", "s1", "s1", "o1", "s1", "s1", "s1")
	s.pods[9].Annotations["karpenter.sh/do-not-disrupt"] = "true"
	golden(t, "plan-changed.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent, m.Spec.MinOnDemand = 20, 2 }))))

	s.budget("web", "web", 0)
	golden(t, "plan-blocked.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 }))))

	// A new mix for everything: what is governed already stays with the older one.
	s.deployment("free", nil, "s1", "s1")
	s.pods[10].Status.Conditions[0].Status = corev1.ConditionFalse
	golden(t, "plan-created.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "all", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 50 }))))

	// A selector that lets go.
	golden(t, "plan-let-go.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels["tier"] = "front" }))))
	golden(t, "plan-unchanged.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(*v1alpha1.CapacityMix) {}))))

	out, err := yaml.Marshal(planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 })))
	require.NoError(t, err)
	golden(t, "plan-blocked.yaml", string(out))
}

func TestDoctorOnWorkloads(t *testing.T) {
	s := oneOfEach()
	s.budget("a", "web", 1)
	s.budget("b", "web", 1)
	p := &patient{cluster: s.cluster(t), now: now}
	r := &Report{}
	for _, check := range []func(*Report){p.nodes, p.mixes, p.conflicts, p.bypasses, p.budgets, p.reports} {
		check(r)
	}
	o, out, _ := screen("table")
	require.NoError(t, o.showReport(r))
	golden(t, "doctor.txt", out.String())
	assert.True(t, r.failed())
}

func TestALeaseThatIsNotRenewedIsNoLeader(t *testing.T) {
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler"}}
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, new(metav1.NewMicroTime(now.Add(-renewed))), new(int32(15))
		return l
	}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		level Level
		says  string
	}{
		"held and fresh": {lease("a", 3*time.Second), OK, "a holds lease berth-system/berth-scheduler"},
		"not renewed":    {lease("a", time.Minute), Fail, "last renewed 60s ago"},
		"given up":       {lease("", time.Second), Fail, "no one holds lease"},
		"never held":     {nil, Fail, "there is no lease"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tc.lease != nil {
				kube = fake.NewClientset(tc.lease)
			}
			r := &Report{}
			(&patient{kube: kube, now: now}).lease(context.Background(), r, "scheduler", "berth-system", "berth-scheduler", Fail, "start it")
			require.Len(t, r.Findings, 1)
			assert.Equal(t, tc.level, r.Findings[0].Level)
			assert.Contains(t, r.Findings[0].Message, tc.says)
		})
	}
}
