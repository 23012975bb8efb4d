// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Pods are deleted, groups come and go, nodes are full, drained, and gone, and the scheduler and the operator restart: a group may have to
// wait, and to borrow, but it is on one type at every moment. `make test-faults` has 200 faults, in minutes, and has nodes vanish.
func TestAGroupIsOnOneTypeWhateverHappens(t *testing.T) {
	for seed := range uint64(testenv.Length(1, 5)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newChaos(t, rand.New(rand.NewPCG(seed, 4))).run() })
	}
}

// faultsOfARun are so many that pods, groups, nodes and programs are lost several times each.
var faultsOfARun = testenv.Length(20, 40)

// chaos loses parts of a LeaderWorkerSet, of its nodes and of its programs.
type chaos struct {
	*leaderWorkers
	random *rand.Rand
	mix    split.Mix
	record *testenv.Recording
	// types are those of all nodes that there have been since the scheduler started; nodes is how many there have been at all.
	types map[string]capacity.Type
	nodes int
}

func newChaos(t *testing.T, random *rand.Rand) *chaos {
	t.Helper()
	// Eight groups of three fit only just, and parts of groups do where a whole one does not.
	w := testenv.New(t)
	w.Create(builders.CapacityMix("lws", 60, 1))
	c := &chaos{
		leaderWorkers: newLeaderWorkers(w, "lws", 3, builders.TerminatesFor(time.Second)),
		random:        random, mix: split.New(60, 1), record: w.Record("lws"), types: map[string]capacity.Type{},
	}
	for range 2 {
		c.addNode(capacity.Spot, 7)
		c.addNode(capacity.OnDemand, 5)
	}
	return c
}

func (c *chaos) run() {
	c.scaleTo(6, c.mix)
	faults := []func(){
		c.losePod, c.losePod, c.loseLeader, c.loseLeader, c.changeScale, c.changeScale, c.cordonSome, c.cordonSome, c.drainNode,
		c.restartScheduler, c.restartOperator,
	}
	if testenv.Length(0, 1) > 0 { // the garbage collector finds the pods of a node that is gone after a minute
		faults = append(faults, c.removeNode)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range faultsOfARun {
		<-tick.C
		faults[c.random.IntN(len(faults))]()
	}
	c.recover()
}

// recover has the groups run again, and demands that each is where it belongs once it has been created again as a whole.
func (c *chaos) recover() {
	c.Cordon(false, slices.Collect(maps.Keys(c.Types()))...)
	c.addNode(capacity.Spot, 50)
	c.addNode(capacity.OnDemand, 50)
	c.scale(8)
	c.Eventually("all pods run on nodes that exist", func() (bool, string) {
		live, nodes := c.Live("lws"), c.Types()
		lost := testenv.Where(live, func(p *corev1.Pod) bool { return !testenv.Ready(p) || nodes[p.Spec.NodeName] == capacity.Unknown })
		return len(live) == 24 && len(lost) == 0, fmt.Sprintf("%d pods, %d without a node", len(live), len(lost))
	})
	c.logf("all groups run")
	requireUnitsWhole(c.World, c.record, c.types, groupKey)
	c.requireSlots(c.Live("lws"))
	for index := range 8 {
		group := c.group(index)
		evictFirstItsWorkers(c.World, fmt.Sprintf("lws-%d", index))
		c.WaitGone(group)
	}
	c.waitUnits(8, c.mix)
	requireUnitsWhole(c.World, c.record, c.types, groupKey)
}

func (c *chaos) addNode(t capacity.Type, pods int) {
	c.T.Helper()
	name := fmt.Sprintf("%s-%d", t, c.nodes)
	c.nodes++
	c.AddNodes(room(name, t.String(), pods))
	c.types[name] = t
}

// node is one that exists.
func (c *chaos) node() string {
	nodes := slices.Sorted(maps.Keys(c.Types()))
	return nodes[c.random.IntN(len(nodes))]
}

// logf logs a fault with its time, as a failure shows the events of pods.
func (c *chaos) logf(format string, args ...any) {
	c.T.Helper()
	c.T.Logf(time.Now().Format("15:04:05.000 ")+format, args...)
}

func (c *chaos) restartScheduler() {
	c.logf("the scheduler restarts")
	restart(c.World, testenv.SchedulerOptions(testenv.SecondScheduler), func() {
		c.forgetNodes()
		c.losePod()
	})
	c.logf("the scheduler runs")
}

// forgetNodes demands that groups were on one type up to now. The next scheduler has no type for a node that is gone by then, so pods that
// have that node do not count from then on.
func (c *chaos) forgetNodes() {
	requireUnitsWhole(c.World, c.record, c.types, groupKey)
	c.record, c.types = c.Record("lws"), c.Types()
}

func (c *chaos) restartOperator() {
	c.logf("the operator restarts")
	c.RestartOperator(cluster.LWS, c.losePod)
	c.logf("the operator runs")
}

func (c *chaos) losePod() {
	if live := c.Live("lws"); len(live) > 0 {
		c.lose(live[c.random.IntN(len(live))].Name)
	}
}

func (c *chaos) loseLeader() { c.lose(fmt.Sprintf("lws-%d", c.random.IntN(8))) }

func (c *chaos) lose(pod string) {
	c.logf("pod %s is deleted", pod)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: pod}}
	require.NoError(c.T, client.IgnoreNotFound(c.Client.Delete(c.Ctx, p)))
}

func (c *chaos) changeScale() {
	groups := 2 + c.random.IntN(7)
	c.logf("%d groups", groups)
	c.scale(groups)
}

func (c *chaos) cordonSome() {
	cordoned, node := c.random.IntN(2) == 0, c.node()
	c.logf("node %s is cordoned: %t", node, cordoned)
	c.Cordon(cordoned, node)
}

// drainNode loses the pods of a node, which takes no pods from then on.
func (c *chaos) drainNode() {
	node := c.node()
	c.logf("node %s is drained", node)
	c.Cordon(true, node)
	for _, p := range c.Pods(client.MatchingFields{"spec.nodeName": node}) {
		c.lose(p.Name)
	}
}

// removeNode has a node vanish with its pods, which exist until the garbage collector finds them, and another one take its place.
func (c *chaos) removeNode() {
	name := c.node()
	c.logf("node %s vanishes", name)
	node := testenv.ReadIn(c.World, "", name, &corev1.Node{})
	c.Delete(node)
	c.addNode(c.types[name], int(node.Status.Allocatable.Pods().Value()))
}

// The pods of a node that is gone without a drain are there until the garbage collector has found them.
func TestAGroupIsOnOneTypeWhenItsNodeVanishes(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4)
	record, nodes := w.Record("lws"), w.Types()
	before := o.scaleTo(10, m)
	var lost []corev1.Pod
	for _, name := range []string{"spot-1", "spot-2", "on-demand-1"} {
		lost = append(lost, testenv.Where(w.Live("lws"), func(p *corev1.Pod) bool { return p.Spec.NodeName == name })...)
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	require.NotEmpty(t, lost)
	w.WaitGone(lost)
	require.Equal(t, before, o.waitUnits(10, m))
	requireUnitsWhole(w, record, nodes, groupKey)
}
