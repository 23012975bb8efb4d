// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

// hostileValues are what a tenant may write where a number is expected.
var hostileValues = map[string]string{
	"empty": "", "zero": "0", "minus one": "-1", "2^31-1": "2147483647", "2^63": "9223372036854775808", "highest slot": strconv.Itoa(split.MaxSlot),
	"past the highest slot": strconv.Itoa(split.MaxSlot + 1), "floor of the CRD": "1000000", "zeros": strings.Repeat("0", 256<<10), "nines": strings.Repeat("9", 256<<10),
	"text": strings.Repeat("x", 256<<10), "signed": "+7", "percent": "100%",
}

// tenant feeds pods to a ledger as the plugin does: everything goes through
// the functions that read annotations.
type tenant struct {
	t        require.TestingT
	ledger   *ledger.Ledger
	resolver *governing.Resolver
	slowest  time.Duration
}

func newTenant(tb testing.TB, l *ledger.Ledger) *tenant {
	return &tenant{t: tb, ledger: l, resolver: &governing.Resolver{Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth, governing.PrefixSpotalis}}, Mixes: governing.NewRegistry(), Controllers: noControllers{}}}
}

type noControllers struct{}

func (noControllers) Controller(string, *metav1.OwnerReference) metav1.Object { return nil }

func (n *tenant) timed(f func()) {
	start := time.Now()
	f()
	n.slowest = max(n.slowest, time.Since(start))
}

// claim is what PreFilter does.
func (n *tenant) claim(pod *corev1.Pod) (ledger.Hold, bool) {
	p, _ := n.resolver.Resolve(pod)
	if p == nil {
		return ledger.Hold{}, false
	}
	member, _ := n.resolver.Member(pod, p)
	var hold ledger.Hold
	var err error
	n.timed(func() {
		hold, err = n.ledger.Claim(ledger.Claim{Pod: pod, Member: member, Governing: p, Exists: func() bool { return true }})
	})
	require.NoError(n.t, err)
	return hold, true
}

// ahead is what PostFilter does where a rollout announces a size.
func (n *tenant) ahead(pod *corev1.Pod, hold ledger.Hold, desired string) {
	below, err := strconv.Atoi(desired)
	if err != nil {
		return
	}
	n.ledger.SetAttempt(pod.UID, hold.Slot, ledger.Attempt{Stage: ledger.StageAhead, Below: below})
	n.claim(pod)
}

// observe is what the handler of pods does with one that is bound.
func (n *tenant) observe(pod *corev1.Pod, node string) {
	p, _ := n.resolver.Resolve(pod)
	member, ok := n.resolver.Member(pod, p)
	if !ok {
		n.ledger.Forget(pod.UID)
		return
	}
	b := ledger.Bound{UID: pod.UID, Member: member, Created: pod.CreationTimestamp.UnixNano(), Node: node, Pending: pod}
	b.Claimed, _ = governing.ClaimedSlot(pod)
	n.timed(func() { n.ledger.Observe(b) })
}

// hostilePod is a pod of which a tenant wrote every field that the ledger reads.
func hostilePod(uid, kind, owner string, annotations map[string]string) *corev1.Pod {
	pod := podNamed(uid)
	pod.Annotations = annotations
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: map[string]string{"Job": "batch/v1", "StatefulSet": "apps/v1"}[kind], Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return pod
}

// annotating has the value in an annotation of a pod that has a mix.
func annotating(kind, owner, annotation string) func(uid, value string) *corev1.Pod {
	return func(uid, value string) *corev1.Pod {
		annotations := map[string]string{v1alpha1.SpotPercentAnnotation: "50"}
		annotations[annotation] = value
		return hostilePod(uid, kind, owner, annotations)
	}
}

