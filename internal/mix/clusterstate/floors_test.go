// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

const floorLabel = "0123456789abcdef"

func onFloor(p *corev1.Pod) { p.Labels[v1alpha1.FloorLabel] = floorLabel }

func TestThePodsWithALabelAreFound(t *testing.T) {
	o, changed := options(), []string{}
	o.FloorChanged = func(namespace, label string) { changed = append(changed, namespace+"/"+label) }
	st := New(o)
	rs := replicaSet("rs", 3)
	st.SetPod(podNamed("plain", owned(rs)))
	assert.Empty(t, changed)
	st.SetPod(podNamed("b", owned(rs), made(2), onFloor))
	st.SetPod(podNamed("a", made(1), onFloor))
	st.SetPod(podNamed("other", func(p *corev1.Pod) { p.Labels[v1alpha1.FloorLabel] = "of another group" }))
	st.SetPod(podNamed("finished", onFloor, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
	names := func() (all []string) {
		for _, p := range st.Labelled(namespaceName, floorLabel) {
			all = append(all, p.Name)
		}
		return all
	}
	assert.Equal(t, []string{"a", "b"}, names())
	assert.Len(t, changed, 4)
	st.SetPod(podNamed("b", owned(rs), made(2)))
	assert.Equal(t, []string{"a"}, names())
	st.DeletePod(nameOf(podNamed("a")), "")
	assert.Empty(t, names())
	assert.Equal(t, namespaceName+"/"+floorLabel, changed[len(changed)-1])
	st.DeletePod(nameOf(podNamed("finished")), "")
	st.DeletePod(nameOf(podNamed("other")), "")
	assert.Empty(t, st.floors)
}

func TestTheSuccessorsOfReleasedReplicasAreMissing(t *testing.T) {
	rs := replicaSet("web-1", 2)
	st := fill(New(options()), append(nodesOfEachType(), rs)...)
	missing := func() int { return st.MissingSuccessors(namespaceName, string(rs.UID), floorLabel) }
	st.SetPod(podNamed("p-0", owned(rs), on("o"), onFloor))
	leaving := podNamed("p-1", owned(rs), on("o"), onFloor)
	st.SetPod(leaving)
	assert.Zero(t, missing())
	after := leaving.DeepCopy()
	released(after)
	st.SetPod(after)
	group := formerGroup(st.Pod(namespaceName, "p-1")).ID
	assert.Equal(t, 1, st.MissingSuccessors(namespaceName, group, floorLabel))
	assert.Zero(t, st.MissingSuccessors(namespaceName, group, "another"))
	st.SetPod(podNamed("p-2", owned(rs)))
	assert.Zero(t, st.MissingSuccessors(namespaceName, group, floorLabel), "it is there")
}

// The label is on the replicas of one type only, which lie between those of the other one by age.
func TestTheLabelOfAFloorDoesNotHaveEachPodResolved(t *testing.T) {
	rs := replicaSet("rs", 100)
	compose := func(label func(*corev1.Pod)) float64 {
		st := fill(New(options()), append(nodesOfEachType(), rs)...)
		pods := []*corev1.Pod{}
		for i := range 100 {
			p := podNamed(fmt.Sprint("p-", i), owned(rs), made(i), on([]string{"s", "o"}[i%2]))
			if i%2 == 1 {
				label(p)
			}
			pods = append(pods, p)
			st.SetPod(p)
		}
		require.Len(t, st.Current(namespaceName), 1)
		key := st.Current(namespaceName)[0].Key
		turn := 0
		return testing.AllocsPerRun(20, func() {
			p := pods[0].DeepCopy()
			if turn++; turn%2 == 0 {
				ready(p)
			}
			st.SetPod(p)
			st.Group(key)
		})
	}
	assert.Less(t, compose(onFloor), 2*compose(func(*corev1.Pod) {}))
}
