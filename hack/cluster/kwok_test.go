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
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A KWOK whose watch of the leases delivers no event runs the pods that were there before it all the same.
func TestKWOKRunsPodsBeforeItsWatchOfLeasesDelivers(t *testing.T) {
	kwokRuns(t, "late", func(_ http.ResponseWriter, r *http.Request) (handled bool) {
		if !strings.HasSuffix(r.URL.Path, "/leases") || r.URL.Query().Get("watch") == "" {
			return false
		}
		<-r.Context().Done() // the watch stays open without an event
		return true
	})
}

// A KWOK whose connection breaks while it writes the status of a pod, or that gets an internal error, tries again.
func TestKWOKTriesAgainToWriteAStatus(t *testing.T) {
	var failed atomic.Int32
	kwokRuns(t, "again", func(w http.ResponseWriter, r *http.Request) (handled bool) {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/pods/") {
			return false
		}
		switch failed.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			http.Error(w, "etcdserver: leader changed", http.StatusInternalServerError)
			return true
		}
		return false
	})
	require.GreaterOrEqual(t, failed.Load(), int32(2), "both failures happened")
}

// kwokRuns checks that a KWOK of its own runs a pod that was there before it. Its requests go to a proxy, which leaves some to a handler.
func kwokRuns(t *testing.T, name string, handle func(http.ResponseWriter, *http.Request) (handled bool)) {
	t.Helper()
	spec := Nodes("spot", 1)[0]
	spec.Name, spec.Annotations = name, map[string]string{kwokNodeAnnotation: name}
	node, err := spec.node()
	require.NoError(t, err)
	nodes := shared.Client().CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{})) })
	createPod(t, barePod("of-"+name, node.Name, nil))

	port, err := freePort()
	require.NoError(t, err)
	kwok, err := shared.StartProcess(t.Context(), ProcessSpec{
		Name: "kwok-" + name,
		Path: shared.bins[KWOK],
		Args: append(shared.kwokArgs(),
			"--master="+proxied(t, handle),
			"--manage-nodes-with-annotation-selector="+kwokNodeAnnotation+"="+name,
			fmt.Sprintf("--server-address=127.0.0.1:%d", port)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		kwok.Kill()
		<-kwok.Done()
	})
	waitPod(t, "of-"+name, "pod is ready", isReady)
}

// proxied serves the API but for the requests that a handler takes. It returns its URL.
func proxied(t *testing.T, handle func(http.ResponseWriter, *http.Request) (handled bool)) string {
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
		if !handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
