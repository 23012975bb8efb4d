// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

const typeLabel = "karpenter.sh/capacity-type"

// apiPod is a pod as the API server has it, and the claim of the scheduler on it.
type apiPod struct {
	pod   *corev1.Pod
	group governing.GroupKey
	node  string // "" while not bound
	// slot is the annotation of a bound pod, the claim of a pending one.
	slot     int
	reserved string // the node it is assumed on
}

// machine runs random operations against a ledger and, beside it, against a
// plain model of the API server.
type machine struct {
	t      require.TestingT
	pick   func(n int) int // a number below n
	ledger *ledger.Ledger
	pods   []*apiPod
	nodes  map[string]*corev1.Node
	mixes  map[governing.GroupKey]*governing.Mix
	serial int
	// failureDomains is the label by which siblings are counted, "" while they are not.
	failureDomains string
}

var spreadOver = []string{corev1.LabelTopologyZone}

// spreadLists are the lists of labels of mixes; that of the configuration is one of them.
var spreadLists = [][]string{nil, {corev1.LabelHostname}, {corev1.LabelTopologyZone}, {corev1.LabelTopologyZone, corev1.LabelHostname}, {"not.there"}}

// limitLists are the limits of mixes.
var limitLists = [][]domains.Limit{
	nil,
	{{Key: corev1.LabelTopologyZone, Count: 2}},
	{{Key: corev1.LabelHostname, Percent: 30}, {Key: corev1.LabelTopologyZone, Percent: 60}},
	{{Key: corev1.LabelTopologyZone, Count: 1, Soft: true}},
	{{Key: "not.there", Count: 1}},
}

func newMachine(t require.TestingT, pick func(int) int) *machine {
	m := &machine{
		t: t, pick: pick, ledger: newLedger(t, spreadOver...), nodes: map[string]*corev1.Node{}, mixes: map[governing.GroupKey]*governing.Mix{},
	}
	for i := range 3 {
		m.mixes[governing.GroupKey{Namespace: "ns", ID: fmt.Sprint(i)}] = &governing.Mix{Mix: split.New(int32(30*i+20), int32(i))}
	}
	for i := range 6 {
		m.setNode(fmt.Sprintf("node-%d", i))
	}
	return m
}

func (m *machine) groups() []governing.GroupKey {
	return slices.SortedFunc(maps.Keys(m.mixes), func(a, b governing.GroupKey) int { return strings.Compare(a.ID, b.ID) })
}

func (m *machine) setNode(name string) {
	labels := map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", m.pick(3)), corev1.LabelHostname: fmt.Sprint("host-", m.pick(4))}
	if t := []string{"spot", "on-demand", ""}[m.pick(3)]; t != "" {
		labels[typeLabel] = t
	}
	m.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	m.ledger.SetNode(m.nodes[name])
}

func (m *machine) typeOf(node string) capacity.Type {
	n := m.nodes[node]
	if n == nil {
		return capacity.Unknown
	}
	t, _ := capacity.ParseType(n.Labels[typeLabel])
	return t
}

// some returns a random pod for which f holds, nil if there is none.
func (m *machine) some(f func(*apiPod) bool) *apiPod {
	var found []*apiPod
	for _, p := range m.pods {
		if f(p) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[m.pick(len(found))]
}

func pending(p *apiPod) bool        { return p.node == "" && p.reserved == "" }
func assumed(p *apiPod) bool        { return p.node == "" && p.reserved != "" }
func holding(p *apiPod) bool        { return pending(p) && p.slot != split.NoSlot }
func anything(*apiPod) bool         { return true }
func (m *machine) someNode() string { return fmt.Sprintf("node-%d", m.pick(6)) }

func (m *machine) add() *apiPod {
	m.serial++
	keys := m.groups()
	p := &apiPod{
		group: keys[m.pick(len(keys))],
		slot:  split.NoSlot,
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("pod-", m.serial), UID: types.UID(fmt.Sprintf("uid-%05d", m.serial)),
			CreationTimestamp: metav1.Unix(int64(m.serial/3), 0), // ties happen
		}},
	}
	m.pods = append(m.pods, p)
	return p
}

func (m *machine) claim(p *apiPod) {
	hold, err := m.ledger.Claim(ledger.Claim{
		Pod: p.pod, Member: in(p.group), Governing: m.mixes[p.group], Exists: func() bool { return true },
	})
	require.NoError(m.t, err)
	// A pod keeps its claim unless a lower slot is free, and then takes the
	// lowest that is once it let go of its own.
	if lowest := lowestFree(m.recount(p.group, anything)); p.slot == split.NoSlot || lowest < p.slot {
		p.slot = lowestFree(m.recount(p.group, func(o *apiPod) bool { return o != p }))
	}
	require.Equal(m.t, p.slot, hold.Slot, "the lowest free slot")
}

