// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/policies/registry"
	"berth.dev/berth/test/clitest"
)

// policy is one that the controller has accepted, for the pods of a tier.
func policy(name, tier string, age time.Duration, changes ...func(*v1alpha1.SchedulingPolicy)) v1alpha1.SchedulingPolicy {
	p := v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1, CreationTimestamp: clitest.Ago(age)}}
	if tier != "" {
		p.Spec.PodSelector.MatchLabels = map[string]string{"tier": tier}
	}
	p.Status.ObservedGeneration = 1
	accepted(metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the policy governs all pods that it selects")(&p)
	for _, change := range changes {
		change(&p)
	}
	return p
}

func accepted(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.SchedulingPolicy) {
	return func(p *v1alpha1.SchedulingPolicy) {
		p.Status.Conditions = []metav1.Condition{clitest.Condition(v1alpha1.ConditionAccepted, status, reason, message)}
	}
}

// shop has a policy of each kind.
func shop() []v1alpha1.SchedulingPolicy {
	return []v1alpha1.SchedulingPolicy{
		policy("service", "service", 3*time.Hour, func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.Score = &v1alpha1.ScoreRules{Functions: []v1alpha1.ScoreFunction{
				{Name: v1alpha1.ScoreResourceBalance, Weight: v1alpha1.ScoreWeightLow},
				{Name: v1alpha1.ScoreSpreading, Weight: v1alpha1.ScoreWeightHigh},
				{Name: v1alpha1.ScoreAntiAffinity, Coefficient: new(resource.MustParse("0"))},
			}}
			p.Spec.Select = &v1alpha1.SelectRules{TieBreaker: v1alpha1.TieBreakerRoundRobin}
			p.Spec.Decisions = &v1alpha1.DecisionRules{Record: v1alpha1.RecordAlways, Candidates: new(int32(10)), TTLSeconds: new(int32(600)), Events: true}
			p.Status.PodCount = 12
		}),
		policy("batch", "batch", 4*time.Hour, func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.Score = &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetPack}
			p.Spec.Select = &v1alpha1.SelectRules{TieBreaker: v1alpha1.TieBreakerWeightedRandom, Seed: new(int64(7))}
			p.Spec.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic}
			p.Status.PodCount = 3
		}),
		policy("everything", "", 2*time.Hour, accepted(metav1.ConditionFalse, v1alpha1.ReasonConflict,
			"pods that spec.podSelector selects are governed by an older SchedulingPolicy: batch, service")),
		policy("broken", "batch", 5*time.Hour, func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.Select = &v1alpha1.SelectRules{TieBreaker: "Coin"}
		}, accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalid, `spec.select.tieBreaker: "Coin" is not supported`)),
		policy("changed", "none", time.Hour, func(p *v1alpha1.SchedulingPolicy) { p.Generation = 2 }),
		policy("new", "none", time.Second, func(p *v1alpha1.SchedulingPolicy) { p.Status = v1alpha1.SchedulingPolicyStatus{} }),
	}
}

// pointers are policies as a list command reads them.
func pointers(list []v1alpha1.SchedulingPolicy) (all []*v1alpha1.SchedulingPolicy) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

func TestPolicies(t *testing.T) {
	clitest.Goldens(t, "policies.stderr", map[string]string{
		"policies.txt": printers.Text, "policies-wide.txt": printers.Wide, "policies.json": printers.JSON, "policies.yaml": printers.YAML,
		"policies.names": printers.Name,
	}, func(o *command.Options) error { return policyKind.Show(o, pointers(shop()), "shop") })
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return policyKind.Show(o, pointers(shop()[:2]), "") })
	clitest.Golden(t, "policies-all-namespaces.txt", out)
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return policyKind.Show(o, nil, "shop") })
	assert.Empty(t, out)
	assert.Equal(t, "No scheduling policies found in namespace shop.\n", errOut)
}

// pod is one of a tier.
func pod(name, tier string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"tier": tier}}}
	p.Spec.SchedulerName = "berth-scheduler"
	return p
}

// objects are pods and policies.
func objects(policies []v1alpha1.SchedulingPolicy, pods ...*corev1.Pod) (list []client.Object) {
	for _, p := range pods {
		list = append(list, p)
	}
	for i := range policies {
		list = append(list, &policies[i])
	}
	return list
}

func TestThePolicyOfAPod(t *testing.T) {
	elsewhere := policy("elsewhere", "", 9*time.Hour)
	elsewhere.Namespace = "other"
	c := clitest.Client(t, interceptor.Funcs{}, objects(append(shop(), elsewhere), pod("report-1", "batch"), pod("web-1", "service"), pod("tool", "tools"))...)
	shown := func(output, name string) string {
		out, errOut := clitest.Printed(t, output, func(o *command.Options) error { return runPod(t.Context(), o, c, "shop", name) })
		assert.Empty(t, errOut)
		return out
	}
	clitest.Golden(t, "pod.txt", strings.Join([]string{shown(printers.Text, "report-1"), shown(printers.Text, "pod/web-1"), shown(printers.Text, "tool")}, "\n"))
	clitest.Golden(t, "pod.json", shown(printers.JSON, "web-1"))
	clitest.Golden(t, "pod.yaml", shown(printers.YAML, "web-1"))
	assert.Equal(t, "schedulingpolicy.berth.dev/batch\n", shown(printers.Name, "report-1"))

	o, _, _ := clitest.Screen(printers.Text)
	require.EqualError(t, runPod(t.Context(), o, c, "shop", "none"), `pods "none" not found`)
}

func TestAPodThatNoPolicyGoverns(t *testing.T) {
	none := clitest.Client(t, interceptor.Funcs{}, pod("tool", "tools"))
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return runPod(t.Context(), o, none, "shop", "tool") })
	assert.Contains(t, out, "No policy selects the pod: the rules of the scheduler's profile apply.\n")
	assert.NotContains(t, out, "Policy:")
	out, _ = clitest.Printed(t, printers.Name, func(o *command.Options) error { return runPod(t.Context(), o, none, "shop", "tool") })
	assert.Empty(t, out)

	var many []v1alpha1.SchedulingPolicy
	for i := range registry.MaxPerNamespace {
		many = append(many, policy(fmt.Sprintf("p%d", i), "batch", time.Hour))
	}
	young := clitest.Client(t, interceptor.Funcs{}, objects(append(many, policy("young", "", time.Minute)), pod("tool", "tools"))...)
	out, _ = clitest.Printed(t, printers.Text, func(o *command.Options) error { return runPod(t.Context(), o, young, "shop", "tool") })
	assert.Contains(t, out, "Not applied:   young\n")
	assert.Contains(t, out, "No policy governs the pod: only the 100 oldest of a namespace govern pods, and none of these selects it.\n")
}

func TestPoliciesThatAreNotServedAreExplained(t *testing.T) {
	c := clitest.Client(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupName, Kind: "SchedulingPolicy"}}
	}}, pod("tool", "tools"))
	o, _, _ := clitest.Screen(printers.Text)
	require.EqualError(t, runPod(t.Context(), o, c, "shop", "tool"), "the API server does not serve schedulingpolicies.berth.dev: is Berth installed?")
}
