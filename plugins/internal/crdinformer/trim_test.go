// SPDX-License-Identifier: Apache-2.0

package crdinformer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/policies/reservations"
)

// kept returns what the informer of a resource keeps of the only object of a list.
func kept(t *testing.T, resource Resource, list runtime.Object) any {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "": // an API server without streaming lists
			w.WriteHeader(http.StatusUnprocessableEntity)
			assert.NoError(t, json.NewEncoder(w).Encode(apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("x").GroupKind(), "x", nil).ErrStatus))
		case q.Get("watch") != "":
			<-r.Context().Done()
		default:
			assert.NoError(t, json.NewEncoder(w).Encode(list))
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	informer := resource.informer(c, 0, new(atomic.Bool))
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go informer.Run(stop)
	require.True(t, cache.WaitForCacheSync(stop, informer.HasSynced))
	all := informer.GetStore().List()
	require.Len(t, all, 1)
	return all[0]
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: kind}
}

// 7,000 objects with annotations of 256 KiB would be the 2 GiB of the scheduler.
func TestAnInformerKeepsWhatPluginsRead(t *testing.T) {
	mix := kept(t, Resource{Name: "capacitymixes", Object: &v1alpha1.CapacityMix{}}, &v1alpha1.CapacityMixList{
		TypeMeta: typeOf("CapacityMixList"), ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []v1alpha1.CapacityMix{{
			TypeMeta: typeOf("CapacityMix"),
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "fat", UID: "u", ResourceVersion: "1", Generation: 2,
				Annotations: map[string]string{"example.com/long": strings.Repeat("a", 250_000)}, Labels: map[string]string{"a": "b"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 1000)}},
			},
			Spec:   v1alpha1.CapacityMixSpec{SpotPercent: 70},
			Status: v1alpha1.CapacityMixStatus{ObservedGeneration: 2},
		}},
	}).(*v1alpha1.CapacityMix)
	assert.Equal(t, metav1.ObjectMeta{Namespace: "n", Name: "fat", UID: "u", ResourceVersion: "1", Generation: 2}, mix.ObjectMeta)
	assert.EqualValues(t, 70, mix.Spec.SpotPercent)
	assert.Zero(t, mix.Status)
}

// The group distinguishes what the scheduler prepared for a pod that has a node from what a user created: without the group, the pod
// and its Reservation count together, and the Reservation is released.
func TestAnInformerKeepsTheGroupOfAReservation(t *testing.T) {
	r := kept(t, Resource{Name: "reservations", Object: &v1alpha1.Reservation{}}, &v1alpha1.ReservationList{
		TypeMeta: typeOf("ReservationList"), ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []v1alpha1.Reservation{{
			TypeMeta: typeOf("Reservation"),
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "prepared", UID: "u", ResourceVersion: "1",
				Labels: map[string]string{v1alpha1.BindGroupLabel: "g", "app": "a"},
			},
			Spec:   v1alpha1.ReservationSpec{PodName: "train-0"},
			Status: v1alpha1.ReservationStatus{Holds: []v1alpha1.Hold{{NodeName: "n1"}}},
		}},
	}).(*v1alpha1.Reservation)
	assert.Equal(t, map[string]string{v1alpha1.BindGroupLabel: "g"}, r.Labels)
	assert.Equal(t, "g", reservations.Compile(r).Group())
	ledger := reservations.NewHoldings()
	ledger.Set(r)
	assert.Equal(t, []string{"train-0"}, ledger.Prepared("n", "g", r.CreationTimestamp.Time))
}
