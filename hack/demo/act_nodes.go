// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
)

// labelled is a node as a provider labels it, and what it is.
type labelled struct {
	name   string
	labels map[string]string
	want   capacity.Type
}

// providers are one node of each type from several providers, and one that says nothing.
var providers = []labelled{
	{"karpenter-1", map[string]string{"karpenter.sh/capacity-type": "spot"}, capacity.Spot},
	{"karpenter-2", map[string]string{"karpenter.sh/capacity-type": "on-demand"}, capacity.OnDemand},
	{"eks-1", map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}, capacity.Spot},
	{"eks-2", map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}, capacity.OnDemand},
	{"gke-1", map[string]string{"cloud.google.com/gke-nodepool": "cheap", "cloud.google.com/gke-spot": "true"}, capacity.Spot},
	{"gke-2", map[string]string{"cloud.google.com/gke-nodepool": "default"}, capacity.OnDemand},
	{"yours-1", map[string]string{"node.kubernetes.io/lifecycle": "spot"}, capacity.Spot},
	{"yours-2", map[string]string{"node.kubernetes.io/lifecycle": "on-demand"}, capacity.OnDemand},
	{"nothing-said", nil, capacity.Unknown},
}

const probe = "probe"

// nodeTypes shows which node is of which type without any configuration, and
// proves it with a workload that has to use every node.
func (d *demo) nodeTypes(ctx context.Context) error {
	d.title("Nodes: which are spot, which are on-demand?")
	d.say("Berth reads it from the labels that the providers set. Nothing was configured. Of a node that says nothing it knows " +
		"nothing, and gives it no pod of a mix: a wrong guess would break a promise silently.")
	d.gap()
	var specs []cluster.NodeSpec
	for _, p := range providers {
		specs = append(specs, cluster.NodeSpec{Name: p.name, Labels: p.labels, CPU: "2", Memory: "8Gi"})
	}
	if err := d.cluster.AddNodes(ctx, specs...); err != nil {
		return err
	}
	replicas := len(providers) // one more than there are nodes of a known type
	if err := d.client.Create(ctx, oneForEachNode(replicas)); err != nil {
		return fmt.Errorf("create deployment %s: %w", probe, err)
	}
	pic, err := d.until(ctx, "one pod of "+probe+" waits, the others have a node", func(pic picture) (bool, string) {
		pods := pic.of(probe)
		c, pending := count(pods)
		return pending == 1 && len(pods) == replicas && len(waiting(pods)) == 1, fmt.Sprintf("%s, %d without a node", countText(c), pending)
	})
	if err != nil {
		return err
	}
	ok := d.results.add(nodesAsLabelled(pic))
	for _, l := range d.typeTable(pic) {
		d.line("  %s", l)
	}
	d.gap()
	d.say("The proof: %d replicas, 50 %% spot, whose pods refuse to share a node. Each node of a known type has one, of a slot of "+
		"that type: %s. The last one waits rather than use nothing-said:", replicas, d.verdict(ok, "checked"))
	last := waiting(pic.of(probe))[0]
	text, err := d.eventOf(ctx, &last, "FailedScheduling")
	if err != nil {
		return err
	}
	d.quote("FailedScheduling: %s", aboutNodes(text))
	d.say("If such a node is fine for you, label it (docs/node-types.md):")
	d.command("kubectl label node nothing-said node.kubernetes.io/lifecycle=on-demand")
	return d.newFleet(ctx)
}

// typeTable has a row for every node, in the order in which they were made.
func (s *screen) typeTable(pic picture) []string {
	rules := capacity.DefaultRules()
	row := func(name, says string, i ink, is, rule, pods string) string {
		return pad(name, nameColumn) + pad(says, 44) + s.paint(i, pad(is, 11)) + pad(rule, 21) + pods
	}
	lines := []string{s.paint(faint, row("node", "what its labels say", plain, "type", "by the rule", "pods"))}
	for _, p := range providers {
		for i := range pic.nodes {
			if n := &pic.nodes[i]; n.name == p.name {
				lines = append(lines, row(n.name, evidence(n, rules), inkOf(n.is), n.is.String(), cmp.Or(n.rule, "none"), fmt.Sprint(len(pic.on(n.name)))))
			}
		}
	}
	return lines
}

// nodesAsLabelled demands that every node is what its labels mean, and that the
// scheduler saw it so: each node of a known type has one pod, which holds a slot
// of that type, and a node of unknown type has none.
func nodesAsLabelled(pic picture) []string {
	var differs []string
	found := map[string]node{}
	for _, n := range pic.nodes {
		found[n.name] = n
	}
	for _, p := range providers {
		if is := found[p.name].is; is != p.want {
			differs = append(differs, fmt.Sprintf("node %s is %s by rule %q, its labels mean %s", p.name, is, found[p.name].rule, p.want))
		}
		pods := pic.on(p.name)
		wantPods := 1
		if p.want == capacity.Unknown {
			wantPods = 0
		}
		if len(pods) != wantPods {
			differs = append(differs, fmt.Sprintf("node %s has %d pods instead of %d", p.name, len(pods), wantPods))
		}
		for i := range pods {
			if pods[i].wants != p.want {
				differs = append(differs, fmt.Sprintf("node %s is %s, its pod %s holds a slot that is %s", p.name, p.want, pods[i].name, pods[i].wants))
			}
		}
	}
	return differs
}

// oneForEachNode makes a Deployment whose pods go to different nodes, half of them to spot.
func oneForEachNode(replicas int) *appsv1.Deployment {
	deployment := builders.Deployment(probe, int32(replicas), builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "50"),
		func(t *corev1.PodTemplateSpec) {
			t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(probe)}, TopologyKey: corev1.LabelHostname,
				}},
			}}
		})
	deployment.Namespace = namespace
	return deployment
}

// newFleet replaces the nodes of the first act by those of the others.
func (d *demo) newFleet(ctx context.Context) error {
	if err := d.remove(ctx, probe); err != nil {
		return err
	}
	if err := d.removeNodes(ctx); err != nil {
		return err
	}
	return d.cluster.AddNodes(ctx, append(fleet("spot", 6), fleet("on-demand", 4)...)...)
}

// waiting returns the pods that are unschedulable, and say why.
func waiting(pods []pod) []pod {
	var w []pod
	for i := range pods {
		if !pods[i].bound() && pods[i].waits != "" {
			w = append(w, pods[i])
		}
	}
	return w
}
