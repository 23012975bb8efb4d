// SPDX-License-Identifier: Apache-2.0

// Package interruptions_test proves, on a real control plane, that pods avoid the interruption domains whose spot nodes are reclaimed,
// for as long as their quarantine lasts, and that nothing else starts one.
package interruptions_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	configMap = "berth-controller-interruptions"
	notice    = "aws-node-termination-handler/spot-itn"
	// quarantine is long enough for what a test does meanwhile on a busy machine.
	quarantine = 60 * time.Second
	replicas   = 24
)

// brief shortens quarantines.
func brief(c *controller.Configuration) {
	c.Mix.Interruptions.QuarantineSeconds = int32(quarantine.Seconds())
	c.Mix.Interruptions.MaxQuarantineSeconds = int32(quarantine.Seconds())
}

// field is a world with three spot nodes in each of six interruption domains.
type field struct {
	*testenv.World
	controller *cluster.Controller
	spot       []cluster.NodeSpec
	domains    map[string]string // by node
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{spot: cluster.Nodes("spot", 18), domains: map[string]string{}}
	f.World = testenv.New(t, append(f.spot, cluster.Nodes("on-demand", 2)...)...)
	for _, n := range f.spot {
		f.domains[n.Name] = n.Zone + "/" + n.InstanceType
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: configMap}}
	require.NoError(t, client.IgnoreNotFound(f.Client.Delete(f.Ctx, object)))
	f.controller = f.Controller(testenv.Impatient, brief)
	return f
}

func (f *field) taint(key string, nodes ...string) {
	f.T.Helper()
	for _, name := range nodes {
		f.ChangeNode(name, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		})
	}
}

// waitQuarantined waits until the scheduler avoids so many domains.
func (f *field) waitQuarantined(n int, within time.Duration) {
	f.T.Helper()
	testenv.Becomes(f.UpTo(within+testenv.SettleTimeout), "domains in quarantine", n, f.quarantined)
}

func (f *field) quarantined() int {
	f.T.Helper()
	return f.Metric(f.Scheduler(), "berth_scheduler_quarantined_domains", nil)
}

// perDomain counts the pods of an app, which are bound to spot nodes, by their domain.
func (f *field) perDomain(app string, n int) map[string]int {
	f.T.Helper()
	counts := map[string]int{}
	for _, p := range f.WaitBound(app, n) {
		counts[f.domains[p.Spec.NodeName]]++
	}
	return counts
}

func (f *field) run(app string, n int) map[string]int {
	f.T.Helper()
	f.Create(builders.CapacityMix(app, 100, 0), builders.Deployment(app, int32(n)))
	return f.perDomain(app, n)
}

// counted is what the ConfigMap has.
func (f *field) counted() string {
	f.T.Helper()
	object := testenv.ReadIn(f.World, "berth-system", configMap, &corev1.ConfigMap{})
	return object.Data[interruptions.DataKey]
}

func TestPodsAvoidDomainsThatLoseNodesForAWhile(t *testing.T) {
	f := newField(t)
	f.taint(notice, "spot-0", "spot-1")
	lost := []string{f.domains["spot-0"], f.domains["spot-1"]}
	f.waitQuarantined(2, 0)
	counts := f.run("early", 8)
	for _, domain := range lost {
		assert.Zero(t, counts[domain], "%s has two nodes that take pods: %v", domain, counts)
	}
	assert.Len(t, counts, 4, "the others are spread over what is left: %v", counts)

	before := f.counted()
	testenv.End(f.controller, true)
	f.controller = f.NamedController("berth-controller-next", testenv.Impatient, brief)
	testenv.Becomes(f.World, "the next leader has read the interruptions", true, func() bool {
		return strings.Contains(f.served(), "berth_mix_quarantined_domains")
	})
	assert.Equal(t, before, f.counted(), "no node counts twice")

	f.waitQuarantined(0, quarantine)
	counts = f.run("late", replicas)
	for _, domain := range lost {
		assert.NotZero(t, counts[domain], "%s: %v", domain, counts)
	}
	f.taint(notice, "spot-2") // the next leader counts, too
	f.waitQuarantined(1, 0)
}

