// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

// burst is how many pods are created at a time.
const burst = 16

// chooser chooses the type of a pod that is created.
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

// serve has the API server call a chooser for the pods of the namespace.
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

// spotFor is what a chooser gives the next pod of a workload that has so many, and so many of them for spot.
func spotFor(all, spot int) capacity.Type {
	if spot < rule.Spot(all+1) {
		return capacity.Spot
	}
	return capacity.OnDemand
}

func (p *plane) admitterClient() kubernetes.Interface {
	p.t.Helper()
	config, err := p.ConfigFor(admitter, "system:masters")
	require.NoError(p.t, err)
	return kubernetes.NewForConfigOrDie(config)
}

// cached counts the live pods of a workload in a cache, as Spotalis does: it
// writes nothing, and does not keep what it answered a moment ago.
type cached struct {
	pods   corelisters.PodLister
	owners appslisters.ReplicaSetLister
}

func (p *plane) fromCache(ctx context.Context) chooser {
	factory := informers.NewSharedInformerFactoryWithOptions(p.admitterClient(), 0, informers.WithNamespace(namespace))
	c := &cached{factory.Core().V1().Pods().Lister(), factory.Apps().V1().ReplicaSets().Lister()}
	factory.Start(ctx.Done())
	for what, synced := range factory.WaitForCacheSync(ctx.Done()) {
		require.True(p.t, synced, "cache of %s is not synced", what)
	}
	p.followed(ctx, c.pods)
	return c
}

// followed waits until a cache shows a pod that is created, and that it is gone:
// the first watch of an API server that has just started may end at once.
func (p *plane) followed(ctx context.Context, cache corelisters.PodLister) {
	p.t.Helper()
	probe := builders.Pod("probe", "probe", builders.SchedulerName("nobody"))
	pods := p.Client().CoreV1().Pods(namespace)
	seen := func(want bool) {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			_, err := cache.Pods(namespace).Get(probe.Name)
			return (err == nil) == want, nil
		})
		require.NoError(p.t, err)
	}
	_, err := pods.Create(ctx, probe, metav1.CreateOptions{})
	require.NoError(p.t, err)
	seen(true)
	require.NoError(p.t, pods.Delete(ctx, probe.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	seen(false)
}

func (c *cached) choose(_ context.Context, p *corev1.Pod) (capacity.Type, error) {
	owner := metav1.GetControllerOf(p)
	// The rule would be in its annotations.
	if _, err := c.owners.ReplicaSets(namespace).Get(owner.Name); err != nil {
		return capacity.Unknown, err
	}
	pods, err := c.pods.Pods(namespace).List(labels.SelectorFromSet(builders.Labels(owner.Name)))
	if err != nil {
		return capacity.Unknown, err
	}
	spot := 0
	for _, live := range pods {
		if live.Spec.NodeSelector[cluster.CapacityTypeLabel] == capacity.Spot.String() {
			spot++
		}
	}
	return spotFor(len(pods), spot), nil
}

// counted keeps the counts of a workload in an object, as WorkloadSpread does in
// its status: one write for each pod. It has one replica and takes one pod of a workload at
// a time, so that no write conflicts.
type counted struct {
	client kubernetes.Interface

	mu     sync.Mutex
	groups map[string]*count
}

type count struct {
	sync.Mutex
	object *corev1.ConfigMap
}

func (p *plane) fromStatus(context.Context) chooser {
	return &counted{client: p.admitterClient(), groups: map[string]*count{}}
}

func (c *counted) group(name string) *count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[name] == nil {
		c.groups[name] = &count{}
	}
	return c.groups[name]
}

func (c *counted) choose(ctx context.Context, p *corev1.Pod) (capacity.Type, error) {
	name := metav1.GetControllerOf(p).Name
	g := c.group(name)
	g.Lock()
	defer g.Unlock()
	maps := c.client.CoreV1().ConfigMaps(namespace)
	if g.object == nil {
		made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"all": "0", "spot": "0"}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = maps.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return capacity.Unknown, err
		}
		g.object = made
	}
	all, err := strconv.Atoi(g.object.Data["all"])
	if err != nil {
		return capacity.Unknown, err
	}
	spot, err := strconv.Atoi(g.object.Data["spot"])
	if err != nil {
		return capacity.Unknown, err
	}
	on := spotFor(all, spot)
	if on == capacity.Spot {
		spot++
	}
	next := g.object.DeepCopy()
	next.Data = map[string]string{"all": strconv.Itoa(all + 1), "spot": strconv.Itoa(spot)}
	if next, err = maps.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		g.object = nil // read it again
		return capacity.Unknown, err
	}
	g.object = next
	return on, nil
}
