// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
)

// Texts of which objects are drawn: few, so that selectors match.
var (
	drawnKeys = []string{
		"team", "example.com/tier", "numbers", "lifecycle", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone", "kubernetes.io/hostname",
		"kubernetes.io/metadata.name", "apps.kubernetes.io/pod-index", "leaderworkerset.sigs.k8s.io/group-index", "spot",
	}
	drawnValues = []string{"", "payments", "search", "spot", "on-demand", "3", "12", "true", "node-1", "web-0", "shop"}
	drawnNames  = []string{"web", "web-0", "web-1", "web-0-1", "db-10", "a.b", "payments", "spot"}
)

func one[T any](t *rapid.T, name string, of []T) T { return rapid.SampledFrom(of).Draw(t, name) }

func drawLabels(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(drawnKeys), rapid.SampledFrom(drawnValues), 0, 4).Draw(t, name)
}

func drawSelector(t *rapid.T, name string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(rapid.SampledFrom(drawnKeys), rapid.SampledFrom(drawnValues), 0, 1).Draw(t, name)}
	for range rapid.IntRange(0, 2).Draw(t, name+" expressions") {
		r := metav1.LabelSelectorRequirement{
			Key: one(t, "key", drawnKeys),
			Operator: one(t, "operator", []metav1.LabelSelectorOperator{
				metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
			}),
		}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = []string{one(t, "value", drawnValues), one(t, "value", drawnValues)}
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func drawTerm(t *rapid.T) (term corev1.NodeSelectorTerm) {
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		r := corev1.NodeSelectorRequirement{
			Key: one(t, "key", drawnKeys),
			Operator: one(t, "operator", []corev1.NodeSelectorOperator{
				corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
				corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
			}),
		}
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			r.Values = []string{one(t, "value", drawnValues), one(t, "value", drawnValues)}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			r.Values = []string{"5"}
		}
		term.MatchExpressions = append(term.MatchExpressions, r)
	}
	if rapid.Bool().Draw(t, "fields") {
		term.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{one(t, "node", []string{"node-0", "node-1"})},
		}}
	}
	return term
}

// drawn makes objects, each with a time of its own, by which it is found again.
type drawn struct {
	t *rapid.T
	n int
}

func (d *drawn) meta(namespace, name string) metav1.ObjectMeta {
	d.n++
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("uid-", d.n)), Labels: drawLabels(d.t, "labels"),
		CreationTimestamp: metav1.Unix(int64(d.n), 0),
	}
}

var drawnTaints = []corev1.Taint{
	{Key: "team", Value: "payments", Effect: corev1.TaintEffectNoSchedule},
	{Key: "numbers", Value: "3", Effect: corev1.TaintEffectNoExecute},
	{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule},
}

func (d *drawn) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: d.meta("", fmt.Sprint("node-", i))}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelHostname] = n.Name
	n.Spec.Taints = rapid.SliceOfN(rapid.SampledFrom(drawnTaints), 0, 2).Draw(d.t, "taints")
	return n
}

func (d *drawn) pod(namespace, name string, owners []*metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: d.meta(namespace, name)}
	if ref := one(d.t, "owner", owners); ref != nil {
		p.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	p.Annotations = map[string]string{
		v1alpha1.SlotAnnotation: one(d.t, "slot", []string{"0", "17"}), pods.SafeToEvictVolumes: "data, cache",
		v1alpha1.ClaimAnnotation: one(d.t, "claim", []string{"uid-1/spot", string(p.UID) + "/on-demand", "x"}),
	}
	p.Spec.NodeName = one(d.t, "node", []string{"", "node-0", "node-1", "gone"})
	p.Spec.NodeSelector = rapid.MapOfN(rapid.SampledFrom(drawnKeys), rapid.SampledFrom(drawnValues), 0, 1).Draw(d.t, "nodeSelector")
	if rapid.Bool().Draw(d.t, "affinity") {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{drawTerm(d.t), drawTerm(d.t)}},
		}}
	}
	for range rapid.IntRange(0, 2).Draw(d.t, "tolerations") {
		taint := one(d.t, "tolerated", drawnTaints)
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: taint.Key, Value: taint.Value, Operator: one(d.t, "operator", []corev1.TolerationOperator{"", "Equal", "Exists", "Gt"}),
		})
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: one(d.t, "topology", drawnKeys)}}
	return p
}

