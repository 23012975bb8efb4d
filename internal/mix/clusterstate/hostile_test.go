// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/perf/bench"
)

// mostAllocated and mostTime bound what the objects of one tenant cost, with a factor for the race detector and a busy machine.
const mostAllocated, mostTime = 32 << 20, 5 * time.Second

// FuzzClusterState feeds the state of the cluster what a tenant can write: a ReplicaSet and pods that refer to it, to others, or to one of
// another namespace.
func FuzzClusterState(f *testing.F) {
	f.Add(int32(5), "50", "1", "0", "ReplicaSet", "apps/v1", "uid-rs", "web")
	f.Add(int32(math.MaxInt32), "100", "2147483647", "1048575", "DaemonSet", "apps/v1", "uid-rs", "")
	f.Add(int32(-1), "-1", "9223372036854775808", "-1", "", "", "", "\xff\x00")
	f.Add(int32(0), strings.Repeat("9", 1<<18), strings.Repeat("0", 1<<18), strings.Repeat("1", 1<<18), strings.Repeat("k", 1<<18), "/", "none", strings.Repeat("é", 1<<17))
	f.Fuzz(func(t *testing.T, replicas int32, percent, floor, slotText, kind, apiVersion, uid, text string) {
		rs := replicaSet("rs", replicas)
		rs.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: percent, v1alpha1.MinOnDemandAnnotation: floor, text: text}
		victim := replicaSet("victim", 2)
		fl := fill(newClusterState(), victim, podNamed("v-0", owned(victim)), podNamed("v-1", owned(victim), made(1)))

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := bench.ProcessorTime()
		fl.SetOwner(rs)
		for i, change := range []a[*corev1.Pod]{
			owned(rs), ownedBy(apiVersion, kind, text, types.UID(uid)), ownedBy(apiVersion, kind, "victim", victim.UID),
			func(p *corev1.Pod) {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: types.UID(uid)})
			},
		} {
			p := podNamed("p-"+string(rune('0'+i)), change, made(i), annotated(v1alpha1.SlotAnnotation, slotText), annotated(v1alpha1.AcceptedReplicasAnnotation, floor),
				annotated(v1alpha1.PodDeletionCostAnnotation, slotText), annotated(text, text))
			p.Namespace, p.Labels["text"] = []string{namespaceName, "aaa"}[min(i, 1)], text
			fl.SetPod(p)
		}
		for _, namespace := range []string{"aaa", namespaceName} {
			for _, g := range fl.Groups(namespace) {
				g.WrongSide()
				g.PendingByType()
				g.Counts()
				g.Borrowed()
			}
		}
		took := bench.ProcessorTime() - began
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(mostAllocated)+64*uint64(len(text)+len(percent)+len(floor)+len(slotText)+len(kind)), "bytes allocated")
		require.Less(t, took, mostTime)

		for _, g := range fl.Groups(namespaceName) {
			if g.Workload.Name == "victim" {
				require.Len(t, g.Assignments, 2, "a neighbour's group is as it was")
				require.Equal(t, 2, g.Replicas)
				return
			}
		}
		t.Fatal("the neighbour's group is gone")
	})
}
