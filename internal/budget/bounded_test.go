// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestAnnotationsAreKeptUnlessTheyAreVeryLong(t *testing.T) {
	usual := map[string]string{
		"berth.dev/spot-percent":                           "50",
		"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("{", 12<<10),
	}
	assert.Equal(t, usual, Bounded(usual))

	long := map[string]string{"berth.dev/spot-percent": "50", "berth.dev/min-on-demand": "1" + strings.Repeat(" ", 250_000)}
	bounded := Bounded(long)
	assert.Equal(t, "50", bounded["berth.dev"+"/spot-percent"])
	assert.True(t, strings.HasSuffix(bounded["berth.dev"+"/min-on-demand"], "…"), "a value that was cut is not valid")

	many := map[string]string{}
	for i := range 10_000 {
		many[fmt.Sprint("example.com/", i)] = "x"
	}
	assert.Less(t, len(Bounded(many)), len(many))
}

func TestBoundedAnnotationsTakeFewBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := map[string]string{}
		for range rapid.IntRange(0, 40).Draw(t, "annotations") {
			all[rapid.String().Draw(t, "key")] = strings.Repeat(
				rapid.StringN(1, 9, -1).Draw(t, "value"), rapid.IntRange(0, 3000).Draw(t, "times"),
			)
		}
		bounded, size := Bounded(all), 0
		for k, v := range bounded {
			require.Contains(t, all, k)
			if v != all[k] {
				require.True(t, strings.HasPrefix(all[k], strings.TrimSuffix(strings.ToValidUTF8(v, ""), "…")))
			}
			size += len(k) + len(v)
		}
		require.LessOrEqual(t, size, mostAnnotations)
		require.Equal(t, bounded, Bounded(bounded), "what is bounded stays as it is")
	})
}

func TestBoundObjectDropsManagedFields(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{
			"a": strings.Repeat("x", 250_000), "berth.dev/spot-percent": "50",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}}
	object, err := BoundObject(pod)
	require.NoError(t, err)
	assert.Same(t, pod, object)
	assert.Empty(t, pod.ManagedFields)
	assert.Less(t, len(pod.Annotations["a"]), 5<<10)
	assert.Equal(t, "50", pod.Annotations["berth.dev"+"/spot-percent"])
	_, err = BoundObject("a tombstone")
	assert.NoError(t, err)
}
