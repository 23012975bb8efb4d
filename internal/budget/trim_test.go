// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnnotationsOfAPrefixAreKeptUpToALength(t *testing.T) {
	all := map[string]string{
		"berth.dev/b": "1", "berth.dev/a": "2", "example.com/long": strings.Repeat("a", 250_000), "berth.dev/long": strings.Repeat("a", 250_000),
	}
	assert.Equal(t, map[string]string{"berth.dev/a": "2", "berth.dev/b": "1"}, Annotations(all, "berth.dev/"))
	for i := range 1000 {
		all[fmt.Sprint("berth.dev/c", i)] = strings.Repeat("a", 240)
	}
	sum := 0
	for key, value := range Annotations(all, "berth.dev/") {
		sum += len(key) + len(value)
	}
	assert.LessOrEqual(t, sum, maxAnnotations)
	assert.Nil(t, Annotations(nil, ""))
}

func TestIdentityReducesMetadata(t *testing.T) {
	left := metav1.ObjectMeta{Namespace: "n", Name: "o", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: metav1.Unix(1, 0)}
	o := left.DeepCopy()
	o.Annotations, o.Labels, o.Finalizers = map[string]string{"a": "b"}, map[string]string{"a": "b"}, []string{"a"}
	o.OwnerReferences, o.ManagedFields = []metav1.OwnerReference{{}}, []metav1.ManagedFieldsEntry{{}}
	Identity(o)
	assert.Equal(t, left, *o)
}
