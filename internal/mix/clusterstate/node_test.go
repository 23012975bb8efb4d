// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

func machine(labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyRegion: "eu-west-1", corev1.LabelTopologyZone: "eu-west-1a",
	}}}
	maps.Copy(n.Labels, labels)
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	return n
}

// What a node was sold as is kept where it is wanted, and its labels where prices can depend on them. A change of it counts for no group.
func TestWhatANodeWasSoldAsIsKept(t *testing.T) {
	want := capacity.Offering{InstanceType: "m5.large", Region: "eu-west-1", Zone: "eu-west-1a", CPU: 2000, Memory: 8 << 30}
	for kept, labels := range map[Offerings]int{NoOfferings: 0, OfferingsWithoutLabels: 0, OfferingsWithLabels: 4} {
		o, changes := options(), 0
		o.Offerings, o.Changed = kept, func(governing.GroupKey) { changes++ }
		st := New(o)
		st.SetNode(machine(map[string]string{"pool": "one"}))
		first := st.Node("a").Offered
		if kept == NoOfferings {
			assert.Nil(t, first)
			continue
		}
		assert.Equal(t, want, first.Offering)
		assert.Len(t, first.Labels, labels)
		st.SetNode(machine(map[string]string{"pool": "one"}))
		assert.Same(t, first, st.Node("a").Offered, "it is not made again")
		changes = 0
		st.SetNode(machine(map[string]string{"pool": "two"}))
		if kept == OfferingsWithLabels {
			assert.Equal(t, "two", st.Node("a").Offered.Labels["pool"])
		}
		st.SetNode(machine(map[string]string{corev1.LabelInstanceTypeStable: "m6i.large"}))
		assert.Equal(t, "m6i.large", st.Node("a").Offered.InstanceType)
		assert.Equal(t, "m5.large", first.InstanceType, "a reader may hold it")
		assert.Zero(t, changes)
		st.DeleteNode("a")
		require.Nil(t, st.Node("a").Offered)
	}
}

func TestWhatANodeWasSoldAsHasWhatItsPriceDependsOn(t *testing.T) {
	assert.True(t, capacity.OfferingOf(machine(map[string]string{"karpenter.sh/capacity-type": "reserved"})).Reserved)
	assert.True(t, capacity.OfferingOf(machine(map[string]string{"kwok.x-k8s.io/node": ""})).Simulated)
	n := machine(nil)
	assert.Equal(t, [2]bool{}, [2]bool{capacity.OfferingOf(n).Reserved, capacity.OfferingOf(n).Simulated})
	n.Spec.ProviderID = "kwok://a"
	assert.True(t, capacity.OfferingOf(n).Simulated)
}
