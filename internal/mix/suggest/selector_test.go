// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestASelectorSelectsOneWorkload(t *testing.T) {
	var l Labels
	web := l.Add(labels.Set{"app": "web", "tier": "front"})
	l.Add(labels.Set{"app": "api", "tier": "front"})
	app, tier := SelectorOf(labels.Set{"app": "web"}), SelectorOf(labels.Set{"tier": "front"})
	assert.Same(t, app, l.Alone(web, tier, app), "the first selects another workload, too")
	assert.Nil(t, l.Alone(web, tier, nil, &Selector{}), "an empty one selects all")
	assert.Nil(t, l.Alone(web, SelectorOf(labels.Set{"app": "none"})), "it does not select the workload")
	many := labels.Set{}
	for i := range maxLabels + 1 {
		many[fmt.Sprint("k", i)] = "v"
	}
	large := l.Add(many)
	assert.Nil(t, l.Alone(large, SelectorOf(many)), "a mix may have fewer")
	values := make([]string, maxValues+1)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	values[0] = "web"
	assert.Nil(t, l.Alone(web, &Selector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: values}}}))
}

func TestCommonLabelsAreThoseOfEachPod(t *testing.T) {
	first := labels.Set{"app": "web", "pod-template-hash": "1", "zone": "a"}
	common := Common(Common(nil, first), labels.Set{"app": "web", "pod-template-hash": "1", "zone": "b"})
	assert.Equal(t, labels.Set{"app": "web"}, common)
	assert.Equal(t, labels.Set{"app": "web", "zone": "a"}, Common(nil, labels.Set{"app": "web", "zone": "a"}))
	assert.Len(t, first, 3, "the labels of the pod are not changed")
}

// counted counts the comparisons of a selector.
type counted struct {
	labels.Selector
	matches *int
}

func (c counted) Matches(l labels.Labels) bool {
	*c.matches++
	return c.Selector.Matches(l)
}

// Each selector of 10,000 is compared with the workloads that may match, and not with all.
func TestSelectorsAreNotComparedWithAllWorkloads(t *testing.T) {
	var l Labels
	const n = 10_000
	for i := range n {
		l.Add(labels.Set{"app": fmt.Sprint("w", i), "team": "shop", "tier": fmt.Sprint(i % 10)})
	}
	matches := 0
	for i := range n {
		s, err := labels.Parse(fmt.Sprintf("team=shop,app=w%d,tier in (%d)", i, i%10))
		require.NoError(t, err)
		selected := 0
		l.Selected(counted{s, &matches}, func(int) bool { selected++; return true })
		require.Equal(t, 1, selected)
	}
	assert.Equal(t, n, matches)
}
