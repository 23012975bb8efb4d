// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
)

func TestARecordHasWhetherOthersRespond(t *testing.T) {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	st := New(Options{Classifier: classifier})
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "shop", "db-0", "u"
	p.Annotations = map[string]string{respondsKey: "forged"}
	st.mu.Lock()
	defer st.mu.Unlock()
	assert.False(t, st.podOf(p, nil).Responds())
	p.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "example.com/operator"}}
	record := st.podOf(p, nil)
	assert.True(t, record.Responds())
	assert.Empty(t, record.AllAnnotations(), "it is no annotation")
}
