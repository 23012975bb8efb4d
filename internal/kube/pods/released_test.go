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
	from := pods.Release{ReplicaSet: "rs", Group: "mix/web"}
	controlledBy := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	}
	for name, tc := range map[string]struct {
		value  string
		owners []metav1.OwnerReference
		is     bool
	}{
		"none":                        {"", nil, false},
		"its own":                     {from.Value("a"), nil, true},
		"its own, of a Deployment":    {from.Value("a"), controlledBy("Deployment"), true},
		"of another pod":              {from.Value("b"), nil, false},
		"a ReplicaSet has it":         {from.Value("a"), controlledBy("ReplicaSet"), false},
		"no group":                    {"a/rs", nil, false},
		"nothing but the UID":         {"a", nil, false},
		"another one's with a prefix": {"/rs/mix", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", OwnerReferences: tc.owners}}
			if tc.value != "" {
				p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: tc.value}
			}
			r, is := pods.ReleasedFrom(p)
			assert.Equal(t, tc.is, is)
			if is {
				assert.Equal(t, from, r)
			}
		})
	}
}

// A pod that a user marks is governed by no mix, and Berth does not evict it.
func TestOnlyAPodThatEndsByItselfLeaves(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value("a")}
	assert.False(t, pods.Leaves(p))
	p.Spec.ActiveDeadlineSeconds = new(int64(3600))
	assert.False(t, pods.Leaves(p))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs"}}
	assert.True(t, pods.Leaves(p))
	p.OwnerReferences[0].UID = "another"
	assert.False(t, pods.Leaves(p))
}