// fields are those that hold a value, each in a pod of its own.
var fields = map[string]func(uid, value string) *corev1.Pod{
	"slot": func(uid, value string) *corev1.Pod {
		return hostilePod(uid, "CloneSet", uid, map[string]string{v1alpha1.SpotPercentAnnotation: "50", v1alpha1.SlotAnnotation: value})
	},
	"slot of one workload": annotating("CloneSet", "one", v1alpha1.SlotAnnotation),
	"completion index":     annotating("Job", "one", batchv1.JobCompletionIndexAnnotation),
	"floor":                annotating("CloneSet", "one", v1alpha1.MinOnDemandAnnotation),
	"floor of bare pods":   annotating("", "", v1alpha1.MinOnDemandAnnotation),
	"percent":              annotating("CloneSet", "one", v1alpha1.SpotPercentAnnotation),
	"floor of Spotalis": func(uid, value string) *corev1.Pod {
		pod := hostilePod(uid, "CloneSet", "one", map[string]string{"spotalis.io/min-on-demand": value})
		pod.Labels = map[string]string{"spotalis.io/enabled": "true"}
		return pod
	},
	"owner's UID": func(uid, value string) *corev1.Pod {
		return hostilePod(uid, "CloneSet", uid+value, map[string]string{v1alpha1.SpotPercentAnnotation: "50"})
	},
}

func TestHostilePodsCostLittleAndNoneOfTheirNeighbours(t *testing.T) {
	for field, podOf := range fields {
		for name, value := range hostileValues {
			t.Run(field+"/"+name, func(t *testing.T) { hostilePods(t, podOf, value) })
		}
	}
}

func hostilePods(t *testing.T, podOf func(uid, value string) *corev1.Pod, value string) {
	const pods = 100
	l := newLedger(t)
	n := newTenant(t, l)
	for i := range 10 {
		l.SetNode(node(fmt.Sprint("node-", i), []string{"spot", "on-demand"}[i%2], "zone"))
	}
	var all []*corev1.Pod
	for i := range 2 * pods {
		all = append(all, podOf(fmt.Sprint("p", i), value))
	}
	bounded(t, func() {
		for i, pod := range all[:pods] {
			n.observe(pod, fmt.Sprint("node-", i%10))
		}
		for _, pod := range all[pods:] {
			if hold, governed := n.claim(pod); governed {
				n.ahead(pod, hold, value)
			}
		}
	})
	assert.Less(t, n.slowest, hostileTime/5, "the slowest call")
	for i := range 10 {
		require.Equal(t, i, claim(t, l, fmt.Sprint("neighbour-", i)), "the neighbour's slots are the lowest ones")
	}
	for i := range 10 {
		l.Forget(types.UID(fmt.Sprint("neighbour-", i)))
		l.DeleteNode(fmt.Sprint("node-", i))
	}
	for _, pod := range all {
		l.Forget(pod.UID)
	}
	requireEmpty(t, l)
	runtime.KeepAlive(all)
}

func TestHostileNodeLabelsAndSpreadListsCostLittle(t *testing.T) {
	long := strings.Repeat("k", 317)
	for name, keys := range map[string][]string{
		"none": {}, "empty keys": {"", "", "", ""}, "long keys": {long + "a", long + "b", long + "c", long + "d"},
		"the same key again": {corev1.LabelHostname, corev1.LabelHostname}, "as many as a stored mix may have": strings.Split(strings.Repeat("k,", 10_000), ","),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			nodes := make([]*corev1.Node, 300)
			for i := range nodes {
				nodes[i] = node(fmt.Sprint("node-", i), "spot", fmt.Sprint("zone-", i))
				for _, k := range keys[:min(4, len(keys))] {
					nodes[i].Labels[k] = strings.Repeat("%/?", 21) + fmt.Sprint(i)
				}
			}
			cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mix"}}
			cm.Spec.SpreadSpotOver = keys
			n := newTenant(t, l)
			if err := n.resolver.Mixes.Set(cm); err != nil {
				assert.Greater(t, len(keys), 4)
			}
			bounded(t, func() {
				for round := range 3 {
					for i, o := range nodes {
						l.SetNode(o)
						n.observe(hostilePod(fmt.Sprint("p", i), "CloneSet", "one", nil), o.Name)
						if hold, governed := n.claim(hostilePod("pending", "CloneSet", "one", nil)); governed {
							require.Less(t, hold.Slot, 1000)
						}
						if round < 2 {
							l.DeleteNode(o.Name)
						}
					}
				}
			})
			l.Forget("pending")
			for i, o := range nodes {
				l.Forget(types.UID(fmt.Sprint("p", i)))
				l.DeleteNode(o.Name)
			}
			requireEmpty(t, l)
		})
	}
}

