// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// surging is a handler for an API server that has Evictions, and whether replicas of all mixes are released before they go.
func surging(t *testing.T, surges bool) *Handler {
	t.Helper()
	h := gating(t, &world{})
	h.Surges = func(namespace string, m *governing.Mix) bool {
		return surges && namespace == "shop" && m.CapacityMix() == "web"
	}
	return h
}

func revision(t *corev1.PodTemplateSpec) { t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "1" }

func responders(list ...corev1.EvictionResponder) change {
	return func(t *corev1.PodTemplateSpec) { t.Spec.EvictionResponders = list }
}

func group(t *corev1.PodTemplateSpec) {
	t.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("group")}
}

func TestPodsThatAreReleasedBeforeTheyGoNameBerth(t *testing.T) {
	ours := map[string]any{"name": "berth.dev/surge", "priority": 5000.0}
	theirs := corev1.EvictionResponder{Name: "example.com/operator", Priority: new(int32(10000))}
	other := map[string]any{"name": theirs.Name, "priority": 10000.0}
	full := make([]corev1.EvictionResponder, 10)
	for i := range full {
		full[i] = corev1.EvictionResponder{Name: "example.com/r" + strconv.Itoa(i), Priority: new(int32(2000))}
	}
	for name, c := range map[string]struct {
		app    string
		h      *Handler
		change []change
		want   any
	}{
		"a mix with Surge":            {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision}, []any{ours}},
		"those of the template stay":  {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision, responders(theirs)}, []any{other, ours}},
		"the template names Berth":    {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision, responders(corev1.EvictionResponder{Name: v1alpha1.EvictionResponder, Priority: new(int32(20000))})}, []any{map[string]any{"name": "berth.dev/surge", "priority": 20000.0}}},
		"a mix with Evict":            {"web", surging(t, false), []change{ownedBy("ReplicaSet", "rs"), revision}, nil},
		"no mix":                      {"other", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision}, nil},
		"a StatefulSet":               {"web", surging(t, true), []change{ownedBy("StatefulSet", "set"), revision}, nil},
		"no label of the revision":    {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs")}, nil},
		"no owner":                    {"web", surging(t, true), []change{revision}, nil},
		"a PodGroup":                  {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision, group}, nil},
		"a PodGroup, and it is named": {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision, group, responders(corev1.EvictionResponder{Name: v1alpha1.EvictionResponder, Priority: new(int32(5000))})}, nil},
		"as many as there may be":     {"web", surging(t, true), []change{ownedBy("ReplicaSet", "rs"), revision, responders(full...)}, 10},
		"an API server without":       {"web", gating(t, &world{}), []change{ownedBy("ReplicaSet", "rs"), revision}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			raw := pod(t, c.app, c.change...)
			r := ask(c.h, raw)
			require.True(t, r.Allowed)
			got := at(patched(t, raw, r), "spec", "evictionResponders")
			if n, count := c.want.(int); count {
				assert.Len(t, got, n)
				return
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// The API server calls the webhook again after another one has changed the pod.
func TestTheResponderIsAddedOnce(t *testing.T) {
	h := surging(t, true)
	raw := pod(t, "web", ownedBy("ReplicaSet", "rs"), revision)
	template := &corev1.Pod{}
	template.UID = types.UID("p")
	for range 2 {
		template.Namespace, template.Labels = "shop", map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "1"}
		ownerOf(template)
		respond(template, true)
	}
	assert.Len(t, template.Spec.EvictionResponders, 1)
	require.Len(t, at(patched(t, raw, ask(h, raw)), "spec", "evictionResponders"), 1)
	template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("group")}
	respond(template, true)
	assert.Nil(t, template.Spec.EvictionResponders, "a member of a PodGroup may have none")
}

func ownerOf(p *corev1.Pod) {
	t := corev1.PodTemplateSpec{}
	ownedBy("ReplicaSet", "rs")(&t)
	p.OwnerReferences = t.OwnerReferences
}
