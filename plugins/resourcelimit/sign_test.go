// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
)

func TestPodsAreSignedByTheNodeRulesOfTheirLimit(t *testing.T) {
	f := newFixture(t, defaultArgs())
	bound, changed := limit("shop", "bound", onNodes("pool", "batch")), limit("shop", "changed", onNodes("pool", "batch"))
	for _, l := range []*v1alpha1.ResourceLimit{limit("shop", "small", cpu("2")), bound, changed, limit("shop", "fond", prefers(1, "disk", "ssd"))} {
		f.set(l)
	}
	f.set(next(changed))
	resolved := pod("a", "fond")
	resolved.Annotations = map[string]string{v1alpha1.ResolvedLimitAnnotation: "shop/fond@1"}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want *signature
		code fwk.Code
	}{
		"without a limit":                        {pod: pod("a", "")},
		"a limit without rules for nodes":        {pod: pod("a", "small")},
		"a limit that does not exist":            {pod: pod("a", "none"), code: fwk.Unschedulable},
		"a node selector":                        {pod: pod("a", "bound"), want: &signature{Limit: "shopbound", Generation: 1}},
		"a limit that has changed":               {pod: pod("a", "changed"), want: &signature{Limit: "shopchanged", Generation: 2}},
		"preferences":                            {pod: pod("a", "fond"), want: &signature{Limit: "shopfond", Generation: 1, Scores: true}},
		"preferences that are in the pod itself": {pod: resolved},
	} {
		t.Run(name, func(t *testing.T) {
			fragments, status := f.plugin.SignPod(t.Context(), c.pod)
			assert.Equal(t, c.code, status.Code(), status.Message())
			var want []fwk.SignFragment
			if c.want != nil {
				want = []fwk.SignFragment{{Key: signerName, Value: *c.want}}
			}
			assert.Equal(t, want, fragments)
		})
	}
}