// hostile does random operations with hostile values on a ledger, and keeps
// the names of its pods and nodes.
type hostile struct {
	*tenant
	pick  func(n int) int // a number below n
	text  func() string
	pods  map[types.UID]int
	nodes map[string]bool
}

func newHostile(tb testing.TB, pick func(int) int, text func() string) *hostile {
	tb.Helper()
	return &hostile{tenant: newTenant(tb, newLedger(tb)), pick: pick, text: text, pods: map[types.UID]int{}, nodes: map[string]bool{}}
}

// step does one operation; most are out of any order that a scheduler keeps.
func (h *hostile) step() {
	uid := types.UID(fmt.Sprint("pod-", h.pick(12)))
	name := fmt.Sprint("node-", h.pick(8))
	pod := hostilePod(string(uid), []string{"CloneSet", "Job", "StatefulSet"}[h.pick(3)], []string{"", "one", "two", h.text()}[h.pick(4)], map[string]string{
		v1alpha1.SpotPercentAnnotation: []string{"0", "50", "100", h.text()}[h.pick(4)], v1alpha1.MinOnDemandAnnotation: h.text(), v1alpha1.SlotAnnotation: h.text(), batchv1.JobCompletionIndexAnnotation: h.text(),
	})
	switch h.pick(10) {
	case 0:
		n := node(name, []string{"spot", "on-demand", "none"}[h.pick(3)], h.text())
		n.Labels[corev1.LabelHostname] = h.text()
		h.nodes[name] = true
		h.timed(func() { h.ledger.SetNode(n) })
	case 1:
		h.timed(func() { h.ledger.DeleteNode(name) })
	case 2:
		h.timed(func() { h.ledger.Forget(uid) })
	case 3:
		h.timed(func() { h.ledger.Drop(uid) })
	case 4:
		h.timed(func() { h.ledger.Unreserve(uid) })
	case 5:
		h.timed(func() { _ = h.ledger.Reserve(uid, h.pods[uid], name) })
	case 6:
		h.pods[uid] = 0
		h.observe(pod, name)
	case 7:
		h.remix()
	default:
		if hold, governed := h.claim(pod); governed {
			h.pods[uid] = hold.Slot
			if h.pick(2) == 0 {
				h.ahead(pod, hold, h.text())
			}
		}
	}
}

// remix changes the mix that governs where no annotation does.
func (h *hostile) remix() {
	if h.pick(3) == 0 {
		h.resolver.Mixes.Delete("shop", "mix")
		return
	}
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mix"}}
	cm.Spec.SpotPercent = int32(h.pick(101))
	for range h.pick(4) {
		cm.Spec.SpreadSpotOver = append(cm.Spec.SpreadSpotOver, []string{corev1.LabelHostname, corev1.LabelTopologyZone, h.text()}[h.pick(3)])
	}
	for range h.pick(4) {
		key := []string{corev1.LabelHostname, corev1.LabelTopologyZone, h.text()}[h.pick(3)]
		cm.Spec.MaxPerDomain = append(cm.Spec.MaxPerDomain, v1alpha1.DomainLimit{TopologyKey: key, MaxCount: new(int32(1 + h.pick(3)))})
	}
	_ = h.resolver.Mixes.Set(cm) // one that is refused governs nothing
}

// deleteAll deletes every pod and node, in the order of maps: any.
func (h *hostile) deleteAll() {
	for name := range h.nodes {
		h.ledger.DeleteNode(name)
	}
	for uid := range h.pods {
		h.ledger.Forget(uid)
	}
}

func TestHostileOperationsLeaveNothingBehind(t *testing.T) {
	texts := make([]string, 0, len(hostileValues))
	for _, text := range []string{"empty", "zero", "minus one", "2^31-1", "2^63", "highest slot", "past the highest slot", "floor of the CRD", "nines", "signed"} {
		texts = append(texts, hostileValues[text])
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		h := newHostile(t, pick, func() string { return texts[pick(len(texts))] })
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			h.step()
		}
		h.deleteAll()
		requireEmpty(rt, h.ledger)
	})
}

// The memory of a ledger does not grow from round to round of coming and going.
func TestTenThousandHostileOperationsGoBackToTheBaseline(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	h := newHostile(t, random.IntN, func() string { return fmt.Sprint(random.IntN(split.MaxSlot)) })
	h.round()
	before := builders.Heap()
	for range 10 {
		h.round()
		requireEmpty(t, h.ledger)
	}
	assert.Less(t, int64(builders.Heap())-int64(before), int64(1<<20), "heap")
	runtime.KeepAlive(h)
}

