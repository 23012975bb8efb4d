// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
	"berth.dev/berth/internal/records/render"
)

// measuredAtOnce is how many records are measured at a time.
const measuredAtOnce = 8

// analyzer measures the records, writes the recommendations into their status, and applies them where the record enforces them.
// It runs on the leader.
type analyzer struct {
	*Controller

	mu sync.Mutex
	// up is how long the components have been ready. A new leader starts again.
	up map[types.NamespacedName]nfr.Uptime
}

// Start implements manager.Runnable.
func (a *analyzer) Start(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if a.capabilities.complete() {
			a.round(ctx)
		}
	}, a.Limits.Interval)
	return nil
}

// round measures every record once.
func (a *analyzer) round(ctx context.Context) {
	var list v1alpha1.DeploymentRecordList
	if err := a.Client.List(ctx, &list); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list DeploymentRecords")
		return
	}
	var down atomic.Pointer[prometheus.Outcome] // an unreachable Prometheus is not queried for the other records
	workqueue.ParallelizeUntil(ctx, measuredAtOnce, len(list.Items), func(i int) {
		rec := &list.Items[i]
		if !a.wanted(rec) {
			return
		}
		if err := a.measure(ctx, rec, &down); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot measure a record", "record", rec.Name, "namespace", rec.Namespace)
		}
	})
	a.forget(list.Items)
}

func (a *analyzer) wanted(rec *v1alpha1.DeploymentRecord) bool {
	return rec.DeletionTimestamp == nil && len(rec.Status.Functions) > 0 && modeOf(rec) != v1alpha1.EnforcementOff
}

func modeOf(rec *v1alpha1.DeploymentRecord) v1alpha1.EnforcementMode {
	return cmp.Or(ptr.Deref(rec.Spec.Enforcement, v1alpha1.NFREnforcement{}).Mode, v1alpha1.EnforcementObserve)
}

// measure measures the functions of a record, decides about each, and writes the status.
func (a *analyzer) measure(ctx context.Context, rec *v1alpha1.DeploymentRecord, down *atomic.Pointer[prometheus.Outcome]) error {
	children, err := a.children(ctx, rec)
	if err != nil {
		return err
	}
	now := a.Clock.Now()
	m := measurement{now: now, rec: rec, v: observation{children: children}}
	for i := range rec.Status.Functions {
		s := &rec.Status.Functions[i]
		f := specOf(rec, s.FunctionKey)
		if f == nil || s.Service == "" {
			continue
		}
		c := a.component(rec, f, s, m.v)
		if o := down.Load(); o != nil {
			c.outcome = *o
		} else {
			c.observed, c.outcome = a.Prometheus.Observe(ctx, c.Component, now)
			if c.outcome.Reason == v1alpha1.ReasonPrometheusUnreachable {
				down.Store(&c.outcome)
			}
		}
		c.recommended = nfr.Recommend(c.Workload, c.observed, &c.nfr)
		m.components = append(m.components, c)
	}
	if len(m.components) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil { // then the outcomes are not those of Prometheus
		return err
	}
	status := m.status()
	var failed error
	for i := range m.components {
		failed = errors.Join(failed, a.enforce(ctx, &m, &m.components[i], &status))
	}
	if sameMeasured(&rec.Status, &status, now) {
		return failed
	}
	_, err = a.writeStatus(ctx, rec, &status, NFROwner)
	return errors.Join(failed, err) // whatever could be applied
}

// component is a function that is measured.
type component struct {
	nfr.Component
	spec     *v1alpha1.FunctionSpec
	nfr      v1alpha1.NFRRequirements
	up       nfr.Availability
	observed nfr.Observed
	outcome  prometheus.Outcome
	// recommended is what follows from the figures.
	recommended []v1alpha1.NFRRecommendation
}

func (a *analyzer) component(
	rec *v1alpha1.DeploymentRecord, f *v1alpha1.FunctionSpec, s *v1alpha1.FunctionStatus, v observation,
) component {
	c := component{spec: f, nfr: render.RequirementsOf(&rec.Spec, f)}
	c.Component = nfr.Component{
		Namespace: rec.Namespace,
		Record:    render.LabelValue(rec.Name), // as the label of its pods, from which the series have it
		Workload:  s.Service,
		Knative:   applyset.Find(v.children, knativeService.GroupKind(), s.Service) != nil,
		Metrics:   ptr.Deref(s.Metrics, v1alpha1.FunctionMetrics{}),
	}
	w := v.workload(s.Service)
	key := types.NamespacedName{Namespace: rec.Namespace, Name: s.Service}
	now := a.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	up := a.up[key].Next(now, w.ready > 0 || w.desired == 0 || w.ok, a.Limits.Gap())
	a.up[key] = up
	c.up = up.Availability(now)
	return c
}

