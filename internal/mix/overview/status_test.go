// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestAMixThatIsOnTargetIsNotBlocked(t *testing.T) {
	for reason, want := range map[string]string{"OnTarget": "", v1alpha1.ReasonPodsPending: "PodsPending", "InsufficientCapacity": "InsufficientCapacity"} {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		cm.Status.ObservedGeneration = 3
		cm.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse, Reason: reason}}
		assert.Equal(t, want, blockedBy(cm), reason)
	}
}
