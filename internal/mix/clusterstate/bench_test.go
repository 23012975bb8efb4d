// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// BenchmarkCompose measures an event of one pod, and the next reading of its group.
func BenchmarkCompose(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("a ReplicaSet of %d", pods), func(b *testing.B) {
			rs := replicaSet("rs", int32(pods))
			benchmarkEvents(b, options(), pods, true, func(int) a[*corev1.Pod] { return owned(rs) })
		})
		b.Run(fmt.Sprintf("a ReplicaSet of %d whose floor is protected", pods), func(b *testing.B) {
			rs := replicaSet("rs", int32(pods))
			benchmarkEvents(b, options(), pods, true, func(i int) a[*corev1.Pod] {
				return func(p *corev1.Pod) {
					if owned(rs)(p); i%2 == 1 {
						p.Labels[v1alpha1.FloorLabel] = "0123456789abcdef"
					}
				}
			})
		})
		b.Run(fmt.Sprintf("a StatefulSet of %d", pods), func(b *testing.B) {
			set := statefulSet("set", int32(pods))
			benchmarkEvents(b, options(), pods, true, func(int) a[*corev1.Pod] { return owned(set) })
		})
	}
	b.Run("a selector over 10000 pods of 10000 owners", func(b *testing.B) {
		benchmarkEvents(b, selecting(b, nil), 10_000, true, ofOwnOwner)
	})
	b.Run("10 units of 1000 pods", func(b *testing.B) {
		benchmarkEvents(b, selecting(b, &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}), 10_000, true, func(i int) a[*corev1.Pod] {
			return func(p *corev1.Pod) { p.Labels["unit"] = fmt.Sprint(i / 1000) }
		})
	})
}

// BenchmarkEvent measures an event of one pod of a group that nobody reads.
func BenchmarkEvent(b *testing.B) {
	benchmarkEvents(b, selecting(b, nil), 10_000, false, ofOwnOwner)
}

func ofOwnOwner(i int) a[*corev1.Pod] {
	return ownedBy("example.com/v1", "Runner", fmt.Sprint("runner-", i), types.UID(fmt.Sprint("uid-runner-", i)))
}

// selecting are the options of a state with a mix over all pods of the namespace.
func selecting(tb testing.TB, unit *v1alpha1.PodUnit) Options {
	tb.Helper()
	o, cm := options(), &v1alpha1.CapacityMix{}
	cm.Namespace, cm.Name, cm.Spec.SpotPercent, cm.Spec.Group, cm.Spec.Unit = namespaceName, "all", 50, v1alpha1.PodGroupingSelector, unit
	require.NoError(tb, o.Mixes.Set(cm))
	return o
}

func benchmarkEvents(b *testing.B, o Options, pods int, read bool, of func(int) a[*corev1.Pod]) {
	b.Helper()
	st := fill(New(o), nodesOfEachType()...)
	podAt := func(i int, changes ...a[*corev1.Pod]) *corev1.Pod {
		return podNamed(fmt.Sprintf("p-%d", i), append(changes, of(i), made(i), on([]string{"s", "o"}[i%2]))...)
	}
	for i := range pods {
		st.SetPod(podAt(i))
	}
	require.Len(b, st.Current(namespaceName), 1)
	key := st.Current(namespaceName)[0].Key
	objects := make([]*corev1.Pod, min(pods, 1000))
	for i := range objects {
		objects[i] = podAt(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := objects[i%len(objects)]
		p.Status.Conditions = nil
		if i/len(objects)%2 == 0 {
			ready(p)
		}
		if st.SetPod(p); read {
			st.Group(key)
		}
	}
}
