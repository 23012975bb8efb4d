// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// managedBy adds an entry of a field manager.
func managedBy(manager, fields string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)})
	}
}

// Managed fields as an API server writes them.
const (
	costOnly    = `{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`
	slotOnly    = `{"f:metadata":{"f:annotations":{"f:berth.dev/slot":{}}}}`
	ofTemplate  = `{"f:metadata":{"f:annotations":{".":{},"f:berth.dev/slot":{},"f:controller.kubernetes.io/pod-deletion-cost":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{}}}}`
	createdOnly = `{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{}}}}`
)

func TestWhoWroteTheAnnotationsIsReadFromTheManagedFields(t *testing.T) {
	cost, slot := annotated(v1alpha1.PodDeletionCostAnnotation, "-3"), slot(3)
	tests := map[string]struct {
		changes                []a[*corev1.Pod]
		costTheirs, slotTheirs bool
	}{
		"a Binding wrote both, which has no manager":   {[]a[*corev1.Pod]{cost, slot, managedBy("kube-controller-manager", createdOnly)}, false, false},
		"the scheduler removed the gate":               {[]a[*corev1.Pod]{cost, slot, managedBy("berth-scheduler", costOnly), managedBy("berth-scheduler", slotOnly)}, false, false},
		"the controller repaired them":                 {[]a[*corev1.Pod]{cost, slot, managedBy("berth-controller", costOnly), managedBy("berth-controller", slotOnly)}, false, false},
		"the template has both; the slot was replaced": {[]a[*corev1.Pod]{cost, slot, managedBy("kube-controller-manager", ofTemplate)}, true, false},
		"a user edited the slot":                       {[]a[*corev1.Pod]{cost, slot, managedBy("kubectl-annotate", slotOnly)}, false, true},
		"a user edited the cost":                       {[]a[*corev1.Pod]{cost, slot, managedBy("kubectl-edit", costOnly)}, true, false},
		"what was removed has no writer":               {[]a[*corev1.Pod]{managedBy("kubectl-edit", costOnly), managedBy("kubectl-edit", slotOnly)}, false, false},
		"managers without fields own nothing": {[]a[*corev1.Pod]{cost, slot, func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		}}, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := podNamed("p", tc.changes...)
			record := newClusterState().podOf(p, nil)
			assert.Equal(t, []bool{tc.costTheirs, tc.slotTheirs}, []bool{CostByOthers(p), record.slotByOthers})
			assert.Equal(t, tc.costTheirs, record.CostOrigin != CostOfBerth)
		})
	}
}

func TestASlotThatAnotherClientWroteGivesNoRightToIt(t *testing.T) {
	rs := replicaSet("rs", 2)
	mine := owned(rs)
	forged := managedBy("kubectl-annotate", slotOnly)
	for name, tc := range map[string]struct {
		pods []a[*corev1.Pod]
		want []string
	}{
		"of two of the same age the one that holds it keeps it": {
			[]a[*corev1.Pod]{slot(2), forged}, []string{"2 b on spot, settled", "3 a on spot, settled"},
		},
		"the highest slot that there is": {[]a[*corev1.Pod]{slot(1048575), forged}, []string{"2 b on spot, settled", "3 a on spot, settled"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fill(newClusterState(), append(nodesOfEachType(), podNamed("a", append(tc.pods, mine, on("s"))...), podNamed("b", mine, on("s"), slot(2)))...)
			assert.Equal(t, tc.want, lines(one(t, f)))
		})
	}
}

// 10,000 pods have 10,000 records. 192 bytes are a size class of Go.
func TestTheRecordOfAPodDoesNotGrow(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(Pod{}), uintptr(192))
}