func (h *hostile) round() {
	for range 1000 {
		h.step()
	}
	h.deleteAll()
}

// FuzzLedger feeds a ledger a sequence of operations whose texts are the
// fuzzer's, and bounds what each of them allocates and how long it takes.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{6, 1, 2, 8, 8, 8, 5, 4, 3, 2, 1, 0}, "1048575", "2147483647")
	f.Add([]byte{0, 9, 7, 7, 7, 6, 6, 6, 8, 2, 1}, "-1", "9223372036854775808")
	f.Add([]byte{8, 3, 3, 1, 1, 8, 0, 0, 1}, strings.Repeat("9", 4096), "%/?")
	f.Fuzz(func(t *testing.T, steps []byte, one, other string) {
		if len(steps) > 256 {
			return
		}
		random := rand.New(rand.NewPCG(uint64(len(steps)), 7))
		at := 0
		pick := func(n int) int {
			at++
			if at > len(steps) {
				return random.IntN(n)
			}
			return int(steps[at-1]) % n
		}
		texts := []string{one, other, "0", "1", one + other, strconv.Itoa(split.MaxSlot)}
		h := newHostile(t, pick, func() string { return texts[pick(len(texts))] })
		var before, after runtime.MemStats
		for range len(steps)/4 + 1 {
			runtime.ReadMemStats(&before)
			h.step()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(hostileHeap), "bytes allocated by one operation")
		}
		require.Less(t, h.slowest, hostileTime, "the slowest call")
		for uid := range h.pods {
			p := &governing.Mix{Mix: split.New(50, 1)}
			for _, key := range h.ledger.Groups() {
				for _, e := range h.ledger.Entries(key, p) {
					require.LessOrEqual(t, e.Slot, split.MaxSlot, "pod %s, with %s", e.UID, uid)
				}
			}
		}
		h.deleteAll()
		requireEmpty(t, h.ledger)
	})
}

// BenchmarkHostile has the time that hostile calls hold the lock.
func BenchmarkHostile(b *testing.B) {
	b.Run("slot ahead of a floor", func(b *testing.B) {
		l := newLedger(b)
		c := claimOf("a")
		c.Governing = &governing.Mix{Mix: split.New(100, split.MaxBound)}
		for b.Loop() {
			hold, err := l.Claim(c)
			if err != nil {
				b.Fatal(err)
			}
			l.SetAttempt("a", hold.Slot, ledger.Attempt{Stage: ledger.StageAhead, Below: split.MaxSlot})
		}
	})
	b.Run("list of spread labels of 5000 nodes changed", func(b *testing.B) {
		l := newLedger(b)
		for i := range 5000 {
			l.SetNode(node(fmt.Sprint("node-", i), "spot", fmt.Sprint("zone-", i%3)))
		}
		for i := range 100 {
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("p", i)), Member: in(webKey), Claimed: i, Node: fmt.Sprint("node-", i)})
		}
		c := claimOf("a")
		i := 0
		for b.Loop() {
			i++
			c.Governing = &governing.Mix{Mix: webMix.Mix, SpreadSpotOver: []string{strconv.Itoa(i)}}
			if _, err := l.Claim(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("highest slot of a group of its own", func(b *testing.B) {
		l := newLedger(b)
		b.ReportAllocs()
		for b.Loop() {
			l.Observe(ledger.Bound{UID: "a", Member: in(webKey), Claimed: split.MaxSlot, Node: "n"})
			l.Forget("a")
		}
	})
}

// Bounds of what one hostile object may cost: heap, and time in one call, which holds the lock throughout. The time is
// that of the worst call with a wide margin for a busy machine; BenchmarkHostile has the figures.
const (
	hostileHeap = 10 << 20
	hostileTime = 5 * time.Second
)

// bounded runs f and fails where it takes more than a hostile object may.
func bounded(t *testing.T, f func()) {
	t.Helper()
	before := builders.Heap()
	start := bench.ProcessorTime()
	f()
	took := bench.ProcessorTime() - start
	grown := int64(builders.Heap()) - int64(before)
	assert.Less(t, grown, int64(hostileHeap), "heap")
	assert.Less(t, took, hostileTime, "time")
}

// A rollout that announces more replicas than there can be, under a floor as high: the first slot of the
// other type is out of range.
func TestASlotAheadIsOneThatASetCanHold(t *testing.T) {
	for _, below := range []int{math.MaxInt32, math.MaxInt, -1, math.MinInt} {
		for _, floor := range []int32{0, 1_000_000, math.MaxInt32} {
			t.Run(fmt.Sprintf("below %d, floor %d", below, floor), func(t *testing.T) {
				l := newLedger(t)
				c := claimOf("a")
				c.Governing = &governing.Mix{Mix: split.New(100, floor)}
				hold := held(t, l, c)
				l.SetAttempt("a", hold.Slot, ledger.Attempt{Stage: ledger.StageAhead, Below: below})
				bounded(t, func() { hold = held(t, l, c) })
				assert.LessOrEqual(t, hold.Slot, split.MaxSlot)
				require.NoError(t, l.Reserve("a", hold.Slot, "n"), "the pod holds the slot")
				l.Unreserve("a")
				l.Forget("a")
				requireEmpty(t, l)
			})
		}
	}
}

// Pods that carry the highest slot, each a group of its own.
func TestHighSlotsOfManyGroupsCostLittle(t *testing.T) {
	l := newLedger(t)
	bounded(t, func() {
		for i := range 500 {
			key := governing.GroupKey{Namespace: "ns", ID: fmt.Sprint(i)}
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("a", i)), Member: in(key), Claimed: split.MaxSlot, Node: "n"})
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("b", i)), Member: in(key), Claimed: split.NoSlot, Node: "n"})
			c := claimOf(fmt.Sprint("c", i))
			c.Group = key
			held(t, l, c)
		}
	})
	groups, pods := l.Size()
	assert.Equal(t, 500, groups)
	assert.Equal(t, 1500, pods)
}

