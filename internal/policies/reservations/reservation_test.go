// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestDefaults(t *testing.T) {
	r := Compile(reservation("r", func(s *v1alpha1.ReservationSpec) { s.Replicas = nil }))
	require.NoError(t, r.Err)
	assert.Equal(t, 1, r.Replicas)
	assert.True(t, r.Once)
	assert.Equal(t, at(time.Hour), r.Expires)
	assert.Equal(t, time.Hour, r.TTL())
	assert.Equal(t, "berth-scheduler", r.SchedulerName())
	assert.Equal(t, Amounts{MilliCPU: 1000}, r.Unit)
}

func TestEveryFieldIsCompiled(t *testing.T) {
	object := reservation("r", replicas(7), expires(60), ttl(0), repeatedly, func(s *v1alpha1.ReservationSpec) {
		s.CPU, s.Memory, s.EphemeralStorage = new(resource.MustParse("500m")), new(resource.MustParse("1Gi")), new(resource.MustParse("2Gi"))
		s.ExtendedResources = map[string]int64{"nvidia.com/gpu": 2}
		s.NodeSelector = map[string]string{"disk": "ssd"}
		s.Tolerations = []v1alpha1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
		s.SchedulerName = "other"
	})
	r := Compile(object)
	require.NoError(t, r.Err)
	assert.Equal(t, 7, r.Replicas)
	assert.False(t, r.Once)
	assert.Equal(t, at(time.Minute), r.Expires)
	assert.Zero(t, r.TTL())
	assert.Equal(t, Amounts{
		MilliCPU: 500, Memory: 1 << 30, EphemeralStorage: 2 << 30, Scalars: map[corev1.ResourceName]int64{"nvidia.com/gpu": 2},
	}, r.Unit)

	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "r", UID: object.UID, CreationTimestamp: object.CreationTimestamp,
			Labels: map[string]string{v1alpha1.PlaceholderLabel: "reservation"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "other", NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "reservation", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				corev1.ResourceEphemeralStorage: resource.MustParse("2Gi"), "nvidia.com/gpu": *resource.NewQuantity(2, resource.DecimalSI),
			}}}},
		},
	}
	assert.Empty(t, cmp.Diff(want, r.Pod()))
}

func TestSelects(t *testing.T) {
	labelled := func(name string, labels map[string]string) *corev1.Pod {
		p := pod(name)
		p.Labels = labels
		return p
	}
	elsewhere := pod("a")
	elsewhere.Namespace = "else"
	everyPod := func(s *v1alpha1.ReservationSpec) { s.PodSelector = &v1alpha1.PodSelector{} }
	invalid := func(s *v1alpha1.ReservationSpec) {
		s.PodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "x"}}}
	}
	for name, tc := range map[string]struct {
		spec func(*v1alpha1.ReservationSpec)
		pod  *corev1.Pod
		want bool
	}{
		"labels that match":                          {spec: replicas(1), pod: pod("a"), want: true},
		"labels that do not":                         {spec: replicas(1), pod: labelled("a", map[string]string{"app": "db"})},
		"another namespace":                          {spec: everyPod, pod: elsewhere},
		"an empty selector selects every pod":        {spec: everyPod, pod: labelled("a", nil), want: true},
		"a placeholder holds capacity itself":        {spec: everyPod, pod: labelled("a", map[string]string{v1alpha1.PlaceholderLabel: "x"})},
		"an invalid selector selects none":           {spec: invalid, pod: pod("a")},
		"the name of the pod":                        {spec: forPod("a"), pod: labelled("a", nil), want: true},
		"another name, whatever its labels":          {spec: forPod("a"), pod: pod("b")},
		"the name of a placeholder is not its owner": {spec: forPod("a"), pod: labelled("a", map[string]string{v1alpha1.PlaceholderLabel: "x"})},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Compile(reservation("r", tc.spec)).Selects(tc.pod)) })
	}
}

// The API server accepts the Reservation of each pod that has a node, whatever it requests.
func TestSetRequestsHasWhatAReservationCanHold(t *testing.T) {
	for name, tc := range map[string]struct {
		requests map[corev1.ResourceName]string
		want     v1alpha1.ReservationSpec
		some     bool
	}{
		"nothing":         {requests: map[corev1.ResourceName]string{"cpu": "0"}},
		"huge pages only": {requests: map[corev1.ResourceName]string{"hugepages-2Mi": "1Gi"}},
		"huge pages and CPU": {
			requests: map[corev1.ResourceName]string{"hugepages-2Mi": "1Gi", "cpu": "2"},
			want:     v1alpha1.ReservationSpec{CPU: new(resource.MustParse("2"))}, some: true,
		},
		"more than an extended resource can have": {
			requests: map[corev1.ResourceName]string{"example.com/bytes": "1000001", "example.com/gpu": "1000000"},
			want:     v1alpha1.ReservationSpec{ExtendedResources: map[string]int64{"example.com/gpu": 1_000_000}}, some: true,
		},
		"more extended resources than it can have": {
			requests: map[corev1.ResourceName]string{"e.com/a": "1", "e.com/b": "1", "e.com/c": "1", "e.com/d": "1", "e.com/e": "1"},
			want:     v1alpha1.ReservationSpec{ExtendedResources: map[string]int64{"e.com/a": 1, "e.com/b": 1, "e.com/c": 1, "e.com/d": 1}},
			some:     true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := corev1.ResourceList{}
			for resourceName, quantity := range tc.requests {
				list[resourceName] = resource.MustParse(quantity)
			}
			var got v1alpha1.ReservationSpec
			assert.Equal(t, tc.some, SetRequests(&got, list))
			assert.Equal(t, tc.want, got)
		})
	}
}
