// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
)

// filterFixture has a pod of a size with a selector and required terms, and
// nodes of which every second one matches.
func filterFixture(tb testing.TB, nodes int) (*fixture, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) {
	tb.Helper()
	p := pod("a", "large")
	f := newFixture(tb, defaultArgs(), p)
	f.set(limit("shop", "large", cpu("2"), onNodes("pool", "batch"), func(s *v1alpha1.ResourceLimitSpec) {
		s.NodeAffinity = &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{
			{MatchExpressions: []v1alpha1.NodeRequirement{{Key: "arch", Operator: v1alpha1.NodeOpIn, Values: []string{"arm64"}}}},
			{MatchExpressions: []v1alpha1.NodeRequirement{{Key: "cores", Operator: v1alpha1.NodeOpGt, Values: []string{"7"}}, {Key: "old", Operator: v1alpha1.NodeOpDoesNotExist}}},
		}}}
	}))
	infos := make([]fwk.NodeInfo, nodes)
	for i := range infos {
		infos[i] = info(node(fmt.Sprintf("node-%d", i), map[string]string{"pool": []string{"batch", "web"}[i%2], "arch": "amd64", "cores": "16", "zone": "a"}))
	}
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.Ctx, state, p, nil)
	require.True(tb, status.IsSuccess(), status.Message())
	return f, state, p, infos
}

func TestFilterAllocatesNothingOnAMatch(t *testing.T) {
	f, state, p, infos := filterFixture(t, 1)
	require.Nil(t, f.plugin.Filter(f.Ctx, state, p, infos[0]))
	assert.Zero(t, testing.AllocsPerRun(100, func() { f.plugin.Filter(f.Ctx, state, p, infos[0]) }))
}

func BenchmarkFilter(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		f, state, p, infos := filterFixture(b, nodes)
		for name, every := range map[string]func(int) fwk.NodeInfo{
			"match": func(i int) fwk.NodeInfo { return infos[i*2%nodes] },
			"none":  func(i int) fwk.NodeInfo { return infos[(i*2+1)%nodes] },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					f.plugin.Filter(f.Ctx, state, p, every(i))
				}
			})
		}
	}
}

func BenchmarkPreFilter(b *testing.B) {
	f, _, p, _ := filterFixture(b, 1)
	for name, p := range map[string]*corev1.Pod{"sized": p, "unsized": pod("b", "")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				_, _ = f.plugin.PreFilter(f.Ctx, framework.NewCycleState(), p, nil)
			}
		})
	}
}
