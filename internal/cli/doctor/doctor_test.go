// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/test/clitest"
)

func TestDoctorOnWorkloads(t *testing.T) {
	s := clitest.OneOfEach()
	s.Budget("a", "web", 1)
	s.Budget("b", "web", 1)
	p := &patient{cluster: s.Cluster(t), now: clitest.Now}
	r := &Report{}
	for _, check := range []func(*Report){p.nodes, p.mixes, p.conflicts, p.bypasses, p.budgets, p.reports} {
		check(r)
	}
	clitest.Goldens(t, "", map[string]string{"doctor.txt": printers.Text}, func(o *command.Options) error { return showReport(o, r) })
	assert.True(t, r.failed())
}

// It is a matter of the numbers of a budget, not of the words of a message.
func TestABudgetThatAllowsNoDisruptionIsReported(t *testing.T) {
	of := func(allowed, desired, expected int32) *Report {
		s := clitest.OneOfEach()
		s.Budget("strict", "web", allowed)
		c := s.Cluster(t)
		b := &c.Budgets["shop"][0]
		b.Desired, b.Expected = desired, expected
		r := &Report{}
		(&patient{cluster: c, now: clitest.Now}).budgets(r)
		return r
	}
	r := of(0, 4, 4)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, Warn, r.Findings[0].Level)
	assert.Contains(t, r.Findings[0].Message, "PodDisruptionBudget shop/strict allows no disruption: it requires 4 healthy pods of 4")
	for name, r := range map[string]*Report{"while a pod is not healthy": of(0, 3, 4), "one": of(1, 3, 4), "not observed yet": of(0, 0, 0)} {
		require.Len(t, r.Findings, 1, name)
		assert.Equal(t, OK, r.Findings[0].Level, name)
	}
}

func TestAFloorThatIsNotProtectedIsReported(t *testing.T) {
	s := clitest.OneOfEach()
	s.Budget("floor", "web", 0)
	c := s.Cluster(t)
	b := &c.Budgets["shop"][0]
	b.Desired, b.Expected, b.Floor = 4, 4, true
	find := func() *Report {
		r := &Report{}
		p := &patient{cluster: c, now: clitest.Now}
		p.budgets(r)
		p.floors(r)
		return r
	}
	c.Mixes[0].Spec.ProtectFloor = true
	r := find()
	require.Len(t, r.Findings, 2)
	assert.Equal(t, OK, r.Findings[0].Level, "at the floor, the budget of Berth allows none")
	assert.Equal(t, "CapacityMixes with protectFloor: 1, none with FloorProtected=False", r.Findings[1].Message)
	c.Mixes[0].Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionFloorProtected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOverlappingBudget, Message: "why",
	}}
	r = find()
	assert.Equal(t, Warn, r.Findings[1].Level)
	assert.Equal(t, c.Mixes[0].Namespace+"/"+c.Mixes[0].Name+": OverlappingBudget: why", r.Findings[1].Message)
}

func TestARightIsReadFromItsText(t *testing.T) {
	for text, want := range map[right]authv1.ResourceAttributes{
		"list pods":                  {Verb: "list", Resource: "pods", Namespace: "shop"},
		"create pods/eviction":       {Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "shop"},
		"watch deployments.apps":     {Verb: "watch", Group: "apps", Resource: "deployments", Namespace: "shop"},
		"get configmaps one":         {Verb: "get", Resource: "configmaps", Name: "one", Namespace: "shop"},
		"patch mixes/status.berth.x": {Verb: "patch", Group: "berth.x", Resource: "mixes", Subresource: "status", Namespace: "shop"},
	} {
		assert.Equal(t, &want, text.attributes("shop"))
	}
}

func TestALeaseThatIsNotRenewedIsNoLeader(t *testing.T) {
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler"}}
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, new(metav1.NewMicroTime(clitest.Now.Add(-renewed))), new(int32(15))
		return l
	}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		level Level
		says  string
	}{
		"held and fresh": {lease("a", 3*time.Second), OK, "a holds lease berth-system/berth-scheduler"},
		"not renewed":    {lease("a", time.Minute), Fail, "last renewed 60s ago"},
		"given up":       {lease("", time.Second), Fail, "lease berth-system/berth-scheduler has no holder"},
		"never held":     {nil, Fail, "lease berth-system/berth-scheduler does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tc.lease != nil {
				kube = fake.NewClientset(tc.lease)
			}
			r := &Report{}
			(&patient{kube: kube, now: clitest.Now}).lease(context.Background(), r, "scheduler", "berth-system", "berth-scheduler", Fail, "start it")
			require.Len(t, r.Findings, 1)
			assert.Equal(t, tc.level, r.Findings[0].Level)
			assert.Contains(t, r.Findings[0].Message, tc.says)
		})
	}
}

