// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// A replica is not moved to capacity that is held for pods of another workload, but to what is held for its own.
func TestHeldCapacityIsNotFree(t *testing.T) {
	began := time.Now()
	held := func(app string) *v1alpha1.Reservation {
		r := &v1alpha1.Reservation{}
		r.Namespace, r.Name, r.CreationTimestamp = "ns", "held", metav1.NewTime(began)
		r.Spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app}}
		r.Spec.CPU = new(resource.MustParse("1"))
		r.Status.Holds = []v1alpha1.Hold{{NodeName: "n2"}}
		return r
	}
	victim := pod("victim", "n1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	for name, c := range map[string]struct {
		reserved []*v1alpha1.Reservation
		at       time.Time
		want     string
	}{
		"nothing":              {at: began, want: "node n2 fits."},
		"for the same pods":    {reserved: []*v1alpha1.Reservation{held("web")}, at: began, want: "node n2 fits."},
		"for others":           {reserved: []*v1alpha1.Reservation{held("db")}, at: began, want: "0/1 nodes are available: 1 node(s) hold capacity for other pods by Reservations: cpu."},
		"for others, too late": {reserved: []*v1alpha1.Reservation{held("db")}, at: began.Add(time.Hour), want: "node n2 fits."},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "4"), node("n2", "1")}, []*corev1.Pod{victim})
			s.reserved = newReserved(c.reserved, c.at)
			a := ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}, Nodes: func(n *corev1.Node) bool { return n.Name == "n2" }})
			assert.Equal(t, c.want, a.Message())
		})
	}
}
