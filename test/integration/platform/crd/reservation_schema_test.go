// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// TestReservationSchema has what the schema itself refuses, without a CEL rule.
func TestReservationSchema(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 254)
	several := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(list, ", ")
	}
	outOf := func(field, value, bound string) string {
		return "spec." + field + ": Invalid value: " + value + ": spec." + field + " in body should be " + bound
	}
	checkSchema(t, reservation, map[string]schemaCase{
		"a Reservation with defaults is accepted":    {"{podSelector: {}, cpu: 1}", ""},
		"the least values are accepted":              {held("replicas: 1, expirationSeconds: 1, ttlSecondsAfterFinished: 0"), ""},
		"the greatest values are accepted":           {held("replicas: 100, expirationSeconds: 2592000, ttlSecondsAfterFinished: 2592000"), ""},
		"no replica is refused":                      {held("replicas: 0"), outOf("replicas", "0", "greater than or equal to 1")},
		"101 replicas are refused":                   {held("replicas: 101"), outOf("replicas", "101", "less than or equal to 100")},
		"no time until the expiration is refused":    {held("expirationSeconds: 0"), outOf("expirationSeconds", "0", "greater than or equal to 1")},
		"more than 30 days are refused":              {held("expirationSeconds: 2592001"), outOf("expirationSeconds", "2592001", "less than or equal to 2592000")},
		"a time to live below 0 is refused":          {held("ttlSecondsAfterFinished: -1"), outOf("ttlSecondsAfterFinished", "-1", "greater than or equal to 0")},
		"a time to live above 30 days is refused":    {held("ttlSecondsAfterFinished: 2592001"), outOf("ttlSecondsAfterFinished", "2592001", "less than or equal to 2592000")},
		"a name of a pod that is long is accepted":   {"{podName: " + long[1:] + ", cpu: 1}", ""},
		"a name of a pod too long is refused":        {"{podName: " + long + ", cpu: 1}", "spec.podName: Too long: may not be more than 253 bytes"},
		"an empty scheduler name is refused":         {held("schedulerName: ''"), `spec.schedulerName: Invalid value: "": spec.schedulerName in body should be at least 1 chars long`},
		"a scheduler name that is long is refused":   {held("schedulerName: " + long), "spec.schedulerName: Too long: may not be more than 253 bytes"},
		"4 extended resources are accepted":          {held("extendedResources: {" + several(4, "example.com/r%d: 1") + "}"), ""},
		"5 extended resources are refused":           {held("extendedResources: {" + several(5, "example.com/r%d: 1") + "}"), "spec.extendedResources: Too many: 5: must have at most 4 items"},
		"half an extended resource is refused":       {held("extendedResources: {example.com/r: 0.5}"), `spec.extendedResources.example.com/r: Invalid value: "float64": spec.extendedResources.example.com/r in body must be of type int64: "float64"`},
		"a million of a resource is accepted":        {held("extendedResources: {example.com/r: 1000000}"), ""},
		"more than a million is refused":             {held("extendedResources: {example.com/r: 1000001}"), outOf("extendedResources.example.com/r", "1000001", "less than or equal to 1000000")},
		"none of a resource is refused":              {held("extendedResources: {example.com/r: 0}"), outOf("extendedResources.example.com/r", "0", "greater than or equal to 1")},
		"16 node labels are accepted":                {held("nodeSelector: {" + many(16, "v") + "}"), ""},
		"17 node labels are refused":                 {held("nodeSelector: {" + many(17, "v") + "}"), "spec.nodeSelector: Too many: 17: must have at most 16 items"},
		"a node label value that is long is refused": {held("nodeSelector: {a: n" + longestName + "}"), "spec.nodeSelector.a: Too long: may not be more than 63 bytes"},
		"8 tolerations are accepted":                 {held("tolerations: [" + several(8, "{key: k%d}") + "]"), ""},
		"9 tolerations are refused":                  {held("tolerations: [" + several(9, "{key: k%d}") + "]"), "spec.tolerations: Too many: 9: must have at most 8 items"},
		"17 labels of pods are refused":              {"{podSelector: {matchLabels: {" + many(17, "v") + "}}, cpu: 1}", "spec.podSelector.matchLabels: Too many: 17: must have at most 16 items"},
		"a misspelt field is refused":                {held("expiresSeconds: 60"), `strict decoding error: unknown field "spec.expiresSeconds"`},
	})
}