func TestDoctorOnGates(t *testing.T) {
	const old = 5 * time.Minute
	for name, tc := range map[string]struct {
		change     func(*clitest.Shop)
		leaderless bool
		level      Level
		says       string
	}{
		"no leader":                   {func(*clitest.Shop) {}, true, Fail, "no scheduler is leading, so no slot is assigned to 2 gated pods: "},
		"one leads and does not open": {func(s *clitest.Shop) { s.Pods[0].CreationTimestamp = clitest.Ago(old) }, false, Warn, "a scheduler is leading, but no slot has been assigned for more than a minute to "},
		"a gate for nothing":          {func(*clitest.Shop) {}, false, Warn, "no mix governs 1 gated pod: "},
		"all is well":                 {func(s *clitest.Shop) { s.Pods = s.Pods[1:4] }, false, OK, "no gated pod waits too long"},
		"one that waits for a moment": {func(s *clitest.Shop) { s.Pods = s.Pods[:4]; s.Pods[0].CreationTimestamp = clitest.Ago(time.Second) }, false, OK, "no gated pod waits too long"},
		"ungated, and no pod has a mix": {func(s *clitest.Shop) {
			s.Pods = s.Pods[4:]
			s.Pods[0].Spec.SchedulingGates = nil
			s.Pods[0].Annotations = map[string]string{v1alpha1.UngateReasonAnnotation: v1alpha1.UngateReasonNoMix}
		}, false, Warn, "no mix governs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.GatedShop()
			tc.change(s)
			p := &patient{cluster: s.Cluster(t), now: clitest.Now, leaderless: tc.leaderless}
			r := &Report{}
			p.gates(r)
			found := false
			for _, f := range r.Findings {
				found = found || f.Level == tc.level && strings.Contains(f.Message, tc.says)
			}
			assert.True(t, found, "%+v", r.Findings)
			if tc.level == OK {
				assert.Len(t, r.Findings, 1)
			}
		})
	}
}

