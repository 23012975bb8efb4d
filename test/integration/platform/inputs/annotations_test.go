// SPDX-License-Identifier: Apache-2.0

package inputs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	percent = v1alpha1.SpotPercentAnnotation
	floor   = v1alpha1.MinOnDemandAnnotation
)

func TestAnInvalidAnnotationIsReportedAndPodsAreScheduled(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	s := second(w, nil)
	wantInvalid := 0
	for name, c := range map[string]struct {
		annotations      map[string]string
		wantKey, wantOne string
	}{
		"no-number":     {map[string]string{percent: "abc"}, percent, "abc"},
		"negative":      {map[string]string{percent: "-1"}, percent, "-1"},
		"above":         {map[string]string{percent: "101"}, percent, "101"},
		"above-percent": {map[string]string{percent: "101%"}, percent, "101%"},
		"bad-floor":     {map[string]string{percent: "50", floor: "one"}, floor, "one"},
		"floor-alone":   {map[string]string{floor: "2"}, floor, "2"},
	} {
		w.Run(name, func(t *testing.T, w *testenv.World) {
			const replicas = 3
			onPods, onOwner := name+"-pods", name+"-owner"
			w.Create(builders.Deployment(onPods, replicas, template(c.annotations)), on(builders.Deployment(onOwner, replicas), c.annotations))
			owner := replicaSet(w, onOwner).Name
			says := func(object string) {
				assertWarned(w, object, v1alpha1.EventReasonInvalidMixAnnotation, c.wantKey, fmt.Sprintf("%q", c.wantOne))
			}
			for _, p := range w.WaitBound(onPods, replicas) {
				assert.NotContains(t, p.Annotations, v1alpha1.SlotAnnotation)
				says(p.Name)
			}
			for _, p := range w.WaitBound(onOwner, replicas) {
				assert.NotContains(t, p.Annotations, v1alpha1.SlotAnnotation)
				assert.Empty(t, warnings(w, p.Name, v1alpha1.EventReasonInvalidMixAnnotation), "the owner carries it, not its pods")
			}
			says(owner)
		})
		wantInvalid += 4 // three pods and one ReplicaSet
	}
	assert.Equal(t, wantInvalid, w.Metric(s, "berth_scheduler_invalid_mixes_total", map[string]string{"kind": "annotation"}))
}

func TestAnInvalidAnnotationIsReportedOncePerValue(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("spot", 1)...)
	s := second(w, nil)
	tooBig := builders.CPU("20")
	d := on(builders.Deployment("web", 2, tooBig), map[string]string{percent: "abc"})
	w.Create(d)
	owner := replicaSet(w, "web").Name
	attempts := func() int {
		return w.Metric(s, "scheduler_schedule_attempts_total", map[string]string{"result": "unschedulable"})
	}
	w.Reaches("attempts for both pods", 2, attempts)
	nodes := 0
	tryAgain := func() {
		t.Helper()
		nodes++
		before := attempts()
		w.AddNodes(cluster.NodeSpec{Name: fmt.Sprintf("taken-%d", nodes), CapacityType: "spot", CPU: "40", Taints: []corev1.Taint{{Key: "taken", Effect: corev1.TaintEffectNoSchedule}}})
		w.Reaches("attempts, with another for both", before+2, attempts)
	}
	for range 4 {
		tryAgain()
	}
	said := func() []string { return warnings(w, owner, v1alpha1.EventReasonInvalidMixAnnotation) }
	testenv.Becomes(w, "warnings", 1, func() int { return len(said()) })
	testenv.Patch(w, d, func(d *appsv1.Deployment) { d.Annotations[percent] = "101" })
	testenv.Becomes(w, "the ReplicaSet has the new value", "101", func() string { return replicaSet(w, "web").Annotations[percent] })
	tryAgain()
	testenv.Becomes(w, "warnings, with one of the new value", 2, func() int { return len(said()) })
	both := fmt.Sprint(said())
	assert.Contains(t, both, `"abc"`)
	assert.Contains(t, both, `"101"`)
	// A good value governs the pods that wait.
	testenv.Patch(w, d, func(d *appsv1.Deployment) { d.Annotations[percent] = "50%" })
	w.AddNodes(cluster.Nodes("spot", 1, big)...) // first, so that no one has to borrow
	w.AddNodes(cluster.Nodes("on-demand", 1, big)...)
	w.RequireExact("web", split.New(50, 0), 2)
	assert.Len(t, said(), 2)
}