// The schema fills in nothing: what a field means when it is absent is the scheduler's to decide.
func TestReservationHasNoDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, reservation, "{podSelector: {}, cpu: 500m}")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"podSelector": map[string]any{}, "cpu": "500m"}, got.Object["spec"])
}

func TestReservationGoTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	c := typed(t)
	spec := v1alpha1.ReservationSpec{
		PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}},
		Replicas:    new(int32(3)), CPU: new(resource.MustParse("500m")), Memory: new(resource.MustParse("1Gi")),
		EphemeralStorage: new(resource.MustParse("10Gi")), ExtendedResources: map[string]int64{"nvidia.com/gpu": 1},
		NodeSelector: map[string]string{"disk": "ssd"}, SchedulerName: "berth-scheduler",
		Tolerations:       []v1alpha1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		ExpirationSeconds: new(int32(60)), TTLSecondsAfterFinished: new(int32(0)), AllocateOnce: new(false),
	}
	sent := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: namespace}, Spec: spec}
	require.NoError(t, c.Create(t.Context(), sent.DeepCopy()))

	got := &v1alpha1.Reservation{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sent), got))
	assert.Equal(t, spec, got.Spec)
	assert.Equal(t, int64(1), got.Generation)
}

func TestReservationStatusIsASubresource(t *testing.T) {
	t.Parallel()
	c := typed(t)
	object := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "status", Namespace: namespace}}
	object.Spec = v1alpha1.ReservationSpec{PodName: "web-0", CPU: new(resource.MustParse("1"))}
	object.Status.HeldCount = 7
	require.NoError(t, c.Create(t.Context(), object))
	assert.Zero(t, object.Status, "a create takes no status")

	object.Spec.Replicas = new(int32(1))
	object.Status = v1alpha1.ReservationStatus{ObservedGeneration: 1, HeldCount: 1, UsedCount: 1, Holds: []v1alpha1.Hold{
		{NodeName: "n1"}, {NodeName: "n1", PodName: "web-0", PodUID: "6a1b"},
	}, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReserved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReserved, LastTransitionTime: metav1.Now(),
	}}}
	want := object.Status.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), object))

	got := &v1alpha1.Reservation{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), got))
	got.Status.Conditions[0].LastTransitionTime = want.Conditions[0].LastTransitionTime // the server keeps whole seconds
	assert.Equal(t, *want, got.Status)
	assert.Nil(t, got.Spec.Replicas, "a status update changes no spec")

	for name, change := range map[string]func(*v1alpha1.ReservationStatus){
		"status.heldCount": func(s *v1alpha1.ReservationStatus) { s.HeldCount = 101 },
		"status.usedCount": func(s *v1alpha1.ReservationStatus) { s.UsedCount = -1 },
		"status.holds":     func(s *v1alpha1.ReservationStatus) { s.Holds = make([]v1alpha1.Hold, 101) },
	} {
		wrong := got.DeepCopy()
		change(&wrong.Status)
		assert.ErrorContains(t, c.Status().Update(t.Context(), wrong), name)
	}
}

func TestTableShowsTheReservation(t *testing.T) {
	t.Parallel()
	normal, wide, cells := tableOf(t, reservation, held("replicas: 3"))
	assert.Equal(t, []string{"Name", "Replicas", "Held", "Used", "Status", "Expires", "Age"}, normal)
	assert.Equal(t, []string{"Nodes"}, wide)
	// No scheduler has written a status here.
	assert.Equal(t, []any{"table", 3.0, nil, nil, nil, nil, nil}, cells[:7])
	assert.NotEmpty(t, cells[7], "age")
}
