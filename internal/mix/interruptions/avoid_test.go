// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

// Whatever is in quarantine, a pod that has nodes keeps some, and loses none outside of quarantine.
func TestAQuarantineLeavesAPodADomain(t *testing.T) {
	keys := []string{"zone", "type", "rack"}
	rapid.Check(t, func(t *rapid.T) {
		own := keys[:rapid.IntRange(1, 3).Draw(t, "keys")]
		labels := rapid.Custom(func(t *rapid.T) map[string]string {
			all := map[string]string{}
			for _, key := range keys {
				if value := rapid.SampledFrom([]string{"", "a", "b/c", "?", "%"}).Draw(t, key); value != "" {
					all[key] = value
				}
			}
			return all
		})
		nodes := rapid.SliceOfN(labels, 0, 6).Draw(t, "nodes")
		q := &Quarantine{Keys: own, Until: map[string]time.Time{}}
		for _, domain := range rapid.SliceOfN(labels, 0, 6).Draw(t, "quarantine") {
			q.Until[capacity.Domain(domain, own)] = noon
		}
		applies := q.Sparing(slices.Values(nodes))
		left := 0
		for _, node := range nodes {
			r, refused := applies.Refuse(node)
			_, in := q.Until[capacity.Domain(node, own)]
			if refused {
				require.True(t, in, "%v", node)
				require.Equal(t, Refusal{Domain: capacity.Domain(node, own), Until: noon}, r)
			} else {
				left++
			}
			if applies != nil {
				require.Equal(t, in, refused, "%v", node)
			}
		}
		require.True(t, left > 0 || len(nodes) == 0, "no domain is left")
	})
}

func TestTheReasonNamesTheDomainAndTheEnd(t *testing.T) {
	q := &Quarantine{Keys: []string{"zone", "type"}, Until: map[string]time.Time{"a/m5": noon}}
	r, refused := q.Refuse(map[string]string{"zone": "a", "type": "m5"})
	require.True(t, refused)
	assert.Equal(t, "node(s) are in interruption domain a/m5, which is in quarantine until "+noon.UTC().Format(time.RFC3339),
		q.Reasons().Of(r))
	other := map[string]string{"zone": "b", "type": "m5"}
	assert.Zero(t, testing.AllocsPerRun(100, func() { q.Refuse(other) }))
}

// The condition of a pod would change with each attempt if the order of nodes decided which domains it names.
func TestTheReasonsNameTheFirstDomains(t *testing.T) {
	q := &Quarantine{Keys: zones, Until: map[string]time.Time{}}
	for i := range maxNamed + 3 {
		q.Until[fmt.Sprintf("zone-%02d", i)] = noon
	}
	reasons := q.Reasons()
	assert.Len(t, reasons, maxNamed)
	for name := range q.Until {
		r, _ := q.Refuse(map[string]string{zones[0]: name})
		if name < fmt.Sprintf("zone-%02d", maxNamed) {
			assert.Contains(t, reasons.Of(r), name)
		} else {
			assert.Equal(t, ReasonOthers, reasons.Of(r), name)
		}
	}
	var none *Quarantine
	assert.Nil(t, none.Reasons())
}

// A pod would wait for a node that can never hold it, and be kept off all others meanwhile.
func TestANodeWithoutRoomForAPodIsNotLeftToIt(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	for name, tc := range map[string]struct {
		allocatable corev1.ResourceList
		want        bool
	}{
		"room":             {list("cpu", "3", "memory", "2Gi", "example.com/gpu", "1", "pods", "1"), true},
		"too few CPUs":     {list("cpu", "2900m", "memory", "2Gi", "example.com/gpu", "1", "pods", "1"), false},
		"too little":       {list("cpu", "3", "memory", "2047Mi", "example.com/gpu", "1", "pods", "1"), false},
		"no GPU":           {list("cpu", "3", "memory", "2Gi", "pods", "1"), false},
		"no pods":          {list("cpu", "3", "memory", "2Gi", "example.com/gpu", "1", "pods", "0"), false},
		"nothing is known": {nil, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Resources: corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1Gi", "example.com/gpu", "1")}},
				{Resources: corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1Gi", "example.com/fpga", "0")}},
			},
			InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "2500m")}}},
			Overhead:       list("cpu", "500m"),
		}}
		assert.Equal(t, tc.want, Usable(pod, false)(&corev1.Node{Status: corev1.NodeStatus{Allocatable: tc.allocatable}}), name)
	}
}

func TestOnlyNodesThatAPodCanUseAreLeftToIt(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect, Value: "5"})
		}
	}
	for name, tc := range map[string]struct {
		node       func(*corev1.Node)
		comparison bool
		want       bool
	}{
		"any":                          {func(*corev1.Node) {}, false, true},
		"cordoned":                     {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false, false},
		"departing":                    {taint("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule), false, false},
		"not selected":                 {func(n *corev1.Node) { n.Labels["disk"] = "hdd" }, false, false},
		"a taint":                      {taint("gpu", corev1.TaintEffectNoSchedule), false, false},
		"a taint that evicts":          {taint("gpu", corev1.TaintEffectNoExecute), false, false},
		"a preference":                 {taint("gpu", corev1.TaintEffectPreferNoSchedule), false, true},
		"a taint that is tolerated":    {taint("spot", corev1.TaintEffectNoSchedule), false, true},
		"a comparison":                 {taint("sla", corev1.TaintEffectNoSchedule), true, true},
		"a comparison without support": {taint("sla", corev1.TaintEffectNoSchedule), false, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{
			{Key: "spot", Operator: corev1.TolerationOpExists}, {Key: "sla", Operator: corev1.TolerationOpLt, Value: "9"},
		}}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
		tc.node(node)
		assert.Equal(t, tc.want, Usable(pod, tc.comparison)(node), name)
	}
}

func TestNoQuarantineRefusesNothing(t *testing.T) {
	var none *Quarantine
	for _, q := range []*Quarantine{none, {}, {Keys: zones}} {
		_, refused := q.Refuse(map[string]string{"zone": "a"})
		assert.False(t, refused)
		assert.Nil(t, q.Sparing(func(func(map[string]string) bool) { assert.Fail(t, fmt.Sprint(q, " needs no nodes")) }))
	}
}
