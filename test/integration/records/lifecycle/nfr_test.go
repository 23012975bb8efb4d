// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func enforced(name string, functions ...string) *v1alpha1.DeploymentRecord {
	r := record(name, functions...)
	r.Spec.Enforcement = &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementEnforce}
	return r
}

// nobody is a configuration whose Prometheus does not exist.
func nobody(d *controller.Records) {
	d.Prometheus.URL, d.NFR.IntervalSeconds = "http://127.0.0.1:1", 5
}

func withoutHPA(d *controller.Records) { d.Features.HPA = new(false) }

// What was set by measure, or by hand, is not undone by the next change of the record.
func TestEnforcedReplicasSurviveAChange(t *testing.T) {
	s := share(t)
	s.create(enforced("cart", "add"))
	testenv.Patch(s.World, s.deployment("cart"), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	for i := range 2 {
		image := fmt.Sprint("registry.example/function:", i+2)
		s.setImage("cart", image)
		testenv.Becomes(s.World, "the change is there", image, func() string { return s.image("cart") })
		assert.Equal(t, int32(4), *s.deployment("cart").Spec.Replicas)
	}
	// Where it is not enforced any more, the record has how many there are.
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.Enforcement.Mode = v1alpha1.EnforcementObserve })
	testenv.Becomes(s.World, "the record's replicas are back", int32(1), func() int32 { return *s.deployment("cart").Spec.Replicas })
}

func TestAnEnforcedFunctionHasAnAutoscaler(t *testing.T) {
	s := start(t, nobody)
	r := enforced("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale, r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(2)), new(int32(8))
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{CPUUtilizationTarget: new("0.6")}
	s.create(r)
	hpa := func() *autoscalingv2.HorizontalPodAutoscaler {
		return testenv.Read(s.World, "cart", &autoscalingv2.HorizontalPodAutoscaler{})
	}
	h := hpa()
	assert.Equal(t, []int32{2, 8, 60}, []int32{*h.Spec.MinReplicas, h.Spec.MaxReplicas, *h.Spec.Metrics[0].Resource.Target.AverageUtilization})
	assert.Equal(t, "cart", h.Spec.ScaleTargetRef.Name)
	testenv.Patch(s.World, h, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = new(int32(5)) })
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(9)) })
	testenv.Becomes(s.World, "the bound is there", 9, func() int32 { return hpa().Spec.MaxReplicas })
	assert.Equal(t, int32(5), *hpa().Spec.MinReplicas)
}

// A Prometheus that is not there changes nothing but a condition.
func TestWithoutPrometheusNothingHappens(t *testing.T) {
	s := share(t)
	s.create(enforced("cart", "add"))
	r := testenv.WaitFor(s.World, "cart", "it reports it", func(r *v1alpha1.DeploymentRecord) bool {
		c := condition(r, v1alpha1.ConditionNFRObserved)
		return c.Status == metav1.ConditionFalse && c.Reason == "PrometheusUnreachable"
	})
	assert.Empty(t, r.Status.NFRRecommendations)
	assert.Equal(t, v1alpha1.PhaseAvailable, r.Status.Phase)
	assert.Equal(t, int32(1), *s.deployment("cart").Spec.Replicas)
}

