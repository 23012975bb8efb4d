// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// set makes a StatefulSet that counts its ordinals from start.
func set(app string, replicas, start int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	s := builders.StatefulSet(app, replicas, policy)
	if start != 0 {
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
	}
	return s
}

// ordinalFrom returns the slot of a StatefulSet's pod by its name.
func ordinalFrom(t *testing.T, start int) func(*corev1.Pod) int {
	return func(p *corev1.Pod) int {
		n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
		require.NoError(t, err)
		return n - start
	}
}

func scaleSet(w *testenv.World, s *appsv1.StatefulSet, n int) []corev1.Pod {
	w.T.Helper()
	testenv.Patch(w, s, func(s *appsv1.StatefulSet) { *s.Spec.Replicas = int32(n) })
	return w.WaitReady(s.Name, n)
}

func TestAStatefulSetHasItsSlotsByOrdinalAndKeepsItsTypes(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 2)
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		for _, start := range []int{0, 5} {
			w.Run(fmt.Sprintf("%s from ordinal %d", policy, start), func(t *testing.T, w *testenv.World) {
				app := strings.ToLower(fmt.Sprintf("web-%s-%d", policy, start))
				slot := ordinalFrom(t, start)
				s := set(app, 8, int32(start), policy)
				w.Create(builders.CapacityMix(app, 60, 2), s)
				record := w.Record(app)
				w.WaitReady(app, 8)
				requireAssignments(w, w.RequireExact(app, m, 8), m, slot)
				for _, n := range []int{3, 10, 8} {
					scaleSet(w, s, n)
					requireAssignments(w, w.RequireExact(app, m, n), m, slot)
				}
				record.RequireOnTheirTypes(m)
				w.Delete(s)
			})
		}
	}
}

func TestADeletedPodOfAStatefulSetKeepsItsTypeAndSlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 2)
	for _, start := range []int{0, 2} {
		w.Run(fmt.Sprintf("from ordinal %d", start), func(t *testing.T, w *testenv.World) {
			app := fmt.Sprintf("web%d", start)
			s := set(app, 8, int32(start), appsv1.ParallelPodManagement)
			w.Create(builders.CapacityMix(app, 60, 2), s)
			w.WaitReady(app, 8)
			pods := byName(w.RequireExact(app, m, 8))
			seen := map[capacity.Type]bool{}
			for _, ordinals := range [][]int{{3}, {start}, {7}, {start, 3, 4, 6}} {
				var old []corev1.Pod
				for _, n := range ordinals {
					seen[m.TypeOf(n-start)] = true
					p := pods[name(app, n)]
					old = append(old, p)
					w.Delete(&p)
				}
				after := waitReplaced(w, app, 8, old...)
				w.RequireExactPods(after, m)
				requireAssignments(w, after, m, ordinalFrom(t, start))
				pods = byName(after)
			}
			require.Len(t, seen, 2, "types of the deleted pods")
			w.Delete(s)
		})
	}
}
