// SPDX-License-Identifier: Apache-2.0

package nodeselector_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/kube/nodeselector"
	"berth.dev/berth/test/generators"
)

// required draws the required part of an affinity, nil for none.
func required(t *rapid.T) *corev1.NodeSelector {
	if a := generators.NodeAffinity(t).AsNodeAffinity(); a != nil {
		return a.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// matches is what the stock scheduler thinks of it. A term that cannot be parsed,
// as some are that are drawn, matches no node.
func matches(s *corev1.NodeSelector, n *corev1.Node) bool {
	if s == nil {
		return true
	}
	match, _ := nodeaffinity.NewLazyErrorNodeSelector(s).Match(n)
	return match
}

func TestBothMatchesWhatEachOfTwoMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, other := required(t), required(t)
		ownBefore, otherBefore := own.DeepCopy(), other.DeepCopy()
		most := rapid.IntRange(1, 12).Draw(t, "most")
		both, fits := nodeselector.Both(own, other, most)
		require.Equal(t, ownBefore, own)
		require.Equal(t, otherBefore, other)
		if !fits {
			require.Greater(t, len(both.NodeSelectorTerms), most)
			return
		}
		again, _ := nodeselector.Both(both, other, most)
		for range 8 {
			n := generators.Node(t)
			want := matches(own, n) && matches(other, n)
			require.Equal(t, want, matches(both, n), "%v", n.Labels)
			require.Equal(t, want, matches(again, n), "done twice: %v", n.Labels)
		}
	})
}

func TestAnEmptyTermLeavesAnEmptyTerm(t *testing.T) {
	nothing := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	both, fits := nodeselector.Both(nil, nothing, 1)
	assert.True(t, fits)
	assert.Equal(t, nothing, both, "one term that matches no node: the API server takes no list without a term")
	assert.True(t, nodeselector.Empty(&both.NodeSelectorTerms[0]))
}
