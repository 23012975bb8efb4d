// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

// Names and numbers of manifests/samples/resource-limit.yaml.
const (
	tool         = "tool"
	limitName    = "small"
	toolReplicas = 4
)

// foreign is the architecture that the ResourceLimit small excludes.
const foreign = "s390x"

// limits shows what a ResourceLimit prescribes.
func (d *demo) limits(ctx context.Context) error {
	d.title("Limits: a named size for pods, and the nodes that they may run on")
	other := cluster.NodeSpec{
		Name: foreign, CapacityType: "on-demand", CPU: "64", Memory: "256Gi",
		Labels: map[string]string{corev1.LabelArchStable: foreign},
	}
	if err := d.cluster.AddNodes(ctx, other); err != nil {
		return err
	}
	d.say("The pods of tool name the ResourceLimit small by a label. It allows amd64 and arm64 nodes only. The node %s is the largest "+
		"and empty, but no pod runs there:", foreign)
	if err := d.apply(ctx, "resource-limit.yaml"); err != nil {
		return err
	}
	d.command("kubectl apply -f manifests/samples/resource-limit.yaml")
	pic, err := d.untilReady(ctx, tool, toolReplicas)
	if err != nil {
		return err
	}
	d.line("  %s", d.paint(faint, pad("architecture", nameColumn)+pad("nodes", 8)+"pods of tool"))
	nodes, pods := architectures(pic)
	verdict := map[string]string{foreign: d.verdict(d.results.add(noneForeign(pods)), "as the limit prescribes")}
	for _, arch := range slices.Sorted(maps.Keys(nodes)) {
		d.line("  %s%s%s%s", pad(arch, nameColumn), pad(fmt.Sprint(nodes[arch]), 8), pad(fmt.Sprint(pods[arch]), 15), verdict[arch])
	}
	d.gap()
	return d.above(ctx)
}

// above shows a pod that requests more than the limit allows, and a limit that is raised.
func (d *demo) above(ctx context.Context) error {
	limit := &v1alpha1.ResourceLimit{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: limitName}, limit); err != nil {
		return fmt.Errorf("read ResourceLimit %s: %w", limitName, err)
	}
	d.say("A pod of this size may request %s CPU. A rollout with pods that request 2 is pending, and the previous pods keep running:",
		limit.Spec.CPULimit.String())
	change := `{"spec":{"template":{"spec":{"containers":[{"name":"tool","resources":{"requests":{"cpu":"2"}}}]}}}}`
	if err := d.patch(ctx, tool, change); err != nil {
		return err
	}
	d.command("kubectl set resources deployment tool --requests=cpu=2,memory=256Mi")
	pic, err := d.until(ctx, "a pod of tool is pending", func(pic picture) (bool, string) {
		return len(waiting(pic.of(tool))) > 0, fmt.Sprintf("%d pods of tool", len(pic.of(tool)))
	})
	if err != nil {
		return err
	}
	text, err := d.eventOf(ctx, &waiting(pic.of(tool))[0], "FailedScheduling")
	if err != nil {
		return err
	}
	d.quote("FailedScheduling: %s", aboutNodes(text))
	d.results.add(refusedBy(`pod is above ResourceLimit "default/small": cpu request 2 is above 1`, text))
	raise := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cpuLimit":"2"}}`))
	if err := d.client.Patch(ctx, limit, raise); err != nil {
		return fmt.Errorf("patch ResourceLimit %s: %w", limitName, err)
	}
	d.command(`kubectl patch resourcelimit small --type merge -p '{"spec":{"cpuLimit":"2"}}'`)
	if pic, err = d.untilReady(ctx, tool, toolReplicas); err != nil {
		return err
	}
	_, pods := architectures(pic)
	ok := d.results.add(noneForeign(pods))
	d.say("The scheduler retries the pod, and the rollout completes with %d pods, %d of them on %s: %s.",
		len(pic.of(tool)), pods[foreign], foreign, d.verdict(ok, "checked"))
	return nil
}

// architectures counts the nodes of each architecture, and the pods of tool on them.
func architectures(pic picture) (nodes, pods map[string]int) {
	nodes, pods = map[string]int{}, map[string]int{}
	for _, n := range pic.nodes {
		arch := n.labels[corev1.LabelArchStable]
		nodes[arch]++
		for _, p := range pic.on(n.name) {
			if p.app == tool {
				pods[arch]++
			}
		}
	}
	return nodes, pods
}

// noneForeign checks that all pods of tool run, none of them on the foreign architecture.
func noneForeign(pods map[string]int) (differs differences) {
	running := 0
	for _, count := range pods {
		running += count
	}
	if running != toolReplicas {
		differs.add("%s: %d pods run instead of %d", tool, running, toolReplicas)
	}
	if pods[foreign] != 0 {
		differs.add("%s: %d pods run on %s, which ResourceLimit %s excludes", tool, pods[foreign], foreign, limitName)
	}
	return differs
}

// refusedBy checks why a pod is pending.
func refusedBy(reason, message string) (differs differences) {
	if !strings.Contains(message, reason) {
		differs.add("%s: the pending pod has no reason %q: %s", tool, reason, message)
	}
	return differs
}
