// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/clusterstate"
)

func selecting(name string, at int, match map[string]string) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1, CreationTimestamp: metav1.Unix(int64(at), 0)}}
	if match != nil {
		l.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: match}
	}
	return l
}

func above(p *clusterstate.Pod) clusterstate.Workload {
	return clusterstate.Workload{Kind: "Deployment", Namespace: p.Namespace, Name: p.Labels["app"]}
}

func TestTally(t *testing.T) {
	web := map[string]string{"app": "web"}
	all := []*v1alpha1.ResourceLimit{selecting("old", 1, web), selecting("young", 2, web), selecting("by-name", 3, nil), selecting("other", 4, map[string]string{"app": "db"})}
	registry := registry.NewRegistry("")
	for _, l := range all {
		registry.Set(l)
	}
	pod := func(labels map[string]string, change func(*clusterstate.Pod)) *clusterstate.Pod {
		p := &clusterstate.Pod{Namespace: "shop", Name: "p", Labels: labels}
		if change != nil {
			change(p)
		}
		return p
	}
	chose := map[string]string{"app": "web", v1alpha1.ResourceLimitLabel: "by-name"}
	got := tally(census{namespace: "shop", limits: all, pods: []*clusterstate.Pod{
		pod(web, nil), pod(web, nil),
		pod(web, func(p *clusterstate.Pod) { p.Finished = true }),
		pod(web, func(p *clusterstate.Pod) { p.Terminating = true }),
		pod(chose, nil),
		pod(map[string]string{"app": "batch"}, func(p *clusterstate.Pod) { p.Annotations = map[string]string{v1alpha1.ResourceLimitLabel: "by-name"} }),
		pod(map[string]string{"app": "lost", v1alpha1.ResourceLimitLabel: "missing"}, nil),
		pod(chose, func(p *clusterstate.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
	}, templates: []Template{
		{Workload: v1alpha1.WorkloadReference{Kind: "CronJob", Namespace: "shop", Name: "nightly"}, Limit: "by-name"},
		{Workload: v1alpha1.WorkloadReference{Kind: "CronJob", Namespace: "shop", Name: "lost"}, Limit: "missing"},
	}}, registry.For, above)

	want := map[types.NamespacedName]*Usage{
		{Namespace: "shop", Name: "old"}:     usage(3, "Deployment/web"),
		{Namespace: "shop", Name: "young"}:   usage(0),
		{Namespace: "shop", Name: "by-name"}: usage(2, "Deployment/web", "Deployment/batch", "CronJob/nightly"),
	}
	want[types.NamespacedName{Namespace: "shop", Name: "young"}].Older["old"] = struct{}{}
	assert.Equal(t, want, got)
}

func TestTemplatesKeepOnlyWhatLimitsNeed(t *testing.T) {
	of := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, UID: "above", Controller: new(true)}}
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.ResourceLimitLabel: "size"}}}
	m := func(refs []metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "o", OwnerReferences: refs}
	}
	for name, tc := range map[string]struct {
		source string
		owner  metav1.Object
		want   string // kind/name, "" for nothing
	}{
		"a Deployment":                     {"deployments", &appsv1.Deployment{ObjectMeta: m(nil)}, "Deployment/o"},
		"a ReplicaSet of a Deployment":     {"replicasets", &appsv1.ReplicaSet{ObjectMeta: m(of("Deployment", "d"))}, ""},
		"a ReplicaSet of its own":          {"replicasets", &appsv1.ReplicaSet{ObjectMeta: m(nil), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}}, "ReplicaSet/o"},
		"a ReplicaSet of another owner":    {"replicasets", &appsv1.ReplicaSet{ObjectMeta: m(of("Rollout", "r"))}, "Rollout/r"},
		"an old revision of another owner": {"replicasets", &appsv1.ReplicaSet{ObjectMeta: m(of("Rollout", "r")), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}}, ""},
		"a Job":                            {"jobs", &batchv1.Job{ObjectMeta: m(nil)}, "Job/o"},
		"a Job of a CronJob":               {"jobs", &batchv1.Job{ObjectMeta: m(of("CronJob", "c"))}, ""},
		"a CronJob":                        {"cronjobs", &batchv1.CronJob{ObjectMeta: m(nil)}, "CronJob/o"},
		"a DaemonSet":                      {"daemonsets", &appsv1.DaemonSet{ObjectMeta: m(nil)}, "DaemonSet/o"},
		"a StatefulSet":                    {"statefulsets", &appsv1.StatefulSet{ObjectMeta: m(nil)}, "StatefulSet/o"},
	} {
		got, kept := read(tc.source, tc.owner, &template)
		require.Equal(t, tc.want != "", kept, name)
		if kept {
			assert.Equal(t, tc.want, got.Workload.Kind+"/"+got.Workload.Name, name)
			assert.Equal(t, "size", got.Limit)
			assert.Equal(t, "shop", got.Workload.Namespace)
		}
		_, kept = read(tc.source, tc.owner, &corev1.PodTemplateSpec{})
		assert.False(t, kept, "%s that names none", name)
	}
}

func TestTemplatesComeAndGo(t *testing.T) {
	var changed []string
	all := NewTemplates(func(namespace string) { changed = append(changed, namespace) })
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.ResourceLimitLabel: "size"}}}
	d := func(i int) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns-%d", i), Name: "d", UID: types.UID(fmt.Sprint(i))}}
	}
	for i := range 3 {
		assert.True(t, all.SetTemplate("deployments", d(i), template))
		assert.True(t, all.SetTemplate("deployments", d(i), template), "again")
	}
	assert.Equal(t, []string{"ns-0", "ns-1", "ns-2"}, changed, "what changes nothing is not reported")
	assert.ElementsMatch(t, []string{"ns-0", "ns-1", "ns-2"}, all.Namespaces())
	assert.False(t, all.SetTemplate("deployments", d(0), &corev1.PodTemplateSpec{}), "it names none any more")
	all.RetainTemplates("jobs", nil)
	assert.Len(t, all.In("ns-1"), 1, "another kind's list")
	all.RetainTemplates("deployments", map[types.UID]bool{"2": true})
	assert.Equal(t, []string{"ns-2"}, all.Namespaces())
	all.DeleteTemplate("deployments", "2")
	all.DeleteTemplate("deployments", "2")
	assert.Equal(t, []string{"ns-0", "ns-1", "ns-2", "ns-0", "ns-1", "ns-2"}, changed)
	assert.Empty(t, all.Namespaces())
}
