// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	aggregatedGroup   = "aggregated.test.example.com"
	aggregatedVersion = aggregatedGroup + "/v1"
	// graceOfTenant is longer than a neighbour's moves take to begin.
	graceOfTenant = 15
)

// aggregated is a server of a kind of one tenant, which the API server passes requests on to. It never answers requests for scales.
type aggregated struct {
	*httptest.Server
	// hangs is set while it does not answer requests for objects either, held is how many it did not answer.
	hangs atomic.Bool
	held  atomic.Int32
	// stop ends the server and what it holds.
	stop func()
}

// serveAggregated registers a server with one object.
func serveAggregated(w *testenv.World, object *unstructured.Unstructured) *aggregated {
	w.T.Helper()
	a := &aggregated{}
	text, err := object.MarshalJSON()
	require.NoError(w.T, err)
	answers := map[string]string{
		"/apis": fmt.Sprintf(`{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": %q, "versions": [{"groupVersion": %q, "version": "v1"}]}]}`,
			aggregatedGroup, aggregatedVersion),
		"/apis/" + aggregatedVersion: fmt.Sprintf(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": %q, "resources": [
			{"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": ["get"]},
			{"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]}]}`,
			aggregatedVersion),
	}
	path := "/apis/" + aggregatedVersion + "/namespaces/" + w.Namespace + "/widgets/" + object.GetName()
	ended := make(chan struct{})
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		answer, known := answers[strings.TrimSuffix(r.URL.Path, "/")]
		if r.URL.Path == path && !a.hangs.Load() {
			answer, known = string(text), true
		}
		switch {
		case known:
			out.Header().Set("Content-Type", "application/json")
			_, _ = out.Write([]byte(answer))
		case strings.HasPrefix(r.URL.Path, path):
			a.held.Add(1)
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		default:
			out.WriteHeader(http.StatusNotFound)
		}
	}))
	a.stop = sync.OnceFunc(func() { close(ended); a.Close() })
	w.T.Cleanup(a.stop)
	a.register(w)
	return a
}

// register has the API server pass requests on. A Service of type ExternalName reaches an address without kube-proxy.
func (a *aggregated) register(w *testenv.World) {
	w.T.Helper()
	_, text, err := net.SplitHostPort(a.Listener.Addr().String())
	require.NoError(w.T, err)
	port, err := strconv.ParseInt(text, 10, 32)
	require.NoError(w.T, err)
	w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}},
	}})
	service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": aggregatedGroup, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": w.Namespace, "name": "widgets", "port": port},
	}}}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	service.SetName("v1." + aggregatedGroup)
	require.NoError(w.T, w.Client.Create(w.Ctx, service))
	w.T.Cleanup(func() { require.NoError(w.T, client.IgnoreNotFound(w.Client.Delete(w.Ctx, service))) })
	a.becomes(w, "True")
}

// becomes waits until the API server regards the server as available, or not.
func (a *aggregated) becomes(w *testenv.World, available string) {
	w.T.Helper()
	w.Eventually("the server is available: "+available, func() (bool, string) {
		service := &unstructured.Unstructured{}
		service.SetAPIVersion("apiregistration.k8s.io/v1")
		service.SetKind("APIService")
		if err := w.Client.Get(w.Ctx, client.ObjectKey{Name: "v1." + aggregatedGroup}, service); err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		return len(conditions) > 0 && conditions[0].(map[string]any)["status"] == available, fmt.Sprint(conditions)
	})
}

// requireMovesAtOnce changes a mix, and requires that its workload follows it without a grace.
func requireMovesAtOnce(w *testenv.World, mix string, spotPercent int32, n int) {
	w.T.Helper()
	w.ChangeMix(mix, builders.SpotPercent(spotPercent))
	want := testenv.SplitBy(split.New(spotPercent, 0), n)
	w.Eventually(fmt.Sprintf("%s follows its mix", mix), func() (bool, string) {
		status := &w.Mix(mix).Status
		require.False(w.T, testenv.BlockedBy(status, "StartupGrace"), "a tenant's API begins the grace of the cluster")
		pods := w.Live(mix)
		return w.SplitOf(pods) == want && len(testenv.Where(pods, testenv.Ready)) == n, w.SplitOf(pods).String()
	})
}

// The servers of a tenant's kind may hang, or be unavailable, so that the API server answers 503: that holds the moves of pods whose
// owners they serve, and no others.
func TestAnAggregatedAPIThatIsAwayHoldsItsTenantOnly(t *testing.T) {
	const pods = 4
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(builders.PodTemplate("widget")))
	require.NoError(t, err)
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
	widget.SetAPIVersion(aggregatedVersion)
	widget.SetKind("Widget")
	widget.SetNamespace(w.Namespace)
	widget.SetName("widget")
	widget.SetUID("widget")
	server := serveAggregated(w, widget)
	for _, o := range builders.Grant("widgets", builders.User(cluster.BerthControllerUser), builders.Rule(aggregatedGroup, []string{"widgets"}, "get")) {
		w.Create(o)
	}
	w.Create(builders.CapacityMix("widget", 100, 0), builders.CapacityMix("web", 0, 0), builders.Deployment("web", pods))
	for i := range pods {
		w.Create(builders.Pod("widget", fmt.Sprint("widget-", i), builders.OwnedBy(*metav1.NewControllerRef(widget, widget.GroupVersionKind()))))
	}
	w.WaitReady("widget", pods)
	w.WaitReady("web", pods)
	w.AddNodes(cluster.Nodes(spot, 4)...)
	start := func() *cluster.Controller {
		return w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.StartupGraceSeconds = graceOfTenant })
	}
	c := start()
	w.WaitBlocked("widget", "CapacityUnproven", "read the scale of Widget widget")
	require.Positive(t, server.held.Load())
	requireMovesAtOnce(w, "web", 100, pods)

	server.hangs.Store(true)
	w.WaitBlocked("widget", "ReplacementUnknown", "spec.template of Widget widget", "cannot be read")
	requireMovesAtOnce(w, "web", 0, pods)

	server.stop()
	server.becomes(w, "False")
	testenv.End(c, false)
	w.DropLease("berth-system", "berth-controller")
	start()                                 // which discovers the kinds of the cluster without the tenant's
	w.WaitBlocked("widget", "StartupGrace") // until then, the status is that of the former leader
	w.WaitStatus("widget", "its grace is over", func(s *v1alpha1.CapacityMixStatus) bool { return testenv.BlockedBy(s, "ReplacementUnknown") })
	requireMovesAtOnce(w, "web", 100, pods)
	assert.Empty(t, w.EvictionsOf("widget"), "nothing is evicted of which something is unknown")
}