func drawSnapshot(t *rapid.T) *Snapshot {
	d := &drawn{t: t}
	var objects []Object
	owners := []*metav1.OwnerReference{nil}
	for i := range 2 {
		objects = append(objects, d.node(i))
	}
	for _, namespace := range []string{"shop", "kube-system"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: d.meta("", namespace)})
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(drawnNames), 0, 2, rapid.ID).Draw(t, "sets") {
			set := &appsv1.StatefulSet{ObjectMeta: d.meta(namespace, name)}
			objects = append(objects, set)
			owners = append(owners, metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
		}
		objects = append(objects, &policyv1.PodDisruptionBudget{
			ObjectMeta: d.meta(namespace, "budget"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: drawSelector(t, "budget")},
		})
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(drawnNames), 0, 3, rapid.ID).Draw(t, "pods") {
			objects = append(objects, d.pod(namespace, name, owners))
		}
	}
	return snapshotOf(t, objects...)
}

// aligned are the objects of a list before and after, in the order of their times.
func aligned[T Object](before, after []T) (pairs [][2]T) {
	byTime := func(a, b T) int { return int(a.GetCreationTimestamp().Unix() - b.GetCreationTimestamp().Unix()) }
	before, after = slices.SortedFunc(slices.Values(before), byTime), slices.SortedFunc(slices.Values(after), byTime)
	for i := range before {
		pairs = append(pairs, [2]T{before[i], after[i]})
	}
	return pairs
}

// Decisions are the same on both: which nodes a pod may use, which pods a selector selects, which owner and slot a pod has.
func TestPropertyAnAnonymisedClusterDecidesTheSame(t *testing.T) {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		before := drawSnapshot(t)
		after, err := before.Anonymise("seed")
		require.NoError(t, err)
		nodes, all := aligned(before.Nodes, after.Nodes), aligned(before.Pods, after.Pods)
		for _, n := range nodes {
			was, whyWas := classifier.Classify(n[0])
			is, whyIs := classifier.Classify(n[1])
			require.Equal(t, []any{was, whyWas}, []any{is, whyIs}, "type of %v", n[0].Labels)
			reasonWas, departed := capacity.Departing(n[0])
			reasonIs, departs := capacity.Departing(n[1])
			require.Equal(t, []any{reasonWas, departed}, []any{reasonIs, departs})
			require.Equal(t, n[1].Name, n[1].Labels[corev1.LabelHostname])
		}
		for _, p := range all {
			samePod(t, p[0], p[1], before, after)
			for _, n := range nodes {
				require.Equal(t, matchesNode(p[0], n[0]), matchesNode(p[1], n[1]), "%v on %v", p[0].Spec, n[0].Labels)
				require.Equal(t, p[0].Spec.NodeName == n[0].Name, p[1].Spec.NodeName == n[1].Name)
				for _, other := range nodes {
					require.Equal(t, sameDomain(p[0], n[0], other[0]), sameDomain(p[1], n[1], other[1]))
				}
			}
			for _, b := range aligned(before.PodDisruptionBudgets, after.PodDisruptionBudgets) {
				require.Equal(t, selects(t, b[0], p[0]), selects(t, b[1], p[1]), "%v of %v", b[0].Spec.Selector, p[0].Labels)
			}
			for _, n := range aligned(before.Namespaces, after.Namespaces) {
				require.Equal(t, p[0].Namespace == n[0].Name, p[1].Namespace == n[1].Name)
			}
		}
	})
}

// controllers are those of a snapshot.
type controllers struct{ *Snapshot }

func (c controllers) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	for _, set := range c.StatefulSets {
		if set.UID == ref.UID && set.Name == ref.Name && set.Namespace == namespace {
			return set
		}
	}
	return nil
}

func samePod(t *rapid.T, before, after *corev1.Pod, was, is *Snapshot) {
	slotWas, had := governing.IdentitySlot(before, controllers{was})
	slotIs, has := governing.IdentitySlot(after, controllers{is})
	require.Equal(t, []any{slotWas, had}, []any{slotIs, has}, before.Name)
	typeWas, limited := gate.LimitedTo(before)
	typeIs, limits := gate.LimitedTo(after)
	require.Equal(t, []any{typeWas, limited}, []any{typeIs, limits}, before.Annotations)
	if ref := metav1.GetControllerOf(before); ref != nil {
		owner, found := controllers{was}.Controller(before.Namespace, ref), metav1.GetControllerOf(after)
		require.Equal(t, owner == metav1.Object(nil), controllers{is}.Controller(after.Namespace, found) == metav1.Object(nil))
	}
}