// forget drops the uptimes of records that are gone.
func (a *analyzer) forget(records []v1alpha1.DeploymentRecord) {
	there := sets.New[types.NamespacedName]()
	for i := range records {
		for _, f := range records[i].Status.Functions {
			there.Insert(types.NamespacedName{Namespace: records[i].Namespace, Name: f.Service})
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.up, func(key types.NamespacedName, _ nfr.Uptime) bool { return !there.Has(key) })
}

func specOf(rec *v1alpha1.DeploymentRecord, key string) *v1alpha1.FunctionSpec {
	for i := range rec.Spec.DeploymentUnit.Functions {
		if f := &rec.Spec.DeploymentUnit.Functions[i]; f.FunctionKey == key {
			return f
		}
	}
	return nil
}

// scaleTarget is a field that sets the replicas of a function.
type scaleTarget struct {
	*applyset.Child
	path    []string
	current int64
	// text means that the field is a string.
	text bool
	// raise means that it is never lowered; high is its own bound, 0 for none.
	raise bool
	high  int64
}

// scaleTargets returns those of a function, the preferred one first.
func scaleTargets(v observation, name string) (list []scaleTarget) {
	if c := applyset.Find(v.children, scalerKind, name); c != nil {
		if h, ok := c.Object.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			list = append(list, scaleTarget{
				Child: c, path: []string{"spec", "minReplicas"}, current: int64(ptr.Deref(h.Spec.MinReplicas, 1)),
				raise: true, high: int64(h.Spec.MaxReplicas),
			})
		}
	}
	if c := applyset.Find(v.children, knativeService.GroupKind(), name); c != nil {
		if u, ok := c.Object.(*unstructured.Unstructured); ok {
			path := []string{"spec", "template", "metadata", "annotations", render.MinScaleAnnotation}
			text, _, _ := unstructured.NestedString(u.Object, path...)
			n, _ := strconv.ParseInt(text, 10, 64)
			list = append(list, scaleTarget{Child: c, path: path, current: n, text: true})
		}
	}
	if c := applyset.Find(v.children, deploymentKind, name); c != nil {
		if d, ok := c.Object.(*appsv1.Deployment); ok {
			list = append(list, scaleTarget{Child: c, path: []string{"spec", "replicas"}, current: int64(ptr.Deref(d.Spec.Replicas, 1))})
		}
	}
	return list
}

// enforce takes the next step for the replicas of a function, and adds it to the status.
func (a *analyzer) enforce(ctx context.Context, m *measurement, c *component, status *v1alpha1.DeploymentRecordStatus) error {
	if !render.Enforces(&m.rec.Spec, a.Settings) {
		return nil
	}
	all := scaleTargets(m.v, c.Workload)
	if len(all) == 0 {
		return nil
	}
	verdict := nfr.Step(m.input(c, all[0]), a.Limits)
	if verdict.Reason != nfr.ReasonApply {
		m.keep(status, c, verdict.Window)
		return nil
	}
	used, err := a.scale(ctx, all, verdict.Value)
	if err != nil {
		m.keep(status, c, m.window(c)) // and again at the next measurement
		return err
	}
	recommended := c.replicas()
	m.applied(status, v1alpha1.AppliedRecommendation{
		NFRRecommendation: *recommended, Value: verdict.Value, Time: metav1.NewTime(verdict.At),
	})
	a.event(m.rec, corev1.EventTypeNormal, v1alpha1.EventReasonNFRApplied, "%s of %s from %d to %d, recommended %d: %s",
		used.path[len(used.path)-1], used.Child, used.current, verdict.Value, recommended.Target, recommended.Basis)
	return nil
}

// scale sets the replicas by the first target that can be set.
func (a *analyzer) scale(ctx context.Context, all []scaleTarget, value int64) (used scaleTarget, err error) {
	for _, t := range all {
		var v any = value
		if t.text {
			v = strconv.FormatInt(value, 10)
		}
		backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 3}
		err = retry.OnError(backoff, worthRetrying, func() error {
			return applyset.Field(ctx, a.Client, t.Kind, t.Object, t.path, v, NFROwner)
		})
		if err == nil {
			return t, nil
		}
	}
	return used, fmt.Errorf("set the replicas: %w", err)
}

// worthRetrying reports whether the same request may work a moment later.
func worthRetrying(err error) bool {
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !errors.Is(err, context.Canceled)
}
