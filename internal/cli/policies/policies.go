// SPDX-License-Identifier: Apache-2.0

// Package policies has the command about SchedulingPolicies.
package policies

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/registry"
	"berth.dev/berth/internal/policies/rules"
)

const about = `Shows SchedulingPolicies with the values that apply, defaults included. SCORE is the preset, or each function with its coefficient. PODS
and ACCEPTED are as the controller last reported them: True, or the reason why the policy does not govern all pods that it selects.

With --pod, the command shows which policy governs a pod, and which others select it.`

var policyKind = command.Kind[*v1alpha1.SchedulingPolicy, PolicyStatus]{
	Kind: "SchedulingPolicy", Resource: overview.PoliciesResource,
	NewList: func() client.ObjectList { return &v1alpha1.SchedulingPolicyList{} },
	Key:     "policies", Nouns: "scheduling policies",
	Of:       func(p *v1alpha1.SchedulingPolicy) PolicyStatus { return policyOf(registry.Compile(p)) },
	Observed: func(p *v1alpha1.SchedulingPolicy) int64 { return p.Status.ObservedGeneration },
	Unseen:   "berth-controller does not seem to run its controller policies (see kubectl berth doctor)",
	Header:   []string{"SCORE", "TIE-BREAKER", "RECORD", "PODS", "ACCEPTED"},
	Wide:     []string{"SEED", "BIND", "CANDIDATES", "TTL", "EVENTS", "CONTROLLER", "MESSAGE"}, Row: row,
}

// PolicyStatus is one SchedulingPolicy.
type PolicyStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Rules are the values that apply. Of an invalid policy none does.
	Rules *Rules `json:"rules,omitempty"`
	// PodCount, Accepted and Message are from the status. Accepted is True or the reason of the condition.
	PodCount   int32               `json:"podCount"`
	Accepted   string              `json:"accepted,omitempty"`
	Message    string              `json:"message,omitempty"`
	Controller display.ReportState `json:"controller"`
	Created    metav1.Time         `json:"created"`
}

// Rules are the values of a policy that apply, defaults included.
type Rules struct {
	// Score is the preset, or the functions with their coefficients.
	Score      string              `json:"score"`
	TieBreaker v1alpha1.TieBreaker `json:"tieBreaker"`
	Seed       *int64              `json:"seed,omitempty"`
	Bind       v1alpha1.BindMode   `json:"bind"`
	Record     v1alpha1.RecordMode `json:"record"`
	Candidates int                 `json:"candidates"`
	TTLSeconds int64               `json:"ttlSeconds"`
	Events     bool                `json:"events"`
}

// New returns the command policies.
func New(o *command.Options) *cobra.Command {
	var pod string
	cmd := policyKind.List(o, &cobra.Command{
		Use:     "policies",
		Short:   "Show SchedulingPolicies, and which of them governs a pod",
		Long:    about,
		Example: "  kubectl berth policies\n  kubectl berth policies -A -o wide\n  kubectl berth policies -n shop --pod web-5d9c7b8f6-x2x7k",
	}, nil)
	command.Instead(cmd, &pod, o.WithCluster(func(ctx context.Context, c client.Client, namespace string, _ []string) error {
		return runPod(ctx, o, c, namespace, pod)
	}))
	cmd.Flags().StringVar(&pod, "pod", "", "The name of a pod: show the policy that governs it, and the others that select it.")
	_ = cmd.RegisterFlagCompletionFunc("pod", o.CompleteFirst(&corev1.PodList{})) // fails for a flag that does not exist
	cmd.MarkFlagsMutuallyExclusive("pod", "all-namespaces")
	cmd.MarkFlagsMutuallyExclusive("pod", "selector")
	cmd.MarkFlagsMutuallyExclusive("pod", "watch")
	return cmd
}

func policyOf(p *registry.Policy) PolicyStatus {
	s := PolicyStatus{
		Namespace: p.Object.Namespace, Name: p.Object.Name, Rules: rulesOf(p), PodCount: p.Object.Status.PodCount,
		Controller: display.Reported(p.Object.Status.ObservedGeneration, p.Object.Generation), Created: p.Object.CreationTimestamp,
	}
	if c := meta.FindStatusCondition(p.Object.Status.Conditions, v1alpha1.ConditionAccepted); c != nil {
		s.Accepted, s.Message = c.Reason, c.Message
		if c.Status == metav1.ConditionTrue {
			s.Accepted = string(c.Status)
		}
	}
	return s
}

// rulesOf returns the rules of a policy, nil if it is invalid.
func rulesOf(p *registry.Policy) *Rules {
	if p.Err != nil {
		return nil
	}
	return &Rules{
		Score: scoreOf(p.Object.Spec.Score, p.Rules.Functions), TieBreaker: p.Rules.TieBreaker, Seed: p.Rules.Seed,
		Bind: bindOf(p.Object.Spec.Bind), Record: p.Rules.Record, Candidates: p.Rules.Candidates,
		TTLSeconds: int64(p.Rules.TTL.Seconds()), Events: p.Rules.Events,
	}
}

// bindOf is the mode that binds pods.
func bindOf(spec *v1alpha1.BindRules) v1alpha1.BindMode {
	if spec == nil {
		return v1alpha1.BindOptimistic
	}
	return cmp.Or(spec.Mode, v1alpha1.BindOptimistic)
}

// scoreOf is a preset, or functions such as Binpacking*3,Spreading*0.5.
func scoreOf(spec *v1alpha1.ScoreRules, functions []rules.Function) string {
	if spec == nil || len(spec.Functions) == 0 {
		if spec == nil || spec.Preset == "" {
			return string(v1alpha1.ScorePresetBalanced)
		}
		return string(spec.Preset)
	}
	list := make([]string, len(functions))
	for i, f := range functions {
		list[i] = string(f.Name) + "*" + strconv.FormatFloat(f.Coefficient, 'g', -1, 64)
	}
	return strings.Join(list, ",")
}

// row are the cells of a policy.
func row(_ *command.Options, s *PolicyStatus) []any {
	pods, accepted := "<unknown>", "<unknown>"
	if s.Controller != display.ReportAbsent {
		pods, accepted = fmt.Sprint(s.PodCount), s.Accepted
	}
	score, tieBreaker, record, more := cells(s.Rules)
	return slices.Concat([]any{score, tieBreaker, record, pods, accepted}, more, []any{s.Controller, s.Message})
}

// cells are the cells of a table for rules; more are those of the wide table.
func cells(r *Rules) (score, tieBreaker, record string, more []any) {
	if r == nil {
		return "", "", "", []any{"", "", "", "", ""}
	}
	seed := ""
	if r.Seed != nil {
		seed = strconv.FormatInt(*r.Seed, 10)
	}
	return r.Score, string(r.TieBreaker), string(r.Record), []any{seed, r.Bind, r.Candidates, fmt.Sprintf("%ds", r.TTLSeconds), r.Events}
}
