// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/generators"
)

// fits runs PreFilter and Filter of a plugin as the scheduler does.
func fits(t require.TestingT, f *fixture, pl fwk.Plugin, p *corev1.Pod, n *corev1.Node) bool {
	state := framework.NewCycleState()
	result, status := pl.(fwk.PreFilterPlugin).PreFilter(f.Ctx, state, p, []fwk.NodeInfo{info(n)})
	switch {
	case status.IsSkip():
		return true
	case status.IsRejected():
		return false
	}
	require.True(t, status.IsSuccess(), status.Message())
	if !result.AllNodes() && !result.NodeNames.Has(n.Name) {
		return false
	}
	return pl.(fwk.FilterPlugin).Filter(f.Ctx, state, p, info(n)).IsSuccess()
}

// The plugin filters by a limit as the in-tree plugin NodeAffinity filters for a pod
// with the same terms: 10,000 selectors and affinities, each on several nodes.
func TestFilterAgreesWithNodeAffinity(t *testing.T) {
	f := newFixture(t, defaultArgs())
	inTree, err := nodeaffinity.New(f.Ctx, &schedulerconfig.NodeAffinityArgs{}, f.framework, feature.Features{})
	require.NoError(t, err)
	agree, matched := 0, 0
	generation := int64(0)
	check := func(t *rapid.T) {
		l := generators.ResourceLimit(t, "shop", "drawn")
		generation++
		l.Generation = generation
		f.set(l)
		plain := pod("a", "")
		plain.Spec.NodeSelector = l.Spec.NodeSelector
		if affinity := l.Spec.NodeAffinity.AsNodeAffinity(); affinity != nil {
			plain.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity}
		}
		sized := plain.DeepCopy()
		sized.Spec.NodeSelector, sized.Spec.Affinity = nil, nil
		sized.Labels = map[string]string{v1alpha1.ResourceLimitLabel: "drawn"}
		for range 3 {
			n := generators.Node(t)
			want := fits(t, f, inTree, plain, n)
			require.Equal(t, want, fits(t, f, f.plugin, sized, n), "node %s with labels %v", n.Name, n.Labels)
			agree++
			if want {
				matched++
			}
		}
	}
	checks(t, "10000")
	rapid.Check(t, check)
	require.GreaterOrEqual(t, agree, 30000)
	// The comparison is worth something only where both results are common.
	require.Greater(t, matched, agree/10)
	require.Less(t, matched, agree*9/10)
	t.Logf("%d comparisons, %d of them matches", agree, matched)
}

// checks sets how many cases rapid draws, unless the command line sets more.
func checks(t *testing.T, n string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if before != checks.DefValue {
		return
	}
	require.NoError(t, checks.Value.Set(n))
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}
