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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
)

// 7,000 objects with annotations of 256 KiB would be the 2 GiB of the scheduler.
func TestAnInformerKeepsWhatPluginsRead(t *testing.T) {
	mix := v1alpha1.CapacityMix{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CapacityMix"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "fat", UID: "u", ResourceVersion: "1", Generation: 2,
			Annotations: map[string]string{"example.com/long": strings.Repeat("a", 250_000)}, Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 1000)}},
		},
		Spec:   v1alpha1.CapacityMixSpec{SpotPercent: 70},
		Status: v1alpha1.CapacityMixStatus{ObservedGeneration: 2},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "": // an API server without streaming lists
			w.WriteHeader(http.StatusUnprocessableEntity)
			assert.NoError(t, json.NewEncoder(w).Encode(apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("x").GroupKind(), "x", nil).ErrStatus))
		case q.Get("watch") != "":
			<-r.Context().Done()
		default:
			assert.NoError(t, json.NewEncoder(w).Encode(v1alpha1.CapacityMixList{
				TypeMeta: metav1.TypeMeta{APIVersion: mix.APIVersion, Kind: "CapacityMixList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
				Items: []v1alpha1.CapacityMix{mix},
			}))
		}
	}))
	defer server.Close()
	c, err := client.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	informer := Resource{Name: "capacitymixes", Object: &v1alpha1.CapacityMix{}}.informer(c, 0, new(atomic.Bool))
	stop := make(chan struct{})
	defer close(stop)
	go informer.Run(stop)
	require.True(t, cache.WaitForCacheSync(stop, informer.HasSynced))
	kept := informer.GetStore().List()[0].(*v1alpha1.CapacityMix)
	assert.Equal(t, metav1.ObjectMeta{Namespace: "n", Name: "fat", UID: "u", ResourceVersion: "1", Generation: 2}, kept.ObjectMeta)
	assert.EqualValues(t, 70, kept.Spec.SpotPercent)
	assert.Zero(t, kept.Status)
}
