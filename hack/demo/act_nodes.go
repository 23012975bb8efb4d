// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
)

// labelled is a node with the labels of a provider, and its expected type.
type labelled struct {
	name   string
	labels map[string]string
	want   capacity.Type
}

// providers are one node of each type from several providers, and one without a label.
var providers = []labelled{
	{"karpenter-1", map[string]string{"karpenter.sh/capacity-type": "spot"}, capacity.Spot},
	{"karpenter-2", map[string]string{"karpenter.sh/capacity-type": "on-demand"}, capacity.OnDemand},
	{"eks-1", map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}, capacity.Spot},
	{"eks-2", map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}, capacity.OnDemand},
	{"gke-1", map[string]string{"cloud.google.com/gke-nodepool": "cheap", "cloud.google.com/gke-spot": "true"}, capacity.Spot},
	{"gke-2", map[string]string{"cloud.google.com/gke-nodepool": "default"}, capacity.OnDemand},
	{"yours-1", map[string]string{"node.kubernetes.io/lifecycle": "spot"}, capacity.Spot},
	{"yours-2", map[string]string{"node.kubernetes.io/lifecycle": "on-demand"}, capacity.OnDemand},
	{"unlabeled", nil, capacity.Unknown},
}

const probe = "probe"

// nodeTypes shows the type of each node without any configuration, and proves it with a workload that has to use every
// node.
func (d *demo) nodeTypes(ctx context.Context) error {
	d.title("Nodes: which are spot, which are on-demand?")
	d.say("Berth reads the type from the labels that providers set, without any configuration. A node without such a label has an " +
		"unknown type and gets no pod with a mix: a wrong guess would silently violate the mix.")
	d.gap()
	var specs []cluster.NodeSpec
	for _, p := range providers {
		specs = append(specs, cluster.NodeSpec{Name: p.name, Labels: p.labels, CPU: "2", Memory: "8Gi"})
	}
	if err := d.cluster.AddNodes(ctx, specs...); err != nil {
		return err
	}
	replicas := len(providers) // one more than the number of nodes of a known type
	if err := d.client.Create(ctx, oneForEachNode(replicas)); err != nil {
		return fmt.Errorf("create deployment %s: %w", probe, err)
	}
	pic, err := d.until(ctx, "one pod of "+probe+" is pending, the others have a node", func(pic picture) (bool, string) {
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
	d.say("The proof: %d replicas, 50 %% spot, at most one per node. Each node of a known type has one, with a slot of that type: "+
		"%s. The last one stays pending rather than run on unlabeled:", replicas, d.verdict(ok, "checked"))
	last := waiting(pic.of(probe))[0]
	text, err := d.eventOf(ctx, &last, "FailedScheduling")
	if err != nil {
		return err
	}
	d.quote("FailedScheduling: %s", aboutNodes(text))
	d.say("To use such a node, label it (docs/node-types.md):")
	d.command("kubectl label node unlabeled node.kubernetes.io/lifecycle=on-demand")
	return d.newNodes(ctx)
}

// typeTable has a row for every node, in the order of their creation.
func (s *screen) typeTable(pic picture) []string {
	rules := capacity.DefaultRules()
	row := func(name, label string, i ink, is, rule, pods string) string {
		return pad(name, nameColumn) + pad(label, 44) + s.paint(i, pad(is, 11)) + pad(rule, 21) + pods
	}
	lines := []string{s.paint(faint, row("node", "label", plain, "type", "rule", "pods"))}
	for _, p := range providers {
		for i := range pic.nodes {
			if n := &pic.nodes[i]; n.name == p.name {
				lines = append(lines, row(n.name, evidence(n, rules), inkOf(n.is), n.is.String(), cmp.Or(n.rule, "none"),
					fmt.Sprint(len(pic.on(n.name)))))
			}
		}
	}
	return lines
}

// nodesAsLabelled checks that every node has the type of its labels, and that the scheduler uses it: each node of a
// known type has one pod, with a slot of that type, and a node of unknown type has none.
func nodesAsLabelled(pic picture) differences {
	var differs differences
	found := map[string]node{}
	for _, n := range pic.nodes {
		found[n.name] = n
	}
	for _, p := range providers {
		if is := found[p.name].is; is != p.want {
			differs.add("node %s is %s by rule %q instead of %s", p.name, is, found[p.name].rule, p.want)
		}
		pods := pic.on(p.name)
		wantPods := 1
		if p.want == capacity.Unknown {
			wantPods = 0
		}
		if len(pods) != wantPods {
			differs.add("node %s has %d pods instead of %d", p.name, len(pods), wantPods)
		}
		for i := range pods {
			if pods[i].slotType != p.want {
				differs.add("node %s is %s, its pod %s has a slot of type %s", p.name, p.want, pods[i].name, pods[i].slotType)
			}
		}
	}
	return differs
}

// oneForEachNode returns a Deployment whose pods run on different nodes, half of them on spot.
func oneForEachNode(replicas int) *appsv1.Deployment {
	deployment := builders.Deployment(
		probe, int32(replicas), builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "50"), builders.AwayFrom(probe),
	)
	deployment.Namespace = namespace
	return deployment
}

// newNodes replaces the nodes of the first act by those of the others.
func (d *demo) newNodes(ctx context.Context) error {
	if err := d.remove(ctx, probe); err != nil {
		return err
	}
	if err := d.removeNodes(ctx); err != nil {
		return err
	}
	return d.cluster.AddNodes(ctx, append(nodeSpecs("spot", 6), nodeSpecs("on-demand", 4)...)...)
}

// waiting returns the pods that are unschedulable, with a reason.
func waiting(pods []pod) []pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return p.bound() || p.waits == "" })
}