func big(n *cluster.NodeSpec) { n.Name, n.CPU = "big-"+n.Name, "40" }

func TestAPercentSignIsAccepted(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	second(w, nil)
	w.Create(builders.Deployment("pods", 10, template(map[string]string{percent: "70%"})),
		on(builders.Deployment("owner", 10), map[string]string{percent: "70%", floor: "4"}))
	w.RequireExact("pods", split.New(70, 0), 10)
	w.RequireExact("owner", split.New(70, 4), 10)
}

func TestSpotalisAnnotationsAreReadOnlyWhereConfigured(t *testing.T) {
	annotations := map[string]string{"spotalis.io/spot-percentage": "60", "spotalis.io/min-on-demand": "1"}
	for name, c := range map[string]struct {
		prefixes       []any
		label          string
		namespaces     []any // of Spotalis; the test's own is %s
		wantController int
	}{
		"listed and labelled":       {[]any{"berth.dev", "spotalis.io"}, "true", nil, 5},
		"listed and labelled false": {[]any{"berth.dev", "spotalis.io"}, "false", nil, 0},
		"labelled and not listed":   {[]any{"berth.dev"}, "true", nil, 0},
		"in a listed namespace":     {[]any{"berth.dev", "spotalis.io"}, "true", []any{"other", "%s"}, 5},
		"in another namespace":      {[]any{"berth.dev", "spotalis.io"}, "true", []any{"other"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			args := map[string]any{"annotationPrefixes": c.prefixes}
			for i, n := range c.namespaces {
				c.namespaces[i] = strings.ReplaceAll(n.(string), "%s", w.Namespace)
				args["spotalisNamespaces"] = c.namespaces
			}
			second(w, args)
			w.Create(labelled(on(builders.Deployment("web", 5), annotations), "spotalis.io/enabled", c.label),
				on(builders.Deployment("unlabelled", 5), annotations))
			pods := w.WaitBound("web", 5)
			want := map[string]int{"": 5}
			if c.wantController > 0 {
				want = map[string]int{"annotations/controller": c.wantController}
				w.RequireExactPods(pods, split.New(60, 1))
			}
			assert.Equal(t, want, mixSources(pods))
			assert.Equal(t, map[string]int{"": 5}, mixSources(w.WaitBound("unlabelled", 5)))
		})
	}
}

func TestSpotalisMinOnDemandAloneMeansNoSpot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	second(w, map[string]any{"annotationPrefixes": []any{"spotalis.io"}})
	w.Create(labelled(on(builders.Deployment("web", 5), map[string]string{"spotalis.io/min-on-demand": "1"}), "spotalis.io/enabled", "true"),
		on(builders.Deployment("ours", 5), map[string]string{percent: "50"}))
	w.RequireExact("web", split.New(0, 1), 5)
	assert.Equal(t, map[string]int{"": 5}, mixSources(w.WaitBound("ours", 5)), "berth.dev is not listed")
}

func TestAWindowOfSpotalisHoldsMoves(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 1, big)...)
	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("CapacityMix", map[string]any{"annotationPrefixes": []any{"spotalis.io"}}))
	w.RunScheduler(o)
	const schedule = "spotalis.io/disruption-schedule"
	opening := time.Now().UTC().Add(12 * time.Hour)
	web := labelled(on(builders.Deployment("web", 4), map[string]string{
		"spotalis.io/spot-percentage": "50", schedule: opening.Format("4 15 * * *"), "spotalis.io/disruption-duration": "1h",
	}), "spotalis.io/enabled", "true")
	w.Create(web)
	w.WaitReady("web", 4)
	w.AddNodes(cluster.Nodes("spot", 1, big)...)
	before := w.UIDs()
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.SchedulerConfig = o.ConfigFile })
	blocked := func(reason string) {
		t.Helper()
		testenv.Becomes(w, "workloads that are blocked by "+reason, 1, func() int {
			return w.Metric(c, "berth_mix_blocked_workloads", map[string]string{"namespace": w.Namespace, "mix": "", "reason": reason})
		})
	}
	blocked("OutsideWindow")
	testenv.Patch(w, web, func(d *appsv1.Deployment) { d.Annotations[schedule] = "61 * * * *" })
	blocked("InvalidWindow")
	assert.Equal(t, before, w.UIDs())
	testenv.Patch(w, web, func(d *appsv1.Deployment) { d.Annotations[schedule] = "* * * * *" })
	w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
}
