// SPDX-License-Identifier: Apache-2.0

package display

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestOnlyConditionsThatAreNotFineAreShown(t *testing.T) {
	shown := func(name string, status metav1.ConditionStatus) bool {
		return len(Unmet([]metav1.Condition{{Type: name, Status: status}})) == 1
	}
	for name, fine := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionTrue, v1alpha1.ConditionNFRObserved: metav1.ConditionTrue,
		v1alpha1.ConditionProgressing: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionFalse,
	} {
		for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			assert.Equal(t, status != fine, shown(name, status), "%s %s", name, status)
		}
	}
}
