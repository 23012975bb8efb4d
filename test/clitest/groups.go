// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// GroupShop has groups that are not the pods of one controller: the units of a LeaderWorkerSet, of which one waits, runners of one set,
// an application with a role, pods with a group in their annotations, and two Deployments of one replica each.
func GroupShop() *Shop {
	s := &Shop{}
	s.Node("s1", "spot")
	s.Node("s2", "spot")
	s.Node("o1", "on-demand")
	s.Mix("llm", 50, 0)
	for index, nodes := range [][]string{{"o1", "o1"}, {"s1", "s2"}, {"o1", "o1"}, {"s1", ""}} {
		for i, node := range nodes {
			set := "llm"
			if i > 0 {
				set = fmt.Sprint("llm-", index)
			}
			p := s.Owned("llm", fmt.Sprintf("llm-%d-%d", index, i), node, "apps/v1", "StatefulSet", set)
			p.Labels["leaderworkerset.sigs.k8s.io/name"] = "llm"
			p.Labels["leaderworkerset.sigs.k8s.io/group-index"] = fmt.Sprint(index)
			p.Labels["leaderworkerset.sigs.k8s.io/group-key"] = fmt.Sprint("key-", index)
		}
	}
	s.Mix("ci", 50, 0)
	for i, node := range []string{"o1", "s1", "o1", "s1"} {
		p := s.Owned("ci", fmt.Sprint("runner-", i), node, "actions.github.com/v1alpha1", "EphemeralRunner", fmt.Sprint("runner-", i))
		p.Labels["actions.github.com/scale-set-name"] = "linux"
		p.Annotations = map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(i)}
	}
	s.Mix("spark", 100, 0, func(m *v1alpha1.CapacityMix) {
		m.Spec.Group = v1alpha1.PodGroupingSelector
		m.Spec.Roles = []v1alpha1.MixRole{{
			Name: "driver", CapacityType: v1alpha1.CapacityTypeOnDemand,
			Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"spark-role": "driver"}},
		}}
	})
	s.Owned("spark", "pi-driver", "o1", "sparkoperator.k8s.io/v1beta2", "SparkApplication", "pi").Labels["spark-role"] = "driver"
	for i := range 2 {
		s.Owned("spark", fmt.Sprint("pi-exec-", i), "s2", "v1", "Pod", "pi-driver").Labels["spark-role"] = "executor"
	}
	for i, node := range []string{"o1", "s1"} {
		s.Pod("build", fmt.Sprint("build-", i), node).Annotations = map[string]string{
			v1alpha1.SpotPercentAnnotation: "50", v1alpha1.GroupAnnotation: "builds", v1alpha1.SlotAnnotation: fmt.Sprint(i),
		}
	}
	s.Mix("solo", 70, 0, func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = map[string]string{"tier": "solo"} })
	for _, name := range []string{"one", "two"} {
		s.Deployment(name, nil, "o1")[0].Labels["tier"] = "solo"
	}
	for i, p := range s.Pods { // their order is that of their age
		p.CreationTimestamp = Ago(time.Hour - time.Duration(i)*time.Second)
	}
	return s
}

// Owned adds a pod with a controller that is not read.
func (s *Shop) Owned(app, name, node, apiVersion, kind, owner string) *corev1.Pod {
	p := s.Pod(app, name, node)
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: kind, Name: owner, UID: types.UID(kind + "-" + owner), Controller: new(true),
	}}
	return p
}