func lowestFree(slots map[int]string) int {
	lowest := 0
	for slots[lowest] != "" {
		lowest++
	}
	return lowest
}

func (m *machine) bound(p *apiPod) {
	m.ledger.Observe(ledger.Bound{UID: p.pod.UID, Member: in(p.group), Created: p.pod.CreationTimestamp.UnixNano(), Node: p.node, Claimed: p.slot})
	if p.slot == split.NoSlot {
		return
	}
	for _, o := range m.pods { // a pending pod gives way to a bound one
		if o != p && o.group == p.group && pending(o) && o.slot == p.slot {
			o.slot = split.NoSlot
		}
	}
}

func (m *machine) remove(p *apiPod) {
	m.ledger.Forget(p.pod.UID)
	m.pods = slices.DeleteFunc(m.pods, func(o *apiPod) bool { return o == p })
}

// actions are what can happen.
func (m *machine) actions() []func() {
	on := func(p *apiPod, f func(*apiPod)) {
		if p != nil {
			f(p)
		}
	}
	return []func(){
		func() { m.claim(m.add()) },
		func() { on(m.some(pending), m.claim) },
		func() {
			on(m.some(holding), func(p *apiPod) {
				node := m.someNode()
				m.ledger.Entries(p.group, m.mixes[p.group]) // the last mix is in force
				full := m.full(p.group, node)
				err := m.ledger.Reserve(p.pod.UID, p.slot, node)
				if full {
					require.ErrorIs(m.t, err, ledger.ErrDomainFull, "group %s on %s", p.group.ID, node)
					return
				}
				require.NoError(m.t, err)
				p.reserved = node
			})
		},
		func() {
			on(m.some(assumed), func(p *apiPod) {
				m.ledger.Unreserve(p.pod.UID)
				m.ledger.Unreserve(p.pod.UID) // idempotent
				p.reserved = ""
				for _, o := range m.pods { // beaten to it by a bound pod while it was reserved
					if o != p && o.group == p.group && o.node != "" && o.slot == p.slot {
						p.slot = split.NoSlot
					}
				}
			})
		},
		func() { on(m.some(assumed), func(p *apiPod) { p.node, p.reserved = p.reserved, ""; m.bound(p) }) },
		func() { p := m.add(); p.node = m.someNode(); m.bound(p) },                    // by another scheduler
		func() { p := m.add(); p.node, p.slot = m.someNode(), m.pick(8); m.bound(p) }, // by a deposed leader
		func() {
			on(m.some(pending), func(p *apiPod) { p.node, p.slot = m.someNode(), split.NoSlot; m.bound(p) })
		},
		func() { on(m.some(anything), m.remove) },
		func() { on(m.some(anything), m.remove) },
		func() { m.setNode(m.someNode()) },
		func() { n := m.someNode(); m.ledger.DeleteNode(n); delete(m.nodes, n) },
		func() {
			keys := m.groups()
			m.mixes[keys[m.pick(len(keys))]] = &governing.Mix{Mix: split.New(int32(m.pick(101)), int32(m.pick(4))), SpreadSpotOver: spreadLists[m.pick(len(spreadLists))]}
			m.mixes[keys[m.pick(len(keys))]].MaxPerDomain = limitLists[m.pick(len(limitLists))]
		},
		func() {
			m.failureDomains = []string{corev1.LabelHostname, corev1.LabelTopologyZone, typeLabel, "not.there"}[m.pick(4)]
		},
		m.restart,
	}
}

// restart throws the ledger away and rebuilds it from what the API server has.
// Claims that were not bound are lost.
func (m *machine) restart() {
	if m.pick(10) > 0 {
		return
	}
	m.ledger = newLedger(m.t, spreadOver...)
	for i := range m.pods { // before the nodes: the order of the informers is not given
		p := m.pods[(i*7)%len(m.pods)]
		if len(m.pods)%7 == 0 {
			p = m.pods[i]
		}
		if p.node == "" {
			p.slot, p.reserved = split.NoSlot, ""
		} else {
			m.bound(p)
		}
	}
	for _, n := range m.nodes {
		m.ledger.SetNode(n)
	}
}

// recount assigns the slots of a group again from the API's pods and the claims.
func (m *machine) recount(key governing.GroupKey, include func(*apiPod) bool) map[int]string {
	var pods []split.Pod
	for _, p := range m.pods {
		if p.group != key || !include(p) || p.node == "" && p.slot == split.NoSlot {
			continue
		}
		pods = append(pods, split.Pod{ID: string(p.pod.UID), Created: p.pod.CreationTimestamp.UnixNano(), Slot: p.slot, On: m.typeOf(p.node + p.reserved)})
	}
	slots := map[int]string{}
	for _, s := range split.Assign(m.mixes[key].Mix, pods) {
		slots[s.Slot] = s.ID
	}
	return slots
}

