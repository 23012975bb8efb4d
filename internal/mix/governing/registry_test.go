// SPDX-License-Identifier: Apache-2.0

package governing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
)

func drawSelector(t *rapid.T) (s v1alpha1.PodSelector) {
	key, value := rapid.SampledFrom([]string{"app", "team"}), rapid.SampledFrom([]string{"a", "b", "c"})
	s.MatchLabels = rapid.MapOfN(key, value, 0, 2).Draw(t, "labels")
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		r := v1alpha1.PodSelectorRequirement{
			Key: key.Draw(t, "key"),
			Operator: v1alpha1.PodSelectorOperator(
				rapid.SampledFrom([]string{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator"),
			),
		}
		if r.Operator == "In" || r.Operator == "NotIn" {
			r.Values = rapid.SliceOfN(value, 1, 3).Draw(t, "values")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// The index omits only mixes that do not match.
func TestTheIndexReturnsTheMixThatAScanReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, model := governing.NewRegistry(), map[string]*v1alpha1.CapacityMix{}
		versions := map[uint64]bool{0: true}
		last := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				cm := &v1alpha1.CapacityMix{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "name"))},
				}
				cm.CreationTimestamp = metav1.NewTime(time.Unix(rapid.Int64Range(0, 2).Draw(t, "age"), 0))
				cm.Spec.Selector = drawSelector(t)
				require.NoError(t, store.Set(cm))
				model[cm.Name] = cm
				last = store.Version("shop")
				require.False(t, versions[last], "the version is a new one")
				versions[last] = true
			},
			"delete": func(t *rapid.T) {
				name := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "name"))
				store.Delete("shop", name)
				delete(model, name)
				if last = store.Version("shop"); len(model) == 0 {
					require.Zero(t, last)
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, last, store.Version("shop"), "only a change is one")
				for _, app := range []string{"", "a", "b", "c"} {
					for _, team := range []string{"", "a", "b", "c"} {
						set := labels.Set{}
						if app != "" {
							set["app"] = app
						}
						if team != "" {
							set["team"] = team
						}
						var selecting []string
						var oldest *v1alpha1.CapacityMix
						for name, cm := range model {
							_, selector, err := governing.FromCapacityMix(cm)
							require.NoError(t, err)
							if !selector.Matches(set) {
								continue
							}
							selecting = append(selecting, name)
							if oldest == nil || cm.CreationTimestamp.Before(&oldest.CreationTimestamp) ||
								cm.CreationTimestamp.Equal(&oldest.CreationTimestamp) && name < oldest.Name {
								oldest = cm
							}
						}
						require.ElementsMatch(t, selecting, store.Selecting(nil, "shop", set))
						require.Empty(t, store.Selecting(nil, "other", set))
						found := store.Match("shop", set)
						if oldest == nil {
							require.Nil(t, found)
						} else {
							require.NotNil(t, found)
							require.Equal(t, governing.SourceCapacityMix+oldest.Name, found.Source)
						}
					}
				}
			},
		})
	})
}

// Until Kubernetes has its feature gate on by default, a toleration that compares would break the pods that get it.
func TestTolerationsThatCompareNeedTheFeatureGate(t *testing.T) {
	exists := v1alpha1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	more := v1alpha1.Toleration{Key: "b", Operator: corev1.TolerationOpGt, Value: "5"}
	less := v1alpha1.Toleration{Key: "c", Operator: corev1.TolerationOpLt, Value: "7"}
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{more, exists}, OnDemand: []v1alpha1.Toleration{less}}
	for _, on := range []bool{false, true} {
		store := governing.NewRegistry()
		store.Comparison = on
		for _, s := range []*governing.Registry{store, store.Empty()} {
			require.NoError(t, s.Set(cm))
			got := s.Match("shop", nil).Tolerations
			if on {
				require.Equal(t, []corev1.Toleration{corev1.Toleration(more), corev1.Toleration(exists)}, got[capacity.Spot])
				require.Equal(t, []corev1.Toleration{corev1.Toleration(less)}, got[capacity.OnDemand])
				require.Empty(t, s.Ignored(cm))
				continue
			}
			require.Equal(t, []corev1.Toleration{corev1.Toleration(exists)}, got[capacity.Spot])
			require.Empty(t, got[capacity.OnDemand])
			require.Equal(t, []string{"b Gt 5", "c Lt 7"}, s.Ignored(cm))
		}
	}
	require.Empty(t, governing.NewRegistry().Ignored(&v1alpha1.CapacityMix{}))
}

func TestARegistryReportsWhetherAMixAvoidsInterruptedDomains(t *testing.T) {
	r := governing.NewRegistry()
	for _, avoids := range []bool{false, true, true, false, true} {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		if avoids {
			builders.AvoidInterrupted(cm)
		}
		require.NoError(t, r.Set(cm))
		require.Equal(t, avoids, r.Avoids())
	}
	invalid := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	invalid.Spec.SpotPercent = 101
	require.Error(t, r.Set(invalid))
	require.False(t, r.Avoids())
}

func TestARegistryReportsWhetherAMixLimitsDomains(t *testing.T) {
	r, cm := governing.NewRegistry(), &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	one := int32(1)
	limit := []v1alpha1.DomainLimit{{TopologyKey: "zone", MaxCount: &one}}
	for _, limits := range []bool{false, true, true, false, true} {
		if cm.Spec.MaxPerDomain = nil; limits {
			cm.Spec.MaxPerDomain = limit
		}
		require.NoError(t, r.Set(cm))
		require.Equal(t, limits, r.Limits())
	}
	r.Delete("shop", "web")
	require.False(t, r.Limits())
}
