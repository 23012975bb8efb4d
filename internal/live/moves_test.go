// SPDX-License-Identifier: Apache-2.0

package live

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// An open page reads them every few seconds: one request, and no discovery.
func TestMovesAreOneRequest(t *testing.T) {
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		selected := strings.Split(r.URL.Query().Get("fieldSelector"), ",") // in any order
		slices.Sort(selected)
		requests = append(requests, r.URL.Path+" "+strings.Join(selected, ","))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"EventList","apiVersion":"v1","items":[
			{"reason":"ReplicaMoved","message":"Evicted","metadata":{"annotations":{"` + v1alpha1.MoveAnnotation + `":"{\"pod\":\"web-1\",\"uid\":\"u\"}"}}},
			{"reason":"MoveBlocked"}]}`))
	}))
	t.Cleanup(server.Close)
	c, err := EventClient(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	moves, err := Moves(t.Context(), c, "Deployment", client.ObjectKey{Namespace: "shop", Name: "web"})
	require.NoError(t, err)
	require.Len(t, moves, 1)
	assert.Equal(t, "web-1", moves[0].Of.Pod)
	assert.Equal(t, []string{"/api/v1/namespaces/shop/events involvedObject.kind=Deployment,involvedObject.name=web"}, requests)
}
