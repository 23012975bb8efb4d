// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/test/builders"
)

// machineTypes are the CPUs and the memory of nodes.
var machineTypes = []struct{ name, cpu, memory string }{
	{"m.xlarge", "4", "16Gi"},
	{"m.2xlarge", "8", "32Gi"},
	{"m.4xlarge", "16", "64Gi"},
	{"c.4xlarge", "16", "32Gi"},
	{"r.4xlarge", "16", "128Gi"},
}

// shapes are what the pods of workloads request.
var shapes = [][2]string{{"250m", "512Mi"}, {"100m", "1Gi"}, {"500m", "2Gi"}, {"2", "4Gi"}, {"1", "6Gi"}}

// uneven is a cluster whose nodes differ in type and zone, of which some are used to different degrees, with pods of workloads
// of different shapes.
func uneven(s Scenario, used float64) *cluster {
	c, random := newCluster(s, BerthPolicy), rand.New(rand.NewPCG(1, 0))
	for i := range c.nodes {
		n, m := &c.nodes[i], machineTypes[random.IntN(len(machineTypes))]
		n.Labels[corev1.LabelInstanceTypeStable] = m.name
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", random.IntN(zones))
		n.Status.Allocatable = builders.Requests(m.cpu, m.memory)
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		if random.Float64() >= used {
			continue
		}
		p := filler(n.Name)
		part := func(q *resource.Quantity) resource.Quantity {
			return *resource.NewMilliQuantity(int64(0.7*random.Float64()*float64(q.MilliValue())), q.Format)
		}
		p.UID = types.UID(p.Name)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: part(n.Status.Allocatable.Cpu()), corev1.ResourceMemory: part(n.Status.Allocatable.Memory()),
		}
		c.existing = append(c.existing, p)
	}
	for i := range c.pods {
		shape := shapes[i%s.Groups%len(shapes)]
		c.pods[i].Spec.Containers[0].Resources.Requests = builders.Requests(shape[0], shape[1])
	}
	return c
}

// books are an account of the cluster apart from the scheduler's, by which all nodes are scored.
type books struct {
	functions []rules.Function
	nodes     []account
	index     map[string]int
	siblings  map[string]*spreadOf
}

// account is a node and what is used of it.
type account struct {
	name, zone, machine   string
	kind                  capacity.Type
	cpu, memory           int64
	usedCPU, usedMemory   int64
	pods, allowed, before int
}

// spreadOf are the numbers of pods of a workload by node, zone and machine type.
type spreadOf struct {
	nodes           map[int]int
	zones, machines map[string]int
}

func newBooks(t *testing.T, c *cluster, preset v1alpha1.ScorePreset) *books {
	t.Helper()
	r, err := rules.Compile(&v1alpha1.SchedulingRules{Score: &v1alpha1.ScoreRules{Preset: preset}})
	require.NoError(t, err)
	b := &books{functions: r.Functions, index: map[string]int{}, siblings: map[string]*spreadOf{}}
	for i := range c.nodes {
		n := &c.nodes[i]
		b.index[n.Name] = i
		b.nodes = append(b.nodes, account{
			name: n.Name, kind: c.types[n.Name], zone: n.Labels[corev1.LabelTopologyZone], machine: n.Labels[corev1.LabelInstanceTypeStable],
			cpu: n.Status.Allocatable.Cpu().MilliValue(), memory: n.Status.Allocatable.Memory().Value(),
			allowed: int(n.Status.Allocatable.Pods().Value()),
		})
	}
	for i := range c.existing {
		b.place(&c.existing[i], c.existing[i].Spec.NodeName)
	}
	for i := range b.nodes {
		b.nodes[i].before = b.nodes[i].pods
	}
	return b
}

func (b *books) place(pod *corev1.Pod, node string) {
	i := b.index[node]
	n, r := &b.nodes[i], pod.Spec.Containers[0].Resources.Requests
	n.usedCPU, n.usedMemory, n.pods = n.usedCPU+r.Cpu().MilliValue(), n.usedMemory+r.Memory().Value(), n.pods+1
	s := b.of(pod)
	s.nodes[i]++
	s.zones[n.zone]++
	s.machines[n.machine]++
}

func (b *books) of(pod *corev1.Pod) *spreadOf {
	app := pod.Labels["app"]
	if b.siblings[app] == nil {
		b.siblings[app] = &spreadOf{nodes: map[int]int{}, zones: map[string]int{}, machines: map[string]int{}}
	}
	return b.siblings[app]
}

func most[K comparable](counts map[K]int) (n int) {
	for _, c := range counts {
		n = max(n, c)
	}
	return n
}

// best returns the node that a policy would choose of all feasible nodes of a type, by score, load and name, with its score
// and that of another node, as shares in percent of the highest score that there is.
func (b *books) best(pod *corev1.Pod, kind capacity.Type, other string) (node string, highest, others float64) {
	r, s := pod.Spec.Containers[0].Resources.Requests, b.of(pod)
	cpu, memory := r.Cpu().MilliValue(), r.Memory().Value()
	fullest := score.Most{OnNode: most(s.nodes), InZone: most(s.zones), InDomain: most(s.machines)}
	var candidates []score.Candidate
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.kind != kind || n.usedCPU+cpu > n.cpu || n.usedMemory+memory > n.memory || n.pods == n.allowed {
			continue
		}
		f := score.Facts{
			CPU: score.Utilization(n.usedCPU+cpu, n.cpu), Memory: score.Utilization(n.usedMemory+memory, n.memory),
			OnNode: s.nodes[i], InZone: s.zones[n.zone], InDomain: s.machines[n.machine],
			Separation: score.Max, Constraint: score.Max, // the pods have no preferences and no constraints
		}
		c := score.Candidate{Node: n.name, Score: score.Sum(b.functions, &f, fullest) / b.coefficients(), Load: f.Load()}
		if candidates = append(candidates, c); c.Node == other {
			others = c.Score
		}
	}
	if len(candidates) == 0 {
		return "", 0, 0
	}
	chosen, _ := score.NewChooser(v1alpha1.TieBreakerLeastLoaded, nil).Choose(candidates)
	for i := range candidates {
		highest = max(highest, candidates[i].Score)
	}
	return candidates[chosen].Node, highest, others
}

func (b *books) coefficients() (sum float64) {
	for _, f := range b.functions {
		sum += f.Coefficient
	}
	return sum
}