// 14 replicas that run on 14 nodes need two nodes of the domains in quarantine, which have four that take pods.
func TestAMixThatAvoidsDomainsWaitsForTheEndOfTheQuarantine(t *testing.T) {
	f := newField(t)
	f.taint(notice, "spot-0", "spot-1")
	lost := map[string]bool{f.domains["spot-0"]: true, f.domains["spot-1"]: true}
	f.waitQuarantined(2, 0)
	waits := builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)
	f.Create(
		builders.CapacityMix("web", 100, 0, builders.AvoidInterrupted, waits),
		builders.Deployment("web", 14, builders.AwayFrom("web")),
		builders.CapacityMix("pinned", 100, 0, builders.AvoidInterrupted, waits),
		builders.Deployment("pinned", 1, builders.OnNodesWith(corev1.LabelTopologyZone, f.spot[0].Zone),
			builders.OnNodesWith(corev1.LabelInstanceTypeStable, f.spot[0].InstanceType)),
		builders.CapacityMix("gated", 100, 0, builders.AvoidInterrupted),
		builders.Deployment("gated", 6, builders.Gated),
	)
	f.Eventually("12 pods run, and the others have the reason for both domains", func() (bool, string) {
		bound, told := 0, 0
		for _, p := range f.Live("web") {
			why := testenv.Unschedulable(&p)
			has := func(domain string) bool {
				return strings.Contains(why, "2 node(s) are in interruption domain "+domain+", which is in quarantine until ")
			}
			switch {
			case p.Spec.NodeName != "":
				bound++
			case has(f.domains["spot-0"]) && has(f.domains["spot-1"]):
				told++
			}
		}
		return bound == 12 && told == 2, fmt.Sprintf("%d bound, %d told", bound, told)
	})
	inLost := func(app string, n int) (count int) {
		for domain, pods := range f.perDomain(app, n) {
			if lost[domain] {
				count += pods
			}
		}
		return count
	}
	assert.Equal(t, 1, inLost("pinned", 1), "no other domain has nodes that it can use")
	assert.Zero(t, inLost("gated", 6))
	for _, p := range f.Live("gated") {
		assert.NotEmpty(t, p.Annotations[v1alpha1.QuarantineTermsAnnotation])
		selects := nodeaffinity.GetRequiredNodeAffinity(&p)
		for _, n := range testenv.List(f.World, &corev1.NodeList{}).Items {
			matches, err := selects.Match(&n)
			require.NoError(t, err)
			domain, isSpot := f.domains[n.Name]
			assert.Equal(t, isSpot && !lost[domain], matches, "%s in its node affinity", n.Name)
		}
	}
	for _, p := range testenv.Where(f.Live("web"), testenv.Bound) {
		assert.False(t, lost[f.domains[p.Spec.NodeName]], "%s on %s", p.Name, p.Spec.NodeName)
	}
	f.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: configMap}})
	assert.Equal(t, 2, inLost("web", 14), "the end of the quarantine wakes them")
}

// served are the metrics of the controller.
func (f *field) served() string {
	f.T.Helper()
	text, err := f.controller.Get(f.Ctx, "/metrics")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Each of these takes two of the three nodes of a domain.
func TestNothingElseStartsAQuarantine(t *testing.T) {
	f := newField(t)
	node := func(domain, i int) string { return fmt.Sprint("spot-", domain+6*i) }
	gone := func(nodes ...string) {
		for _, n := range nodes {
			f.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
		}
	}
	f.Create(builders.CapacityMix("web", 100, 0), builders.Deployment("web", replicas))
	f.WaitBound("web", replicas)
	f.taint("karpenter.sh/disrupted", node(0, 0), node(0, 1))
	gone(node(0, 0), node(0, 1))
	f.taint("ToBeDeletedByClusterAutoscaler", node(1, 0), node(1, 1))
	gone(node(1, 0))
	f.Drain(node(2, 0), node(2, 1))
	gone(node(2, 0))
	f.taint(corev1.TaintNodeOutOfService, node(3, 0), node(3, 1))
	gone(node(3, 1))

	// What a tenant may write.
	table := interruptions.Table{Keys: []string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}}
	table, _ = table.Observe(interruptions.Interruption{Node: "x", Domain: f.domains[node(4, 0)]}, time.Now(),
		interruptions.Settings{SharePercent: 1, Quarantine: time.Hour, Longest: time.Hour})
	text, err := table.Encode()
	require.NoError(t, err)
	f.Create(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMap}, Data: map[string]string{interruptions.DataKey: text}},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "spot"}, Reason: "SpotInterrupted", Type: corev1.EventTypeWarning,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: f.Namespace, Name: "web"},
		},
	)
	f.Always(testenv.Holds, "no domain is in quarantine", func() (bool, string) {
		n := f.quarantined()
		return n == 0, fmt.Sprint(n)
	})
	assert.Zero(t, f.Metric(f.controller, "berth_mix_interruptions_total", nil))
	assert.Zero(t, f.Metric(f.controller, "berth_mix_quarantined_domains", nil))

	f.taint(notice, node(5, 0)) // it can fail
	f.waitQuarantined(1, 0)
}
