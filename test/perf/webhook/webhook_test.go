// SPDX-License-Identifier: Apache-2.0

// Package webhook_test measures the admission webhook on the local control
// plane: what it takes itself, and what the creation of a pod takes with it and
// without. docs/performance.md has the figures.
package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

// enable has it run: it starts a control plane, which `make bench` should not.
const enable = "BERTH_BENCH_WEBHOOK"

const (
	perSecond = 100
	// during is how long pods are created in one way before the next has its turn, which each has so many times.
	during = 10 * time.Second
	rounds = 3
	// goal is what the webhook may take itself, for 99 of 100 pods, in milliseconds.
	goal = 20.0
	// limits are how many ResourceLimits there are.
	limits = 100
)

func TestMain(m *testing.M) {
	if os.Getenv(enable) == "" {
		os.Exit(m.Run())
	}
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true}))
}

// paced calls something at the rate, and returns how long each call took in milliseconds.
func paced(t *testing.T, call func(i int) error) []float64 {
	t.Helper()
	took, err := bench.Paced(int(during.Seconds())*perSecond, perSecond, call)
	require.NoError(t, err)
	return bench.Milliseconds(took)
}

func report(t *testing.T, what string, took []float64) (p99 float64) {
	t.Helper()
	p99 = bench.Quantile(took, 0.99)
	t.Logf("%-45s p50 %.2f ms, p99 %.2f ms, most %.2f ms, n %d", what, bench.Quantile(took, 0.5), p99, slices.Max(took), len(took))
	return p99
}

// pod names one of the limits and runs nowhere.
func pod(namespace string, i int) *corev1.Pod {
	p := builders.Pod("web", fmt.Sprintf("web-%d", i), builders.SchedulerName("nobody"), func(t *corev1.PodTemplateSpec) {
		t.Labels[v1alpha1.ResourceLimitLabel] = fmt.Sprintf("size-%d", i%limits)
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	})
	p.Namespace = namespace
	return p
}

func TestAHundredAdmissionsASecond(t *testing.T) {
	if os.Getenv(enable) == "" {
		t.Skip(enable + " is not set")
	}
	w := testenv.New(t)
	sizes(w, w.Namespace)
	ways := []struct{ what, namespace string }{
		{"pod creation, without a webhook", namespace(w, "without", nil)},
		{"pod creation, with one that does nothing", namespace(w, "idle", map[string]string{idleLabel: "enabled"})},
		{"pod creation, with Berth's", w.Namespace},
	}
	idle(w)
	address := w.FreeAddress()
	w.ApplyWebhook(address)
	w.Controller(testenv.WebhookAt(address))
	w.Inject("enabled")
	w.Eventually("the webhook is called", func() (bool, string) {
		p := pod(w.Namespace, 0)
		err := w.DryRun(p)
		return err == nil && p.Annotations[v1alpha1.ResolvedLimitAnnotation] != "", fmt.Sprint(err)
	})
	took := make([][]float64, len(ways))
	for range rounds {
		for n, way := range ways {
			took[n] = append(took[n], paced(t, func(i int) error { return w.Client.Create(w.Ctx, pod(way.namespace, i)) })...)
			require.NoError(t, w.Client.DeleteAllOf(w.Ctx, &corev1.Pod{}, client.InNamespace(way.namespace), client.GracePeriodSeconds(0)))
		}
	}
	for n, way := range ways {
		report(t, way.what, took[n])
	}
	p99 := report(t, "the webhook itself, called over HTTPS", paced(t, asking(w, address)))
	require.Less(t, p99, goal)
}

// idleLabel is on the namespace whose pods the webhook receives that does nothing.
const idleLabel = "example.com/idle-webhook"

// namespace makes one, with the limits in it.
func namespace(w *testenv.World, name string, labels map[string]string) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-" + name, Labels: labels}}
	w.Create(ns)
	sizes(w, ns.Name)
	return ns.Name
}

func sizes(w *testenv.World, namespace string) {
	for i := range limits {
		w.CreateAsIs(&v1alpha1.ResourceLimit{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("size-%d", i)},
			Spec: v1alpha1.ResourceLimitSpec{
				CPU: new(resource.MustParse("500m")), Memory: new(resource.MustParse("1Gi")), NodeSelector: map[string]string{"disk": "ssd"},
			},
		})
	}
}

// idle serves a webhook that allows every pod at once: what any webhook costs a
// pod on this machine.
func idle(w *testenv.World) {
	config, stop := builders.PodWebhook("idle", func(rw http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct{ UID types.UID }
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(rw, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	})
	w.T.Cleanup(stop)
	config.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{idleLabel: "enabled"}}
	w.Create(config)
}

// asking sends what the API server sends.
func asking(w *testenv.World, address string) func(i int) error {
	anyone := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: perSecond,
	}}
	return func(i int) error {
		raw, err := json.Marshal(pod(w.Namespace, i))
		if err != nil {
			return err
		}
		body, err := json.Marshal(&admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				UID: types.UID(fmt.Sprint(i)), Operation: admissionv1.Create, Namespace: w.Namespace,
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: raw},
			},
		})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(context.WithoutCancel(w.Ctx), http.MethodPost, "https://"+address+"/mutate-pods", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := anyone.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Contains(text, []byte(`"allowed":true`)) || !bytes.Contains(text, []byte(`"patch"`)) {
			return fmt.Errorf("answer %d: %s", i, text)
		}
		return err
	}
}
