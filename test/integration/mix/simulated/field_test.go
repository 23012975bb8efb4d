// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// notice is the taint of a spot node that the provider reclaims.
const notice = "aws-node-termination-handler/spot-itn"

// field is the real control plane of a trace.
type field struct {
	*testenv.World
	*trace
	deployments []*appsv1.Deployment
}

func newField(t *testing.T, of *trace) *field {
	t.Helper()
	f := &field{World: testenv.New(t), trace: of}
	f.resize(make([]int, len(of.pools)), of.full())
	f.Controller(configure)
	return f
}

// apply does what a step has.
func (f *field) apply(i int) {
	f.T.Helper()
	s := &f.steps[i]
	switch s.kind {
	case create:
		for n := range f.mixes {
			f.deployments = append(f.deployments, builders.Deployment(appOf(n), int32(s.replicas[n])))
			f.Create(f.mixOf(n), f.deployments[n])
		}
	case scaleUp, scaleDown:
		f.Scale(f.deployments[s.of], int32(s.replicas[s.of]))
	case rollOut, nothing:
		testenv.Patch(f.World, f.deployments[s.of], func(d *appsv1.Deployment) {
			d.Annotations["step"] = strconv.Itoa(i)
			if s.kind == rollOut {
				d.Spec.Template.Annotations = map[string]string{"step": strconv.Itoa(i)}
			}
		})
	case lose, loseAll, drain, restore:
		f.resize(f.steps[i-1].nodes, s.nodes)
	}
}

func (f *field) mixOf(n int) *v1alpha1.CapacityMix {
	return builders.CapacityMix(appOf(n), 0, 0, func(m *v1alpha1.CapacityMix) {
		selector := m.Spec.Selector
		m.Spec = *f.mixes[n].DeepCopy()
		m.Spec.Selector = selector
	})
}

// resize has nodes come and go. Spot nodes are reclaimed, and on-demand nodes are drained.
func (f *field) resize(before, after []int) {
	f.T.Helper()
	var come, leave []cluster.NodeSpec
	for i := range f.pools {
		come, leave = append(come, f.nodes(i, before[i], after[i])...), append(leave, f.nodes(i, after[i], before[i])...)
	}
	f.AddNodes(come...)
	for _, n := range leave {
		f.ChangeNode(n.Name, func(o *corev1.Node) {
			if o.Spec.Unschedulable = n.CapacityType == onDemand; n.CapacityType == spot {
				o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: notice, Effect: corev1.TaintEffectNoSchedule})
			}
		})
	}
	for _, n := range leave {
		if n.CapacityType == onDemand {
			f.WaitGone(f.Evict(n.Name))
		}
		f.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
	}
}

// nodes are those of a pool from one number to another.
func (f *field) nodes(pool, from, to int) (nodes []cluster.NodeSpec) {
	p := &f.pools[pool]
	for n := from; n < to; n++ {
		nodes = append(nodes, cluster.NodeSpec{
			Name: fmt.Sprintf("%s-%d", p.Name, n), CapacityType: p.CapacityType, Zone: p.Zone, InstanceType: p.InstanceType,
			CPU: p.CPU.String(), Memory: p.Memory.String(), Pods: int(p.Pods),
		})
	}
	return nodes
}

// require waits until all workloads are at rest, and have what is wanted.
func (f *field) require(i int, wanted []seen) {
	f.T.Helper()
	f.Eventually(fmt.Sprintf("the cluster has what the simulator has after step %d, %s: %+v", i, f.steps[i].kind, wanted), func() (bool, string) {
		f.bury()
		var now []seen
		rest := true
		for n := range f.mixes {
			now = append(now, f.now(n))
			require.LessOrEqual(f.T, now[n].moves, wanted[n].moves, "moves of %s after step %d, %s", appOf(n), i, f.steps[i].kind)
			rest = rest && f.rests(n, now[n].borrowed == 0)
		}
		return rest && slices.Equal(wanted, now), fmt.Sprintf("%+v, at rest: %t", now, rest)
	})
}

// now is what a workload has.
func (f *field) now(n int) seen {
	f.T.Helper()
	moves := 0
	for _, r := range f.EvictionsOf(appOf(n)) {
		if r.OK() && !r.DryRun {
			moves++
		}
	}
	return f.look(n, f.Live(appOf(n)), placesOf(testenv.List(f.World, &corev1.NodeList{}).Items), moves)
}

// rests reports whether a Deployment is complete, and its mix is as reported where it is satisfied.
func (f *field) rests(n int, satisfied bool) bool {
	f.T.Helper()
	d := testenv.Read(f.World, appOf(n), &appsv1.Deployment{})
	s := &d.Status
	if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas {
		return false
	}
	mix := f.Mix(appOf(n))
	return !satisfied || mix.Status.ObservedGeneration == mix.Generation &&
		testenv.Condition(&mix.Status, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact) &&
		testenv.Condition(&mix.Status, v1alpha1.ConditionRebalancing, false, "OnTarget")
}

// bury deletes the pods whose node is gone. The pod garbage collector would take a minute for it, and the scheduler may have bound one a
// moment too late.
func (f *field) bury() {
	f.T.Helper()
	types := f.Types()
	for _, p := range f.Pods() {
		if _, there := types[p.Spec.NodeName]; p.Spec.NodeName != "" && !there {
			err := f.Client.Delete(f.Ctx, &p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
			require.NoError(f.T, client.IgnoreNotFound(err))
		}
	}
}
