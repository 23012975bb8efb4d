// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A binding that the API server refuses is an attempt that failed: its record and an event have the reason and the node.
func TestARefusedBindingIsRecordedWithItsReason(t *testing.T) {
	w := testenv.New(t, six()...)
	s := start(w)
	probe := builders.Pod("probe", "web-probe", builders.SchedulerName("none"))
	w.Create(probe)
	allow := w.Forbid("web", "pods/binding", func() error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: probe.Name}}
		b.Target = corev1.ObjectReference{Kind: "Node", Name: six()[0].Name}
		return w.Client.SubResource("binding").Create(w.Ctx, probe.DeepCopy(), b, client.DryRunAll)
	})
	began := time.Now().Add(-time.Second)
	w.Create(builders.SchedulingPolicy("all", records(v1alpha1.RecordOnFailure)), builders.Pod("web", "web-0"))
	got := s.records("web-0", decision.BindFailed)[0]
	assert.Contains(t, got.Message, "not now")
	assert.NotEmpty(t, got.Node)
	assert.True(t, began.Before(got.Time))
	w.WaitEvent("web-0", "the binding failed", func(e *corev1.Event) bool {
		return e.Reason == v1alpha1.EventReasonBindFailure && strings.Contains(e.Message, ": not bound to node ") && strings.Contains(e.Message, "not now")
	})
	allow()
	w.WaitBound("web", 1)
}