func matchesNode(p *corev1.Pod, n *corev1.Node) [2]bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
	tolerates := true
	for i := range n.Spec.Taints {
		tolerates = tolerates && corehelpers.TolerationsTolerateTaint(logr.Discard(), p.Spec.Tolerations, &n.Spec.Taints[i], true)
	}
	return [2]bool{matches && err == nil, tolerates}
}

func sameDomain(p *corev1.Pod, a, b *corev1.Node) bool {
	key := p.Spec.TopologySpreadConstraints[0].TopologyKey
	one, has := a.Labels[key]
	other, had := b.Labels[key]
	return has && had && one == other
}

func selects(t *rapid.T, b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	require.NoError(t, err)
	return b.Namespace == p.Namespace && s.Matches(labels.Set(p.Labels))
}

// The same seed gives the same bytes, another one other names; the order of the objects is that of the pseudonyms.
func TestPropertyPseudonymsDependOnTheSeedOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		encoded := map[string]string{}
		for _, seed := range []string{"a", "a ", "a"} {
			out, err := s.Anonymise(seed)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, out.Write(&b))
			if was, done := encoded[seed]; done {
				require.Equal(t, was, b.String())
			}
			encoded[seed] = b.String()
			require.True(t, slices.IsSortedFunc(out.Nodes, func(a, b *corev1.Node) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) }))
		}
		require.NotEqual(t, encoded["a"], encoded["a "])
	})
}

func TestPseudonyms(t *testing.T) {
	p := &pseudonyms{seed: []byte("seed"), known: map[string]string{}}
	for text, want := range map[string]string{
		"":                    "",
		"cpu":                 "cpu",
		"hugepages-2Mi":       "hugepages-2Mi",
		"hugepages-of-shop":   p.hash("hugepages-of-shop"),
		"web-0":               p.hash("web-0"),
		"example.com/devices": pseudonymDomain + p.hash("example.com/devices"),
		"/x":                  p.hash("/x"),
		"kube-system":         "kube-system",
		"nvidia.com/gpu":      "nvidia.com/gpu",
	} {
		assert.Equal(t, want, p.name(text), text)
	}
	assert.Regexp(t, `^x[0-9a-v]{16}$`, p.hash("payments"))
	for text, want := range map[string]string{
		"30%": "30%", "0 2 * * 1-5": "0 2 * * 1-5", "*/5 * * * MON": "*/5 * * * MON", "10m": "10m", "-17": "-17",
		"3/2026-07-01T12:00:00Z": "3/2026-07-01T12:00:00Z", "payments": p.hash("payments"),
	} {
		assert.Equal(t, want, p.annotation("spotalis.io/disruption-schedule", text), text)
	}
	assert.Equal(t, p.hash("shop")+"/"+p.hash("3")+"@3", p.annotation(v1alpha1.ResolvedLimitAnnotation, "shop/3@3"))
	assert.Equal(t, p.hash("data")+", "+p.hash("3"), p.annotation(pods.SafeToEvictVolumes, "data, 3"))
}

// A user whose rules read other labels of nodes names them.
func TestLabelsOfTheUserAreKept(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"example.com/market": "cheap", "other": "cheap"}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
	p.Spec.NodeSelector = map[string]string{"example.com/market": "cheap"}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "example.com/market"}}
	s, err := snapshotOf(t, n, p).Anonymise("seed", "example.com/market")
	require.NoError(t, err)
	assert.Equal(t, "cheap", s.Nodes[0].Labels["example.com/market"])
	assert.NotContains(t, slices.Collect(maps.Keys(s.Nodes[0].Labels)), "other")
	assert.Equal(t, p.Spec.NodeSelector, s.Pods[0].Spec.NodeSelector)
	assert.Equal(t, "example.com/market", s.Pods[0].Spec.TopologySpreadConstraints[0].TopologyKey)
}

// The header names no provider and no namespace.
func TestTheHeaderIsAnonymised(t *testing.T) {
	b := NewBuilder(Header{Time: metav1.NewTime(time.Unix(1, 0)), Namespace: "shop", ServerVersion: "v1.38.2-eks-1234", BerthVersion: "v0.1.0"})
	s, err := b.Snapshot().Anonymise("seed")
	require.NoError(t, err)
	assert.Equal(t, "v1.38", s.ServerVersion)
	assert.NotContains(t, s.Namespace, "shop")
	assert.Equal(t, "v0.1.0", s.BerthVersion)
	assert.True(t, s.Anonymised)
}