func TestDoctorOnAutoscalers(t *testing.T) {
	s := clitest.OneOfEach()
	for i, p := range s.Pods[:3] { // as Karpenter writes them: the rank of the node
		p.Annotations[v1alpha1.PodDeletionCostAnnotation] = "-2147483648"
		p.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager:  []string{"karpenter", "karpenter", "cost-controller"}[i],
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`),
		}}
	}
	p := &patient{cluster: s.Cluster(t), now: clitest.Now}
	p.autoscalers.Karpenter, p.autoscalers.ClusterAutoscaler = true, true
	r := &Report{}
	p.ungated(r)
	p.deletionCosts(r)
	clitest.Goldens(t, "", map[string]string{"autoscalers.txt": printers.Text}, func(o *command.Options) error { return showReport(o, r) })
	assert.True(t, r.failed())
}

func TestDoctorOnAutoscalersThatDoNoHarm(t *testing.T) {
	gated := func(s *clitest.Shop) {
		s.Pods = s.Pods[:4]
		for _, p := range s.Pods {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
		}
	}
	none, karpenter := autoscalers{}, autoscalers{Found: autoscaler.Found{Karpenter: true}}
	enabled := karpenter
	enabled.costGates = []string{"karpenter/karpenter"}
	failed := autoscalers{err: errors.New("no answer")}
	for name, tc := range map[string]struct {
		found  autoscalers
		change func(*clitest.Shop)
		want   []string
	}{
		"none, and pods without gates": {none, func(*clitest.Shop) {}, []string{"OK neither Karpenter nor cluster-autoscaler was found"}},
		"all pods have the gate": {karpenter, gated, []string{
			"OK no governed workload lacks the scheduling gate while Karpenter launches nodes", "OK no client has overwritten the deletion costs of the slots",
		}},
		"no cost is overwritten yet": {enabled, gated, []string{
			"OK no governed workload lacks the scheduling gate while Karpenter launches nodes",
			"WARN the feature gate PodDeletionCostManagement of Karpenter (karpenter/karpenter) overwrites the deletion costs of pods, and a scale-down is not exact until the controller has restored them",
		}},
		"no mix that it could break": {enabled, func(s *clitest.Shop) { s.Pods, s.Mixes = nil, nil }, []string{
			"OK no governed workload lacks the scheduling gate while Karpenter launches nodes", "OK no client has overwritten the deletion costs of the slots",
		}},
		"mixes that leave costs to others": {enabled, func(s *clitest.Shop) {
			gated(s)
			s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Labels["app"] == "db" })
			for _, m := range s.Mixes {
				m.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
			}
		}, []string{
			"OK no governed workload lacks the scheduling gate while Karpenter launches nodes", "OK no client has overwritten the deletion costs of the slots",
		}},
		"mixes that leave costs to others, and a mix in annotations": {enabled, func(s *clitest.Shop) {
			s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Labels["app"] != "db" })
			for _, p := range s.Pods {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
			}
			for _, m := range s.Mixes {
				m.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
			}
		}, []string{
			"OK no governed workload lacks the scheduling gate while Karpenter launches nodes",
			"WARN the feature gate PodDeletionCostManagement of Karpenter (karpenter/karpenter) overwrites the deletion costs of pods, and a scale-down is not exact until the controller has restored them",
		}},
		"they are not known": {failed, func(*clitest.Shop) {}, []string{"WARN no answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.OneOfEach()
			tc.change(s)
			p := &patient{cluster: s.Cluster(t), autoscalers: tc.found}
			r := &Report{}
			p.ungated(r)
			p.deletionCosts(r)
			var got []string
			for _, f := range r.Findings {
				got = append(got, string(f.Level)+" "+f.Message)
				assert.Equal(t, f.Level == OK, f.Next == "", "what is not right has a fix")
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// With provisioning: Wait, replicas that went to on-demand nodes return to spot only if a spot node has free capacity. An autoscaler
// removes such nodes.
func TestDoctorOnMovesThatNothingRequestsCapacityFor(t *testing.T) {
	karpenter := autoscalers{Found: autoscaler.Found{Karpenter: true}}
	waits := func(reason string, generation int64) func(*v1alpha1.CapacityMix) {
		return func(m *v1alpha1.CapacityMix) {
			m.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: generation,
			}}
		}
	}
	const quiet = "OK no mix with provisioning: Wait waits for nodes of Karpenter"
	for name, tc := range map[string]struct {
		found  autoscalers
		change func(*v1alpha1.CapacityMix)
		want   string
	}{
		"it waits": {
			karpenter, waits("InsufficientCapacity", 1),
			"WARN no node has free capacity for the moves of shop/web, and with provisioning: Wait nothing has Karpenter launch one",
		},
		"no autoscaler":   {autoscalers{}, waits("InsufficientCapacity", 1), ""},
		"another reason":  {karpenter, waits("BudgetExhausted", 1), quiet},
		"of an older mix": {karpenter, waits("InsufficientCapacity", 0), quiet},
		"no status":       {karpenter, func(*v1alpha1.CapacityMix) {}, quiet},
		"a placeholder does it": {karpenter, func(m *v1alpha1.CapacityMix) {
			waits("InsufficientCapacity", 1)(m)
			m.Spec.Rebalance = &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder}
		}, quiet},
	} {
		t.Run(name, func(t *testing.T) {
			s := &clitest.Shop{}
			s.Mix("web", 70, 2, tc.change)
			p := &patient{cluster: s.Cluster(t), autoscalers: tc.found}
			r := &Report{}
			p.unprovided(r)
			got := ""
			for _, f := range r.Findings {
				got += string(f.Level) + " " + f.Message
				assert.Equal(t, f.Level == OK, f.Next == "", "what is not right has a fix")
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestDoctorFindsTheFeatureGateOfKarpenter(t *testing.T) {
	deployment := func(name, label, gates string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: name, Labels: map[string]string{"app.kubernetes.io/name": label}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "FEATURE_GATES", Value: gates}}}}
		return d
	}
	const on = "NodeRepair=false,PodDeletionCostManagement=true"
	kube := fake.NewClientset()
	p := &patient{kube: kube, client: clitest.Client(t, interceptor.Funcs{},
		deployment("karpenter", "karpenter", on), deployment("spare", "karpenter", "NodeRepair=true"), deployment("other", "other", on))}
	assert.Empty(t, p.findAutoscalers(t.Context()).costGates, "Karpenter is not served")
	kube.Resources = []*metav1.APIResourceList{{GroupVersion: "karpenter.sh/v1", APIResources: []metav1.APIResource{{Name: "nodepools"}}}}
	found := p.findAutoscalers(t.Context())
	assert.True(t, found.Karpenter)
	assert.Equal(t, []string{"karpenter/karpenter"}, found.costGates)
}

// A scheduler that may not read events does not see what autoscalers report. Without an autoscaler there is nothing to read.
func TestDoctorOnTheRightToReadReports(t *testing.T) {
	const check = "rights of berth-scheduler for the reports of autoscalers"
	for name, tc := range map[string]struct {
		found   autoscaler.Found
		allowed bool
		want    *Finding
	}{
		"no autoscaler": {autoscaler.Found{}, false, nil},
		"allowed": {autoscaler.Found{ClusterAutoscaler: true}, true, &Finding{
			Level: OK, Check: check, Message: "service account berth-system/berth-scheduler has the rights that it needs",
		}},
		"not allowed": {autoscaler.Found{Karpenter: true}, false, &Finding{
			Level: Warn, Check: check, Message: "not allowed: list events, watch events", Next: rbacFiles,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authv1.SubjectAccessReview)
				assert.Equal(t, "events", review.Spec.ResourceAttributes.Resource)
				assert.Empty(t, review.Spec.ResourceAttributes.Namespace, "of all namespaces")
				review.Status.Allowed = tc.allowed
				return true, review, nil
			})
			p := &patient{kube: kube, systemNamespace: "berth-system", autoscalers: autoscalers{Found: tc.found}}
			r := &Report{}
			p.signalRights(t.Context(), r)
			if tc.want == nil {
				assert.Empty(t, r.Findings)
				return
			}
			assert.Equal(t, []Finding{*tc.want}, r.Findings)
		})
	}
}
