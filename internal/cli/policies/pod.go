// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/policies/registry"
)

// PodPolicy is what `policies --pod` shows.
type PodPolicy struct {
	Namespace     string `json:"namespace"`
	Pod           string `json:"pod"`
	SchedulerName string `json:"schedulerName"`
	// Policy is the name of the policy that governs the pod, "" if none does. Rules are its values.
	Policy string `json:"policy,omitempty"`
	Rules  *Rules `json:"rules,omitempty"`
	// Others are the names of the policies that select the pod too, the oldest first.
	Others []string `json:"others,omitempty"`
}

// runPod shows the policy of a pod. The name of the pod may be as -o name prints it.
func runPod(ctx context.Context, o *command.Options, c client.Client, namespace, name string) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: namespace, Name: name[strings.LastIndex(name, "/")+1:]}
	if err := c.Get(ctx, key, pod); err != nil {
		return err
	}
	list, err := kinds.List[*v1alpha1.SchedulingPolicy](ctx, c, policyKind.NewList(), client.InNamespace(namespace))
	if err != nil {
		return policyKind.Explain(err)
	}
	return showPod(o, podPolicyOf(pod, list))
}

// podPolicyOf finds the policy of a pod among those of its namespace, as the scheduler does.
func podPolicyOf(pod *corev1.Pod, list []*v1alpha1.SchedulingPolicy) *PodPolicy {
	out := &PodPolicy{Namespace: pod.Namespace, Pod: pod.Name, SchedulerName: pod.Spec.SchedulerName}
	policies := registry.OldestFirst(list)
	governing := registry.Governing(policies, pod.Labels)
	if governing != nil {
		out.Policy, out.Rules = governing.Object.Name, rulesOf(governing)
	}
	for _, p := range policies {
		if p != governing && p.Selects(pod.Labels) {
			out.Others = append(out.Others, p.Object.Name)
		}
	}
	return out
}

func showPod(o *command.Options, p *PodPolicy) error {
	if o.Output == printers.Name {
		if p.Policy != "" {
			fmt.Fprintln(o.Out, "schedulingpolicy."+v1alpha1.GroupName+"/"+p.Policy)
		}
		return nil
	}
	if done, err := o.Print(p); done {
		return err
	}
	d := &printers.Description{}
	d.Add("Pod", p.Pod)
	d.Add("Namespace", p.Namespace)
	d.Add("Scheduler", p.SchedulerName)
	d.Add("Policy", p.Policy)
	if r := p.Rules; r != nil {
		d.Add("Score", r.Score)
		d.Add("Tie-breaker", string(r.TieBreaker))
		d.Add("Record", string(r.Record))
	}
	d.Add("Not applied", strings.Join(p.Others, ", "))
	d.Sentences = []string{p.sentence()}
	return d.Write(o.Out)
}

// sentence is why the policy governs the pod, or why none does.
func (p *PodPolicy) sentence() string {
	switch {
	case p.Policy == "" && len(p.Others) == 0:
		return "No policy selects the pod: the rules of the scheduler's profile apply."
	case p.Policy == "":
		return fmt.Sprintf("No policy governs the pod: only the %d oldest of a namespace govern pods, and none of these selects it.",
			registry.MaxPerNamespace)
	case len(p.Others) == 0:
		return fmt.Sprintf("Policy %s governs the pod. No other policy selects it.", p.Policy)
	}
	return fmt.Sprintf("Policy %s governs the pod: it is the oldest of the %d policies that select it.", p.Policy, len(p.Others)+1)
}
