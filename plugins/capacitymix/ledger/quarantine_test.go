// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

var spreadKeys = []string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}

// Nodes come and go, change their domain, and domains enter and leave quarantine, in any order.
func TestTheNodesOfDomainsInQuarantineAreAvoided(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger(t)
		nodes := map[string]*corev1.Node{}
		quarantine := map[string]time.Time{}
		in := func(n *corev1.Node) bool {
			_, is := quarantine[capacity.Domain(n.Labels, spreadKeys)]
			return is && n.Labels[typeLabel] == "spot"
		}
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				name := fmt.Sprint("node-", rapid.IntRange(0, 12).Draw(rt, "n"))
				typ := rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(rt, "type")
				nodes[name] = node(name, typ, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "zone"))
				nodes[name].Spec.Unschedulable = rapid.Bool().Draw(rt, "cordoned")
				l.SetNode(nodes[name])
			},
			"delete": func(rt *rapid.T) {
				name := fmt.Sprint("node-", rapid.IntRange(0, 12).Draw(rt, "n"))
				delete(nodes, name)
				l.DeleteNode(name)
			},
			"quarantine": func(rt *rapid.T) {
				quarantine = map[string]time.Time{}
				for _, zone := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string]).Draw(rt, "zones") {
					quarantine[capacity.Domain(node("any", "spot", zone).Labels, spreadKeys)] = time.Unix(1, 0)
				}
				l.Quarantine(quarantine)
				require.Equal(rt, len(quarantine) == 0, l.InQuarantine() == nil)
			},
			"": func(rt *rapid.T) {
				var avoided, others []string
				for name, n := range nodes {
					got, known := l.Node(name)
					require.True(rt, known)
					require.Equal(rt, in(n), got.Quarantined, name)
					switch {
					case n.Spec.Unschedulable || got.Type != capacity.Spot:
					case got.Quarantined:
						avoided = append(avoided, name)
					default:
						others = append(others, name)
					}
				}
				require.ElementsMatch(rt, others, l.Sample(capacity.Spot, 100))
				require.ElementsMatch(rt, avoided, l.SampleAvoided(100))
				require.Equal(rt, len(others)+len(avoided), l.Side(capacity.Spot))
			},
		})
	})
}

func TestAQuarantineIsOfSpotNodesOnly(t *testing.T) {
	l := newLedger(t)
	n := node("o", "on-demand", "a")
	l.SetNode(n)
	l.Quarantine(map[string]time.Time{capacity.Domain(n.Labels, spreadKeys): time.Unix(1, 0)})
	got, _ := l.Node("o")
	assert.False(t, got.Quarantined)
	assert.Equal(t, []string{"o"}, l.Sample(capacity.OnDemand, 9))
}

// What is counted has the pods tried again that a quarantine refused: in a storm, most changes are of nodes in quarantine.
func TestWhatMayLeaveAPodAnotherAnswerIsCounted(t *testing.T) {
	l := newLedger(t)
	domain := func(zone string) string { return capacity.Domain(node("any", "spot", zone).Labels, spreadKeys) }
	count := func(change func()) uint64 {
		before := l.QuarantineChanges()
		change()
		return l.QuarantineChanges() - before
	}
	set := func(name, capacityType, zone string, changes ...func(*corev1.Node)) func() {
		return func() {
			n := node(name, capacityType, zone)
			for _, change := range changes {
				change(n)
			}
			l.SetNode(n)
		}
	}
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	until := func(at time.Time, zones ...string) func() {
		return func() {
			m := map[string]time.Time{}
			for _, zone := range zones {
				m[domain(zone)] = at
			}
			l.Quarantine(m)
		}
	}
	set("a", "spot", "a")()
	set("b", "spot", "b")()
	set("o", "on-demand", "b")()
	assert.Zero(t, count(func() { l.DeleteNode("b") }), "nothing is in quarantine")
	set("b", "spot", "b")()
	assert.EqualValues(t, 1, count(until(time.Unix(1, 0), "a")))
	assert.Zero(t, count(until(time.Unix(1, 0), "a")))
	assert.Zero(t, count(until(time.Unix(9, 0), "a")), "it ends later")
	assert.Equal(t, time.Unix(9, 0), l.InQuarantine().Until[domain("a")])

	assert.EqualValues(t, 1, count(set("b", "spot", "b", cordon)))
	assert.Zero(t, count(set("b", "spot", "b")), "a node more")
	assert.EqualValues(t, 1, count(set("b", "spot", "c")), "another domain may be full")
	assert.EqualValues(t, 1, count(set("b", "spot", "a")), "into quarantine")
	assert.Zero(t, count(set("b", "spot", "a", cordon)))
	assert.Zero(t, count(set("b", "spot", "b")))
	assert.EqualValues(t, 1, count(func() { l.DeleteNode("b") }))
	for _, in := range []string{"a", "o", "b"} {
		assert.Zero(t, count(func() { l.DeleteNode(in) }), in)
	}
	assert.EqualValues(t, 1, count(until(time.Time{})))
}

func TestANodeThatTheLedgerDoesNotHaveIsInQuarantine(t *testing.T) {
	l := newLedger(t)
	spot, onDemand := node("s", "spot", "a"), node("o", "on-demand", "a")
	assert.False(t, l.Describe(spot).Quarantined)
	l.Quarantine(map[string]time.Time{capacity.Domain(spot.Labels, spreadKeys): time.Unix(1, 0)})
	assert.True(t, l.Describe(spot).Quarantined)
	assert.False(t, l.Describe(onDemand).Quarantined)
	assert.True(t, l.Describe(node("s", "spot", "b")).OutsideQuarantine())
}