// full recounts whether a limit forbids a node for one more pod of a group.
func (m *machine) full(key governing.GroupKey, name string) bool {
	limits, node := m.mixes[key].MaxPerDomain, m.nodes[name]
	size := len(m.recount(key, anything))
	for _, l := range limits {
		if node == nil {
			return true
		}
		value, there := node.Labels[l.Key]
		have := 0
		for _, p := range m.pods {
			on := m.nodes[p.node+p.reserved]
			if on != nil && p.group == key && on.Labels[l.Key] == value {
				have++
			}
		}
		if !l.Soft && (!there || have >= l.Max(size)) {
			return true
		}
	}
	return false
}

func (m *machine) check() {
	for key, p := range m.mixes {
		got := map[int]string{}
		for _, e := range m.ledger.Entries(key, p) {
			require.Empty(m.t, got[e.Slot], "slot %d of group %s is held twice", e.Slot, key.ID)
			got[e.Slot] = e.UID
		}
		require.Equal(m.t, m.recount(key, anything), got, "group %s at %s", key.ID, p.Mix)
		m.checkSpread(key, p)
		if m.failureDomains != "" {
			m.checkSiblings(key)
		}
	}
}

// checkSiblings recounts all pods of a group per node, zone and failure domain, on nodes that are there.
func (m *machine) checkSiblings(key governing.GroupKey) {
	hosts, zones, domains, most := map[string]int{}, map[string]int{}, map[string]int{}, ledger.Around{}
	for _, pod := range m.pods {
		node := m.nodes[pod.node+pod.reserved]
		if pod.group != key || node == nil {
			continue
		}
		hosts[node.Name]++
		zones[node.Labels[corev1.LabelTopologyZone]]++
		domains[node.Labels[m.failureDomains]]++
		most.OnNode = max(most.OnNode, hosts[node.Name])
		most.InZone = max(most.InZone, zones[node.Labels[corev1.LabelTopologyZone]])
		most.InDomain = max(most.InDomain, domains[node.Labels[m.failureDomains]])
	}
	var nodes []fwk.NodeInfo
	want := []ledger.Around{}
	for name, node := range m.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		nodes = append(nodes, info)
		want = append(want, ledger.Around{
			OnNode: hosts[name], InZone: zones[node.Labels[corev1.LabelTopologyZone]], InDomain: domains[node.Labels[m.failureDomains]],
		})
	}
	around, top := m.ledger.Siblings(key, m.failureDomains, nodes)
	require.Equal(m.t, want, around, "siblings in group %s by %s", key.ID, m.failureDomains)
	require.Equal(m.t, most, top, "most siblings in group %s by %s", key.ID, m.failureDomains)
}

// checkSpread recounts the spot pods of a group per interruption domain, and all its pods per zone and node.
func (m *machine) checkSpread(key governing.GroupKey, p *governing.Mix) {
	keys := p.SpreadSpotOver
	if keys == nil {
		keys = spreadOver
	}
	domains, zones, hosts := map[string]int32{}, map[string]int32{}, map[string]int32{}
	for _, pod := range m.pods {
		on := pod.node + pod.reserved
		if pod.group != key || on == "" {
			continue
		}
		hosts[on]++
		if node := m.nodes[on]; node != nil {
			zones[node.Labels[corev1.LabelTopologyZone]]++
		}
		if m.typeOf(on) == capacity.Spot {
			domains[capacity.Domain(m.nodes[on].Labels, keys)]++
		}
	}
	spread := m.ledger.SpreadOf(key, maps.Keys(m.nodes))
	for name, node := range m.nodes {
		n, _ := m.ledger.Node(name)
		require.Equal(m.t, domains[capacity.Domain(node.Labels, keys)], spread.Domain(n), "spot pods of group %s in the domain of %s", key.ID, name)
		require.Equal(m.t, zones[node.Labels[corev1.LabelTopologyZone]], spread.Zone(n), "pods of group %s in the zone of %s", key.ID, name)
		require.Equal(m.t, hosts[name], spread.Host(name), "pods of group %s on %s", key.ID, name)
	}
}

func TestLedgerEqualsARecountAfterEveryOperation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		actions := m.actions()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			actions[m.pick(len(actions))]()
			m.check()
		}
	})
}

func TestLedgerEqualsARecountAfterTenThousandOperations(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newMachine(t, rand.New(rand.NewPCG(seed, 1)).IntN)
			actions := m.actions()
			for step := range 10_000 {
				actions[m.pick(len(actions))]()
				for len(m.pods) > 60 {
					m.remove(m.pods[m.pick(len(m.pods))])
				}
				if step%5 == 0 {
					m.check()
				}
			}
			m.check()
		})
	}
}
