// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
)

func cost(value string) a[*corev1.Pod] { return annotated(v1alpha1.PodDeletionCostAnnotation, value) }

func TestTheWriterOfTheDeletionCostIsFound(t *testing.T) {
	rs := ownedBy("apps/v1", "ReplicaSet", "rs", "rs")
	bound := []a[*corev1.Pod]{rs, slot(3), managedBy("kube-controller-manager", createdOnly)}
	written := func(value, manager, fields string) []a[*corev1.Pod] {
		return append(slices.Clip(bound), cost(value), managedBy(manager, fields))
	}
	for name, tc := range map[string]struct {
		changes     []a[*corev1.Pod]
		origin      CostOrigin
		manager     string
		overwritten bool
	}{
		"a Binding wrote that of the slot":               {append(slices.Clip(bound), cost("-3")), CostOfBerth, "", false},
		"the controller repaired it":                     {written("-3", "berth-controller", costOnly), CostOfBerth, "", false},
		"there is none":                                  {bound, CostOfBerth, "", false},
		"it was removed by the client that owned it":     {append(slices.Clip(bound), managedBy("karpenter", costOnly)), CostOfBerth, "", false},
		"the template has one, the same for all":         {[]a[*corev1.Pod]{rs, slot(3), cost("7"), managedBy("kube-controller-manager", ofTemplate)}, CostOfUser, "kube-controller-manager", false},
		"a person chose the pod that is to go first":     {written("-2147483647", "kubectl-annotate", costOnly), CostOfUser, "kubectl-annotate", false},
		"Karpenter wrote the rank of the node":           {written("-12", "karpenter", costOnly), CostOverwritten, "karpenter", true},
		"the same on every pod, since they share a node": {written("-1", "karpenter", costOnly), CostOverwritten, "karpenter", true},
		"the rank is the cost of the slot by chance":     {written("-3", "karpenter", costOnly), CostOverwritten, "karpenter", false},
		"the value of the template was overwritten":      {[]a[*corev1.Pod]{rs, slot(3), cost("-5"), managedBy("kube-controller-manager", createdOnly), managedBy("karpenter", costOnly)}, CostOverwritten, "karpenter", true},
		"a pod without a slot has no cost of its own":    {[]a[*corev1.Pod]{rs, cost("-5"), managedBy("karpenter", costOnly)}, CostOverwritten, "karpenter", false},
		"a StatefulSet ignores costs":                    {[]a[*corev1.Pod]{ownedBy("apps/v1", "StatefulSet", "db", "db"), slot(3), cost("-5"), managedBy("karpenter", costOnly)}, CostOverwritten, "karpenter", false},
		"a bare pod is not scaled down":                  {[]a[*corev1.Pod]{slot(3), cost("-5"), managedBy("karpenter", costOnly)}, CostOverwritten, "karpenter", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := podNamed("p", tc.changes...)
			origin, manager := CostWriter(p)
			assert.Equal(t, tc.origin, origin)
			assert.Equal(t, tc.manager, manager)
			assert.Equal(t, tc.origin != CostOfBerth, CostByOthers(p))
			record := newClusterState().podOf(p, nil)
			assert.Equal(t, tc.overwritten, record.CostOverwritten())
			p.ManagedFields = nil
			assert.Equal(t, tc.origin == CostOfBerth, record.equal(newClusterState().podOf(p, nil)), "it is noticed that another client owns the cost")
		})
	}
}

func TestWhichDeletionCostsStay(t *testing.T) {
	rs, set := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet"}
	enforce, respect := &governing.Mix{}, &governing.Mix{RespectCosts: true}
	for name, tc := range map[string]struct {
		origin CostOrigin
		owner  *metav1.OwnerReference
		m      *governing.Mix
		want   bool
	}{
		"that of the slot":                               {CostOfBerth, rs, enforce, false},
		"that of the slot goes with Respect":             {CostOfBerth, rs, respect, false},
		"that of the user":                               {CostOfUser, rs, enforce, true},
		"that of the user, with Respect":                 {CostOfUser, rs, respect, true},
		"one that was overwritten":                       {CostOverwritten, rs, enforce, false},
		"one that was overwritten, with Respect":         {CostOverwritten, rs, respect, true},
		"one that no controller reads":                   {CostOverwritten, set, enforce, true},
		"one that was overwritten, without a controller": {CostOverwritten, nil, enforce, true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tc.origin.Stays(tc.owner, tc.m)) })
	}
}