// measured starts a Prometheus server that sees records of the namespace use 1.75
// cores each, which is worth 4 replicas, and a controller that queries it.
func measured(t *testing.T, records []string, changes ...func(*controller.Records)) *scene {
	t.Helper()
	// The ten minutes of the range query, and the five before them, are there from the start: points with times of their own.
	next := time.Now().Add(-17 * time.Minute).Truncate(time.Second)
	began := next
	var namespace string
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for ; next.Before(time.Now()); next = next.Add(5 * time.Second) {
			for _, name := range records {
				fmt.Fprintf(w, "container_cpu_usage_seconds_total{namespace=%q,pod=%q,container=\"function\"} %v %d\n",
					namespace, name+"-5d5f-abcde", 1000+1.75*next.Sub(began).Seconds(), next.UnixMilli())
			}
		}
	}))
	t.Cleanup(source.Close)
	s := &scene{World: testenv.New(t, cluster.Nodes("on-demand", 3)...)}
	namespace = s.Namespace
	p, err := cluster.StartPrometheus(t.Context(), os.Stderr, cluster.PrometheusOptions{Dir: t.TempDir(), Targets: []string{strings.TrimPrefix(source.URL, "http://")}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	s.prometheus = p.URL
	s.ApplyFiles("manifests/rbac/records", "manifests/templates")
	s.run(append([]func(*controller.Records){func(d *controller.Records) {
		d.Prometheus.URL = p.URL
		d.NFR.IntervalSeconds, d.NFR.StabilitySeconds, d.NFR.CooldownSeconds, d.NFR.MaxReplicas = 5, 1, 1, 3
	}}, changes...)...)
	return s
}

// applied waits until the status of a record has what was applied, a value.
func (s *scene) applied(name string, value int64) v1alpha1.AppliedRecommendation {
	s.T.Helper()
	return testenv.WaitFor(s.World, name, "what was applied is in the status", func(r *v1alpha1.DeploymentRecord) bool {
		return len(r.Status.LastApplied) == 1 && r.Status.LastApplied[0].Value == value
	}).Status.LastApplied[0]
}

// Recommendations are in the status of every record, and are applied, step by
// step, to those that request it.
func TestRecommendationsOfARealPrometheusAreApplied(t *testing.T) {
	s := measured(t, []string{"enforced", "observed"}, withoutHPA)
	observed := record("observed", "add")
	s.Create(enforced("enforced", "add"), observed)
	s.settled("observed", v1alpha1.PhaseAvailable)
	testenv.WaitFor(s.World, "observed", "the recommendation is in the status", func(r *v1alpha1.DeploymentRecord) bool {
		i := slices.IndexFunc(r.Status.NFRRecommendations, func(n v1alpha1.NFRRecommendation) bool { return n.Dimension == v1alpha1.DimensionReplicas })
		return i >= 0 && r.Status.NFRRecommendations[i].Target == 4 && condition(r, v1alpha1.ConditionNFRObserved).Reason == "PrometheusQueryOK"
	})

	var seen []int32
	s.Within(2*time.Minute, "the most that may be is set", func() (bool, string) {
		n := *s.deployment("enforced").Spec.Replicas
		if len(seen) == 0 || seen[len(seen)-1] != n {
			seen = append(seen, n)
		}
		return n == 3, fmt.Sprint(seen, s.get("enforced").Status)
	})
	assert.Equal(t, []int32{1, 2, 3}, seen, "a step at a time, and no more than maxReplicas")
	applied := s.applied("enforced", 3)
	assert.Equal(t, []any{"enforced", v1alpha1.DimensionReplicas, int64(4), int32(60)}, []any{applied.Component, applied.Dimension, applied.Target, applied.ConfidencePercent})
	s.saw("enforced", v1alpha1.EventReasonNFRApplied)

	// The record is looked at again, and what was set stays.
	s.setImage("enforced", newImage)
	testenv.Becomes(s.World, "the image is there", newImage, func() string { return s.image("enforced") })
	assert.Equal(t, int32(3), *s.deployment("enforced").Spec.Replicas)

	// The mode Observe writes to no workload.
	assert.Equal(t, int32(1), *s.deployment("observed").Spec.Replicas)
	assert.Empty(t, s.Audit(func(r testenv.Request) bool {
		return r.Write() && r.Name == "observed" && r.Resource == "deployments" && r.User == cluster.BerthRecordsUser && r.Verb == "patch" &&
			r.At.After(s.deployment("observed").CreationTimestamp.Add(5*time.Second))
	}))
	assert.Equal(t, metav1.ConditionTrue, condition(s.get("observed"), v1alpha1.ConditionNFRObserved).Status)
}

// Where there is an autoscaler its least replicas are raised, where Knative scales its minScale.
func TestMinReplicasAndMinScaleFollowWhatIsMeasured(t *testing.T) {
	s := measured(t, []string{"scaled", "kn"}, func(d *controller.Records) { d.Features.Knative, d.NFR.MaxReplicas = new(true), 2 })
	s.serveKnative()
	scaled, kn := enforced("scaled", "add"), enforced("kn", "add")
	scaled.Spec.TemplateHint, kn.Spec.TemplateHint = "k8s-deployment", "knative"
	s.Create(scaled, kn)
	s.Within(2*time.Minute, "both are at the most that may be", func() (bool, string) {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := s.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: "scaled"}, hpa); err != nil {
			return false, err.Error()
		}
		least := s.knativeAnnotations("kn")["autoscaling.knative.dev/minScale"]
		return *hpa.Spec.MinReplicas == 2 && least == "2", fmt.Sprint(*hpa.Spec.MinReplicas, least, s.get("kn").Status)
	})
	for _, name := range []string{"scaled", "kn"} {
		s.saw(name, v1alpha1.EventReasonNFRApplied)
		assert.Equal(t, int64(4), s.applied(name, 2).Target)
	}
}

// The time since when a recommendation holds outlives the controller.
func TestARestartSkipsNoWindow(t *testing.T) {
	const stability = 15 * time.Second
	slow := func(d *controller.Records) {
		// Two and a half times the interval is how long no one may measure.
		d.NFR.IntervalSeconds, d.NFR.StabilitySeconds = 6, int32(stability.Seconds())
	}
	s := measured(t, []string{"cart"}, withoutHPA, slow)
	url := s.prometheus
	s.Create(enforced("cart", "add"))
	var since metav1.Time
	s.Within(time.Minute, "a recommendation waits", func() (bool, string) {
		w := s.get("cart").Status.NFRWindows
		if len(w) == 1 {
			since = w[0].Since
		}
		return len(w) == 1, fmt.Sprint(w)
	})
	s.restart(withoutHPA, func(d *controller.Records) { d.Prometheus.URL = url; d.NFR.MaxReplicas = 3 }, slow)
	s.Within(2*time.Minute, "it is applied", func() (bool, string) {
		r := s.get("cart")
		for _, w := range r.Status.NFRWindows {
			require.Equal(t, since.Unix(), w.Since.Unix(), "the window started again")
		}
		return len(r.Status.LastApplied) == 1, fmt.Sprint(r.Status.NFRWindows)
	})
	applied := s.get("cart").Status.LastApplied[0]
	assert.GreaterOrEqual(t, applied.Time.Sub(since.Time), stability)
	assert.Equal(t, int32(2), *s.deployment("cart").Spec.Replicas)
}
