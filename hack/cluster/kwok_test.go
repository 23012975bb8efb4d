// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A KWOK whose watch of the leases delivers no event runs the pods that were there before it all the same.
func TestKWOKRunsPodsBeforeItsWatchOfLeasesDelivers(t *testing.T) {
	spec := Nodes("spot", 1)[0]
	spec.Name, spec.Annotations = "late", map[string]string{kwokNodeAnnotation: "late"}
	node, err := spec.node()
	require.NoError(t, err)
	nodes := shared.Client().CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{})) })
	createPod(t, barePod("was-there-before", node.Name, nil))

	port, err := freePort()
	require.NoError(t, err)
	kwok, err := shared.StartProcess(t.Context(), ProcessSpec{
		Name: "kwok-late",
		Path: shared.bins[KWOK],
		Args: append(shared.kwokArgs(),
			"--master="+withoutLeaseWatch(t),
			"--manage-nodes-with-annotation-selector="+kwokNodeAnnotation+"=late",
			fmt.Sprintf("--server-address=127.0.0.1:%d", port)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		kwok.Kill()
		<-kwok.Done()
	})
	waitPod(t, "was-there-before", "pod is ready", isReady)
}

// withoutLeaseWatch serves the API but for watches of leases, which stay open without an event. It returns its URL.
func withoutLeaseWatch(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(shared.URL())
	require.NoError(t, err)
	transport, err := rest.TransportFor(shared.Config())
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		// KWOK ends while it watches, which is not worth a line in the test's output.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/leases") && r.URL.Query().Get("watch") != "" {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