func TestAMixThatRespectsCostsHasItsReplicasRemovedInAnyOrder(t *testing.T) {
	changed := func(manager string) []a[*corev1.Pod] {
		return []a[*corev1.Pod]{owned(replicaSet("rs", 2)), on("s"), slot(1), cost("-5"), managedBy(manager, costOnly)}
	}
	for name, tc := range map[string]struct {
		respects         bool
		percent          int32
		replicas         int32
		pods             []a[*corev1.Pod]
		anyOrder, leaves bool
		overwritten      int
	}{
		"Enforce":                          {false, 50, 2, []a[*corev1.Pod]{owned(replicaSet("rs", 2)), on("s"), slot(1)}, false, false, 0},
		"Enforce, and a client overwrites": {false, 50, 2, changed("karpenter"), true, false, 1},
		"Respect":                          {true, 50, 2, changed("karpenter"), true, true, 0},
		"Respect, without costs":           {true, 50, 2, []a[*corev1.Pod]{owned(replicaSet("rs", 2)), on("s"), slot(1)}, true, true, 0},
		"Respect, with one type only":      {true, 0, 2, changed("karpenter"), true, false, 0},
		"Respect, and one replica":         {true, 50, 1, changed("karpenter"), true, false, 0},
		"Respect, of an owner that does not read costs": {
			true, 50, 2, []a[*corev1.Pod]{ownedBy("apps/v1", "StatefulSet", "db", "db"), on("s")}, false, false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newClusterState()
			require.NoError(t, st.Mixes.Set(builders.CapacityMix("web", tc.percent, 0, func(cm *v1alpha1.CapacityMix) {
				cm.Namespace, cm.Spec.Selector = namespaceName, v1alpha1.PodSelector{}
				if tc.respects {
					cm.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
				}
			})))
			pod := podNamed("db-0", tc.pods...)
			objects := append(nodesOfEachType(), replicaSet("rs", tc.replicas), statefulSet("db", tc.replicas), pod)
			g := one(t, fill(st, objects...))
			assert.Equal(t, []any{tc.anyOrder, tc.leaves, tc.overwritten}, []any{g.AnyOrder, g.ScalesDownByOthers(), g.Overwritten()})
			g.Ended = true
			assert.False(t, g.ScalesDownByOthers(), "there is no scale-down any more")
		})
	}
}

// The field manager is that of API servers. The last client that changed the value decided it, as long as it is there.
func TestTheLastClientThatChangedTheCostDecidedIt(t *testing.T) {
	const template = "kube-controller-manager"
	origins := map[string]CostOrigin{
		"": CostOfBerth, "berth-scheduler": CostOfBerth, "berth-controller": CostOfBerth, template: CostOfUser,
		"kubectl-annotate": CostOfUser, "kubectl-edit": CostOfUser, "karpenter": CostOverwritten, "cost-controller": CostOverwritten,
	}
	fields := managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), corev1.SchemeGroupVersion.WithKind("Pod"))
	values := rapid.SampledFrom([]string{"", "-3", "-4", "0", "7", "-2147483648"})
	rapid.Check(t, func(t *rapid.T) {
		update := func(live *corev1.Pod, value, manager string) *corev1.Pod {
			next := live.DeepCopy()
			if delete(next.Annotations, v1alpha1.PodDeletionCostAnnotation); value != "" {
				cost(value)(next)
			}
			o, err := fields.Update(live, next, manager)
			require.NoError(t, err)
			return o.(*corev1.Pod)
		}
		empty := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		pod := podNamed("p", ownedBy("apps/v1", "ReplicaSet", "rs", "rs"), asks("1", "1Gi"))
		pod.TypeMeta = empty.TypeMeta
		last, value := "", values.Draw(t, "in the template")
		if value != "" {
			cost(value)(pod)
			last = template
		}
		o, err := fields.Update(empty, pod, template)
		require.NoError(t, err)
		pod = o.(*corev1.Pod)
		slot(3)(pod) // a Binding, which has no manager
		if value == "" {
			cost("-3")(pod)
			value = "-3"
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "writes") {
			next := values.Draw(t, fmt.Sprint("value ", i))
			manager := rapid.SampledFrom([]string{"berth-scheduler", "berth-controller", "kubectl-annotate", "kubectl-edit", "karpenter", "cost-controller"}).Draw(t, "manager")
			if pod = update(pod, next, manager); next != value {
				last, value = manager, next
			}
		}
		if value == "" {
			last = ""
		}
		origin, _ := CostWriter(pod)
		require.Equal(t, origins[last], origin, "written last by %q: %q\n%v", last, value, pod.ManagedFields)
		record := newClusterState().podOf(pod, nil)
		require.Equal(t, origin == CostOverwritten && value != "-3", record.CostOverwritten())
	})
}

func TestWhichWorkloadsAutoscalersCannotEvaluate(t *testing.T) {
	rs := func(changes ...a[*corev1.Pod]) []a[*corev1.Pod] {
		return append(changes, owned(replicaSet("rs", 2)), on("s"))
	}
	pinned := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"} }
	for name, tc := range map[string]struct {
		older, newer []a[*corev1.Pod]
		want         bool
	}{
		"no pod has the gate":                 {rs(), rs(made(1)), true},
		"all had it":                          {rs(limitedTo(capacity.OnDemand)), rs(made(1), limitedTo(capacity.OnDemand)), false},
		"new pods have it":                    {rs(), rs(made(1), limitedTo(capacity.Spot)), false},
		"new pods no longer have it":          {rs(limitedTo(capacity.Spot)), rs(made(1)), true},
		"a new pod waits for its slot":        {rs(), []a[*corev1.Pod]{owned(replicaSet("rs", 2)), made(1), gated}, false},
		"the template names a capacity type":  {rs(pinned), rs(made(1), pinned), false},
		"only some pods name a capacity type": {rs(pinned), rs(made(1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := one(t, fill(newClusterState(), append(nodesOfEachType(), replicaSet("rs", 2), podNamed("a", tc.older...), podNamed("b", tc.newer...))...))
			assert.Equal(t, tc.want, g.Ungated())
			g.Gated, g.FixedNode = false, "s"
			assert.False(t, g.Ungated(), "pods with a node of their template need no other")
			g.FixedNode, g.Ended = "", true
			assert.False(t, g.Ungated(), "no more pods are created")
		})
	}
}