// A mix whose list of labels changes again and again costs as much as its last list.
func TestListsOfSpreadLabelsLeaveNothingBehind(t *testing.T) {
	l := newLedger(t)
	for i := range 1000 {
		l.SetNode(node(fmt.Sprint("node-", i), "spot", fmt.Sprint("zone-", i%3)))
	}
	l.Observe(ledger.Bound{UID: "bound", Member: in(webKey), Claimed: 0, Node: "node-0"})
	c := claimOf("pending")
	bounded(t, func() {
		for i := range 2000 {
			c.Governing = &governing.Mix{Mix: webMix.Mix, SpreadSpotOver: []string{fmt.Sprint("a.example/", i)}}
			held(t, l, c)
		}
	})
	assert.EqualValues(t, 1, domainOf(l, "node-0"))
}

// Nodes come and go, each with a host name of its own.
func TestLabelValuesOfDeletedNodesLeaveNothingBehind(t *testing.T) {
	l := newLedger(t, corev1.LabelHostname)
	own := claimOf("pending")
	own.Group.ID, own.Governing = "own", &governing.Mix{Mix: webMix.Mix, SpreadSpotOver: []string{corev1.LabelHostname, corev1.LabelTopologyZone}}
	held(t, l, own)
	bounded(t, func() {
		for i := range 10_000 {
			n := node(fmt.Sprintf("node-%d", i), "spot", fmt.Sprintf("zone-%d", i))
			n.Labels[corev1.LabelHostname] = n.Name
			l.SetNode(n)
			l.Observe(ledger.Bound{UID: "bound", Member: in(webKey), Claimed: 0, Node: n.Name})
			l.Observe(ledger.Bound{UID: "own", Member: in(own.Group), Claimed: 0, Node: n.Name})
			l.DeleteNode(fmt.Sprintf("node-%d", i-1))
		}
	})
	assert.EqualValues(t, 1, domainOf(l, "node-9999"))
	for name, size := range l.Sizes() {
		assert.LessOrEqual(t, size, 4, name)
	}
	for _, uid := range []types.UID{"bound", "own", "pending"} {
		l.Forget(uid)
	}
	l.DeleteNode("node-9999")
	requireEmpty(t, l)
}

func requireEmpty(t require.TestingT, l *ledger.Ledger) {
	require.Empty(t, l.Sizes(), "what is left")
}
