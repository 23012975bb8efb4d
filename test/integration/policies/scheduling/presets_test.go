// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// envPicture names a file that the picture of docs/scheduling-policies.md is written to: make presets-picture.
const envPicture = "BERTH_PICTURE"

// twenty are nodes of two sizes in four zones, half of them spot.
func twenty() (nodes []cluster.NodeSpec) {
	for i := range 20 {
		n := cluster.NodeSpec{Zone: "zone-" + string(rune('a'+i%4)), CPU: "4", Memory: "16Gi", InstanceType: "small", CapacityType: "spot"}
		if i%2 == 1 {
			n.CPU, n.InstanceType = "8", "large"
		}
		if i >= 10 {
			n.CapacityType = "on-demand"
		}
		n.Name = fmt.Sprintf("n%02d", i)
		nodes = append(nodes, n)
	}
	return nodes
}

// filled is how a preset filled a node.
type filled struct {
	pods int
	// cpu and memory are the requested shares.
	cpu, memory float64
	// kinds are the requests of one pod of each workload on the node.
	kinds map[string]corev1.ResourceList
}

// fits reports whether one more pod would fit.
func (f filled) fits(node cluster.NodeSpec, requests corev1.ResourceList) bool {
	cpu, memory := shares(node, requests)
	return f.cpu+cpu <= 1 && f.memory+memory <= 1
}

// shares returns what share of a node's CPU and memory a pod requests.
func shares(node cluster.NodeSpec, requests corev1.ResourceList) (cpu, memory float64) {
	all := builders.Requests(node.CPU, node.Memory)
	return requests.Cpu().AsApproximateFloat64() / all.Cpu().AsApproximateFloat64(),
		requests.Memory().AsApproximateFloat64() / all.Memory().AsApproximateFloat64()
}

// 200 pods of two shapes on 20 nodes, by each preset: what docs/scheduling-policies.md shows.
func TestPresetsFillNodesInTheirWay(t *testing.T) {
	nodes := twenty()
	w := testenv.New(t, nodes...)
	start(w)
	presets := []v1alpha1.ScorePreset{
		v1alpha1.ScorePresetBalanced, v1alpha1.ScorePresetSpread, v1alpha1.ScorePresetPack, v1alpha1.ScorePresetLocality, v1alpha1.ScorePresetCost,
	}
	by := map[v1alpha1.ScorePreset][]filled{}
	for _, name := range presets {
		p := builders.SchedulingPolicy("all", preset(name))
		near := builders.PreferNodeLabel("topology.kubernetes.io/zone", "zone-b")
		if name != v1alpha1.ScorePresetLocality {
			near = func(*corev1.PodTemplateSpec) {}
		}
		memory := func(quantity string) func(*corev1.PodTemplateSpec) {
			return func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = builders.Requests("0", quantity)[corev1.ResourceMemory]
			}
		}
		small := builders.Deployment("memory", 100, builders.CPU("250m"), memory("1Gi"), near)
		large := builders.Deployment("cpu", 100, builders.CPU("500m"), memory("512Mi"), near)
		w.Create(p, small, large)
		pods := append(w.WaitBound("memory", 100), w.WaitBound("cpu", 100)...)
		by[name] = fill(nodes, pods)
		w.Delete(p)
		w.Delete(small)
		w.Delete(large)
		w.WaitDeleted(small)
		w.WaitDeleted(large)
		w.WaitGone(pods)
	}
	for _, name := range presets {
		t.Logf("%-9s", name)
		for i, f := range by[name] {
			t.Logf("%s %d pods, CPU %.2f, memory %.2f", nodes[i].Name, f.pods, f.cpu, f.memory)
		}
	}
	pack, spread, cost, locality := by[v1alpha1.ScorePresetPack], by[v1alpha1.ScorePresetSpread], by[v1alpha1.ScorePresetCost], by[v1alpha1.ScorePresetLocality]
	assert.LessOrEqual(t, inUse(pack), 18, "small nodes first: 40 CPUs of 75 and at least 40 GiB of 150, and 110 GiB fill seven large nodes")
	assert.Equal(t, 20, inUse(spread))
	least, most := 200, 0
	for _, n := range spread {
		least, most = min(least, n.pods), max(most, n.pods)
	}
	assert.LessOrEqual(t, most-least, 8, "two workloads over nodes of which half have half the CPU")
	for i := range nodes[:10] {
		for j := range cost[10:] {
			for _, kind := range cost[10+j].kinds {
				// Pods only come, so a node with room at the end had room when the pod was placed.
				assert.False(t, cost[i].fits(nodes[i], kind), "%s has room for a pod of %s: spot nodes are used first", nodes[i].Name, nodes[10+j].Name)
			}
		}
	}
	inZone := 0
	for i := range nodes {
		if nodes[i].Zone == "zone-b" {
			inZone += locality[i].pods
		}
	}
	assert.GreaterOrEqual(t, inZone, 80, "the five nodes of the zone have 40 CPUs")
	if file := os.Getenv(envPicture); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(picture(nodes, presets, by)), 0o644))
	}
}

