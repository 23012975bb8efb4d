// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/test/generators"
)

func limit(namespace, name string, age time.Duration, selects map[string]string) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
	}}
	if selects != nil {
		l.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: selects}
	}
	return l
}

func pod(namespace string, labels, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: labels, Annotations: annotations}}
}

func names(name string) map[string]string {
	return map[string]string{v1alpha1.ResourceLimitLabel: name}
}

func TestAPodHasTheLimitThatItNames(t *testing.T) {
	t.Parallel()
	r := registry.NewRegistry("sizes")
	for _, l := range []*v1alpha1.ResourceLimit{
		limit("shop", "small", 0, nil),
		limit("shop", "young", time.Hour, map[string]string{"app": "web"}),
		limit("shop", "old-b", 2*time.Hour, map[string]string{"app": "web"}),
		limit("shop", "old-a", 2*time.Hour, map[string]string{"app": "web"}),
		limit("shop", "oldest", 3*time.Hour, map[string]string{"app": "db"}),
		limit("sizes", "small", 0, nil),
		limit("sizes", "shared", 0, map[string]string{"app": "alone"}),
	} {
		assert.True(t, r.Set(l))
	}
	web := map[string]string{"app": "web"}
	for name, tc := range map[string]struct {
		pod         *corev1.Pod
		want        string
		wantMissing string
	}{
		"the one its label names":                           {pod: pod("shop", names("small"), names("young")), want: "shop/small"},
		"the one its annotation names, without a label":     {pod: pod("shop", web, names("small")), want: "shop/small"},
		"the annotation counts where the label is empty":    {pod: pod("shop", names(""), names("small")), want: "shop/small"},
		"the oldest that selects it, ties by name":          {pod: pod("shop", web, nil), want: "shop/old-a"},
		"of the default namespace, if its own has not that": {pod: pod("shop", names("shared"), nil), want: "sizes/shared"},
		"of the default namespace, for any namespace":       {pod: pod("other", names("small"), nil), want: "sizes/small"},
		"a selector counts in its own namespace only":       {pod: pod("shop", map[string]string{"app": "alone"}, nil)},
		"a name that is nowhere is missing":                 {pod: pod("shop", names("huge"), nil), wantMissing: "shop/huge"},
		"a name is not made up for by a selector":           {pod: pod("shop", map[string]string{"app": "web", v1alpha1.ResourceLimitLabel: "huge"}, nil), wantMissing: "shop/huge"},
		"none, where nothing selects it":                    {pod: pod("shop", map[string]string{"app": "x"}, nil)},
		"a mirror pod has none":                             {pod: pod("shop", names("small"), map[string]string{corev1.MirrorPodAnnotationKey: "x"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.For(tc.pod)
			assert.Equal(t, tc.want, keyOf(got))
			assert.Equal(t, tc.wantMissing, got.Missing)
		})
	}
	t.Run("without a default namespace it is missing", func(t *testing.T) {
		t.Parallel()
		none := registry.NewRegistry("")
		none.Set(limit("", "small", 0, nil))
		assert.Equal(t, "shop/small", none.For(pod("shop", names("small"), nil)).Missing)
	})
}

func keyOf(r registry.Resolution) string {
	if r.Limit == nil {
		return ""
	}
	return r.Limit.Key
}

func TestALimitIsCompiledOncePerGeneration(t *testing.T) {
	t.Parallel()
	r := registry.NewRegistry("")
	l := limit("shop", "small", 0, nil)
	require.True(t, r.Set(l))
	first := r.For(pod("shop", names("small"), nil)).Limit

	status := l.DeepCopy()
	status.Status.PodCount = 3
	assert.False(t, r.Set(status))
	assert.Same(t, first, r.For(pod("shop", names("small"), nil)).Limit)

	changed := l.DeepCopy()
	changed.Generation++
	assert.True(t, r.Set(changed))
	again := changed.DeepCopy()
	again.UID = "recreated"
	assert.True(t, r.Set(again))
	assert.Same(t, again, r.For(pod("shop", names("small"), nil)).Limit.Limit)
}

// The registry answers as a plain walk over all limits does, after any changes.
func registered(t *rapid.T) {
	const defaultNamespace = "n0"
	r, all := registry.NewRegistry(defaultNamespace), map[string]*v1alpha1.ResourceLimit{}
	for n := range rapid.IntRange(1, 30).Draw(t, "changes") {
		namespace, name := generators.Name(t, "n", 2), generators.Name(t, "l", 4)
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			r.Delete(namespace, name)
			delete(all, namespace+"/"+name)
			continue
		}
		l := limit(namespace, name, time.Duration(rapid.IntRange(0, 2).Draw(t, "age"))*time.Hour, nil)
		if rapid.Bool().Draw(t, "selects") {
			l.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": generators.Name(t, "a", 2)}}
		}
		l.UID, l.Generation = types.UID(fmt.Sprint(n)), int64(n+1)
		r.Set(l)
		all[namespace+"/"+name] = l
		for range 3 {
			p := pod(generators.Name(t, "n", 3), map[string]string{"app": generators.Name(t, "a", 2)}, nil)
			if rapid.Bool().Draw(t, "names") {
				p.Labels[v1alpha1.ResourceLimitLabel] = generators.Name(t, "l", 4)
			}
			require.Equal(t, walk(all, p, defaultNamespace), keyOf(r.For(p)))
		}
	}
}

func walk(all map[string]*v1alpha1.ResourceLimit, p *corev1.Pod, defaultNamespace string) string {
	if name := p.Labels[v1alpha1.ResourceLimitLabel]; name != "" {
		for _, key := range []string{p.Namespace + "/" + name, defaultNamespace + "/" + name} {
			if all[key] != nil {
				return key
			}
		}
		return ""
	}
	var matching []*v1alpha1.ResourceLimit
	for _, l := range all {
		if l.Namespace == p.Namespace && l.Spec.Selector != nil && l.Spec.Selector.MatchLabels["app"] == p.Labels["app"] {
			matching = append(matching, l)
		}
	}
	if len(matching) == 0 {
		return ""
	}
	oldest := slices.MinFunc(matching, func(a, b *v1alpha1.ResourceLimit) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return oldest.Namespace + "/" + oldest.Name
}

func TestTheRegistryAnswersAsAWalkOverAllLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, registered)
}

func FuzzRegistry(f *testing.F) { f.Fuzz(rapid.MakeFuzz(registered)) }

func TestAPodWithoutASizeCostsNoAllocation(t *testing.T) {
	r := registry.NewRegistry("sizes")
	r.Set(limit("shop", "small", 0, map[string]string{"app": "db"}))
	for _, p := range []*corev1.Pod{pod("other", map[string]string{"app": "web"}, nil), pod("shop", map[string]string{"app": "web"}, nil), pod("shop", names("small"), nil)} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { r.For(p) }))
	}
}
