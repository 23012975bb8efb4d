// SPDX-License-Identifier: Apache-2.0

package perscheduler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestAMemberOfAGroupIsNotPlacedAlone(t *testing.T) {
	alone, inGroup := framework.NewCycleState(), framework.NewCycleState()
	inGroup.SetPodGroupSchedulingCycle(framework.NewCycleState())
	single, member, running := &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("gang")}
	running.Spec = *member.Spec.DeepCopy()
	running.Spec.NodeName = "n"
	assert.Nil(t, RefuseAlone(alone, single))
	assert.Nil(t, RefuseAlone(inGroup, member))
	assert.Nil(t, RefuseAlone(alone, running), "it is resized in place")
	status := RefuseAlone(alone, member)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "no preemption helps")
	assert.Equal(t, "spec.schedulingGroup is set and this scheduler does not place groups: "+
		"start it with --feature-gates=GenericWorkload=true, or create the pod without the field", status.Message())
}