// fill returns how nodes are filled by pods.
func fill(nodes []cluster.NodeSpec, pods []corev1.Pod) []filled {
	out := make([]filled, len(nodes))
	for i := range nodes {
		out[i].kinds = map[string]corev1.ResourceList{}
		for p := range pods {
			if pods[p].Spec.NodeName == nodes[i].Name {
				requests := pods[p].Spec.Containers[0].Resources.Requests
				cpu, memory := shares(nodes[i], requests)
				out[i].pods++
				out[i].cpu += cpu
				out[i].memory += memory
				out[i].kinds[pods[p].Labels["app"]] = requests
			}
		}
	}
	return out
}

func inUse(nodes []filled) (n int) {
	for i := range nodes {
		if nodes[i].pods > 0 {
			n++
		}
	}
	return n
}

const (
	left, column, rowHeight, barHeight = 90, 30, 92, 60
	width                              = left + 20*column + 10
)

// picture draws a row of bars for each preset: the height of a bar is the requested share of the node's CPU, and the
// number above it is that of pods. Spot nodes are hatched.
func picture(nodes []cluster.NodeSpec, presets []v1alpha1.ScorePreset, by map[v1alpha1.ScorePreset][]filled) string {
	var b strings.Builder
	height := 30 + rowHeight*len(presets) + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="11" role="img">`+"\n", width, height, width)
	b.WriteString("<title>200 pods on 20 nodes, by preset: requested CPU and number of pods of each node</title>\n")
	b.WriteString(`<defs><pattern id="spot" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#9ec5e8"/><rect width="2" height="6" fill="#1f5f99"/></pattern></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18" text-anchor="middle">10 spot nodes</text><text x="%d" y="18" text-anchor="middle">10 on-demand nodes</text>`+"\n", left+5*column, left+15*column)
	for row, name := range presets {
		base := 30 + rowHeight*row + barHeight + 18
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="bold">%s</text><text x="8" y="%d" fill="#444">%d nodes used</text>`+"\n", base-30, name, base-14, inUse(by[name]))
		for i, n := range by[name] {
			x, h := left+i*column, n.cpu*barHeight
			fill := "#d9822b"
			if nodes[i].CapacityType == "spot" {
				fill = "url(#spot)"
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#bbb"/>`, x+3, base-barHeight, column-6, barHeight)
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`, x+3, float64(base)-h, column-6, h, fill)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%d</text>`+"\n", x+column/2, base-barHeight-3, n.pods)
		}
	}
	for i := range nodes {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#444">%s%s</text>`+"\n", left+i*column+column/2, height-14, strings.TrimPrefix(nodes[i].Zone, "zone-"), nodes[i].CPU)
	}
	fmt.Fprintf(&b, `<text x="8" y="%d" fill="#444">zone, CPUs</text>`+"\n", height-14)
	b.WriteString("</svg>\n")
	return b.String()
}
