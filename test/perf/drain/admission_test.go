// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

// burst is how many pods are created at a time.
const burst = 16

// chooser says which type a pod that is created gets.
type chooser interface {
	choose(ctx context.Context, p *corev1.Pod) (capacity.Type, error)
}

// admissionCase measures from the first creation to the last binding, with peers
// that decide at admission.
func (p *plane) admissionCase(s size, owners []metav1.OwnerReference, programs *schedulers) bench.Case {
	turn := func(start starter, webhook func(context.Context) chooser) func(context.Context) (bench.Values, error) {
		return func(ctx context.Context) (bench.Values, error) {
			p.restore(ctx, "empty")
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if webhook != nil {
				defer p.serve(ctx, owners[0], webhook(ctx))()
			}
			return p.created(ctx, s, owners, start), nil
		}
	}
	return bench.Case{
		Name: fmt.Sprintf("webhook/nodes=%d,pods=%d", s.nodes, s.pods),
		At:   map[string]float64{"nodes": float64(s.nodes), "pods": float64(s.pods), "groups": float64(s.groups())},
		Peers: []bench.Peer{
			{Name: "P0", Run: turn(programs.stock, nil)},
			{Name: "P3-cache", Run: turn(programs.stock, p.fromCache)},
			{Name: "P3-status", Run: turn(programs.stock, p.fromStatus)},
			{Name: "berth-16", Run: turn(programs.berth(16), nil)},
		},
	}
}

// created has the scheduler run, creates the pods, one workload after the other
// and so many at a time, and measures until all are bound.
func (p *plane) created(ctx context.Context, s size, owners []metav1.OwnerReference, start starter) bench.Values {
	p.t.Helper()
	d := start(ctx)
	defer d.stop()
	require.NoError(p.t, d.process.WaitReady(ctx))
	before := p.used(d)
	pods := p.Client().CoreV1().Pods(namespace)
	var t tally
	began := time.Now()
	took, _, err := bench.Saturated(burst, s.pods, func(n int) error {
		group, i := n/groupSize, n%groupSize
		_, err := pods.Create(ctx, makePod(owners[group], group, i, plain), metav1.CreateOptions{})
		return err
	})
	require.NoError(p.t, err)
	p.follow(ctx, &t, func() bool { return t.bindings >= s.pods })
	after := p.used(d)
	p.settle(ctx, &t)
	v := bench.Values{
		"cpu_ms_per_pod": ms(after.decider-before.decider) / float64(s.pods), "api_cpu_ms_per_pod": ms(after.api-before.api) / float64(s.pods),
		"create_p50_ms": bench.Quantile(bench.Milliseconds(took), 0.5), "create_p99_ms": bench.Quantile(bench.Milliseconds(took), 0.99),
	}
	p.describe(ctx, d, v)
	p.judge(ctx, s, v)
	all, err := p.ReadAuditLog(func(e *cluster.AuditEvent) bool { return e.ObjectRef.Subresource == "binding" })
	require.NoError(p.t, err)
	// From the first creation, not from the first binding.
	v["pods_per_s"] = float64(s.pods) / written(all).last.Sub(began).Seconds()
	return v
}

// serve has the API server ask a chooser about the pods of the namespace.
func (p *plane) serve(ctx context.Context, owner metav1.OwnerReference, c chooser) (stop func()) {
	p.t.Helper()
	config, stop := builders.PodWebhook("chooser", func(rw http.ResponseWriter, r *http.Request) {
		if err := answer(rw, r, c); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})
	p.t.Cleanup(stop) // may be called twice
	_, err := p.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, config, metav1.CreateOptions{})
	require.NoError(p.t, err)
	// The API server takes a moment to see it.
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		made, err := p.Client().CoreV1().Pods(namespace).Create(ctx, makePod(owner, 0, 0, plain), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(made.Spec.NodeSelector) > 0, nil
	})
	require.NoError(p.t, err)
	return stop
}

func answer(rw http.ResponseWriter, r *http.Request, c chooser) error {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
		return err
	}
	on := capacity.Spot
	if review.Request.DryRun == nil || !*review.Request.DryRun {
		var err error
		if on, err = c.choose(r.Context(), &pod); err != nil {
			return err
		}
	}
	patch, err := json.Marshal([]map[string]any{{
		"op": "add", "path": "/spec/nodeSelector", "value": map[string]string{cluster.CapacityTypeLabel: on.String()},
	}})
	if err != nil {
		return err
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: new(admissionv1.PatchTypeJSONPatch),
	}
	review.Request = nil
	rw.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(rw).Encode(&review)
}
