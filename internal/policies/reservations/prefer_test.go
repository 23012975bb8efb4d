// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func cpu(q string) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.CPU = quantity(q) }
}

func requesting(name string, requests corev1.ResourceList) *corev1.Pod {
	p := pod(name)
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	return p
}

// All are of one owner and on one node, which has no other capacity left; the oldest is first.
func TestAPodUsesTheSmallestCapacityThatItFits(t *testing.T) {
	for name, tc := range map[string]struct {
		requests corev1.ResourceList
		want     string
	}{
		"the oldest is too small":       {requests: list("2", "", "", ""), want: "middle"},
		"the smallest of all":           {requests: list("500m", "", "", ""), want: "small"},
		"the largest":                   {requests: list("3", "", "", ""), want: "large"},
		"the only one with a GPU":       {requests: list("1", "", "", "1"), want: "gpu"},
		"none holds all, and none fits": {requests: list("7", "", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			l := leader()
			for _, r := range []*v1alpha1.Reservation{
				reservation("small", cpu("1")), reservation("large", cpu("3")), reservation("middle", cpu("2")),
				reservation("gpu", cpu("1"), func(s *v1alpha1.ReservationSpec) { s.ExtendedResources = map[string]int64{string(gpu): 1} }),
			} {
				l.Set(r)
				l.hold(r.Name, began, "n1")
			}
			a, _ := l.Attempt(requesting("a", tc.requests), began)
			full := nodeOf("n1", "110", list("1", "", "", "7"))
			own, lacking := a.On(full)
			chosen := a.For("n1", func() fwk.NodeInfo { return full })
			if tc.want == "" {
				assert.Nil(t, own)
				assert.Equal(t, corev1.ResourceCPU, lacking)
				return
			}
			require.NotNil(t, own)
			assert.Equal(t, []string{tc.want, tc.want}, []string{own.Object.Name, chosen.Object.Name})
		})
	}
}

// Two hold a part each of what the pod requests: it uses the one with which it fits.
func TestAPodUsesTheCapacityWithWhichItFits(t *testing.T) {
	both := func(cpu, memory string) func(*v1alpha1.ReservationSpec) {
		return func(s *v1alpha1.ReservationSpec) { s.CPU, s.Memory = quantity(cpu), quantity(memory) }
	}
	l := leader(reservation("cpu", both("4", "1Gi")), reservation("memory", both("1", "4Gi")))
	l.hold("cpu", began, "n1")
	l.hold("memory", began, "n1")
	a, _ := l.Attempt(requesting("a", list("4", "4Gi", "", "")), began)
	own, _ := a.On(nodeOf("n1", "110", list("0", "3Gi", "", ""))) // 3 CPUs are free beside what is held
	require.NotNil(t, own)
	assert.Equal(t, "memory", own.Object.Name)
}

// A pod for which capacity was prepared uses that, and leaves what is held for all pods of its owner.
func TestAPodUsesWhatIsHeldForItAlone(t *testing.T) {
	l := leader(reservation("all"), reservation("alone", forPod("a")))
	l.hold("all", began, "n1")
	l.hold("alone", began, "n1")
	a, _ := l.Attempt(pod("a"), began)
	assert.Equal(t, "alone", a.For("n1", func() fwk.NodeInfo { return nil }).Object.Name)
	a, _ = l.Attempt(pod("b"), began)
	assert.Equal(t, "all", a.For("n1", func() fwk.NodeInfo { return nil }).Object.Name)
}

// Whatever is held, the choice holds all that the pod requests if any does, and no smaller one does.
func TestNoSmallerCapacityHoldsAllThatAPodRequests(t *testing.T) {
	amounts := rapid.Custom(func(t *rapid.T) *Amounts {
		n := rapid.Int64Range(0, 3)
		return &Amounts{MilliCPU: n.Draw(t, "cpu"), Memory: n.Draw(t, "memory"), Scalars: map[corev1.ResourceName]int64{gpu: n.Draw(t, "gpu")}}
	})
	covers := func(unit, requests *Amounts) bool { return exceeding(requests, unit) == "" }
	rapid.Check(t, func(t *rapid.T) {
		requests := amounts.Draw(t, "requests")
		var all []*Reservation
		for _, unit := range rapid.SliceOfN(amounts, 1, 5).Draw(t, "held") {
			all = append(all, &Reservation{Unit: *unit, Object: reservation("r")})
		}
		first := slices.MinFunc(all, func(a, b *Reservation) int { return prefer(requests, a, b) })
		for _, r := range all {
			if covers(&r.Unit, requests) {
				require.True(t, covers(&first.Unit, requests))
				require.False(t, covers(&first.Unit, &r.Unit) && !covers(&r.Unit, &first.Unit), "%v is smaller than %v", r.Unit, first.Unit)
			}
		}
	})
}
