// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHardDefaultConstraintsCountTheWorkloadsPods(t *testing.T) {
	p, err := ParseProfile([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
`))
	require.NoError(t, err)
	of := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	nodes := []*corev1.Node{node("n1", "4", inZone("a")), node("n2", "4", inZone("b"))}
	victim := pod("victim", "n1", of)
	s := snapshot(t, p, nodes, []*corev1.Pod{victim, pod("sibling", "n2", of)}, set)
	a := ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}, Nodes: func(n *corev1.Node) bool { return n.Name == "n2" }})
	assert.Equal(t, "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.", a.Message())
	assert.Equal(t, "n1", ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}}).Node)
}

func TestQuestionsFromManySidesAreAnsweredApart(t *testing.T) {
	victim := pod("victim", "n1")
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1")}, []*corev1.Pod{victim})
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			q := Question{Pod: victim}
			if i%2 == 0 {
				q.Gone = []types.UID{"victim"}
			}
			a, err := s.Fits(t.Context(), q)
			assert.NoError(t, err)
			assert.Equal(t, i%2 == 0, a.Fits)
			s.Assume(victim, "no such node")
		})
	}
	asking.Wait()
}
