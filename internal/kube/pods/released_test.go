// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

func TestOnlyTheOwnAnnotationReleasesAPod(t *testing.T) {
	owned := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	for name, tc := range map[string]struct {
		pod   metav1.ObjectMeta
		group string
		is    bool
	}{
		"none":           {metav1.ObjectMeta{UID: "a"}, "", false},
		"its own":        {metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.ReleasedAnnotation: pods.ReleasedValue("a", "rs")}}, "rs", true},
		"of another pod": {metav1.ObjectMeta{UID: "b", Annotations: map[string]string{v1alpha1.ReleasedAnnotation: pods.ReleasedValue("a", "rs")}}, "", false},
		"adopted": {
			metav1.ObjectMeta{UID: "a", OwnerReferences: owned, Annotations: map[string]string{v1alpha1.ReleasedAnnotation: pods.ReleasedValue("a", "rs")}}, "", false,
		},
		"a group with a slash": {metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.ReleasedAnnotation: pods.ReleasedValue("a", "mix/web")}}, "mix/web", true},
		"no UID":               {metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.ReleasedAnnotation: "/rs"}}, "", false},
		"no group":             {metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.ReleasedAnnotation: "a"}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			group, is := pods.ReleasedFrom(&corev1.Pod{ObjectMeta: tc.pod})
			assert.Equal(t, tc.is, is)
			assert.Equal(t, tc.group, group)
		})
	}
}
