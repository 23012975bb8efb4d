// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAnnotationsComeWithTheFirstWatchEventOfABoundPod(t *testing.T) {
	w := testenv.New(t, wide()...)
	w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	h := w.History()
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 50))
	w.Create(builders.Deployment("own-cost", 3, builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "100"),
		builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, "42")))
	w.RequireExact("web", m, 50)
	w.RequireExact("own-cost", split.New(100, 0), 3)
	testenv.Becomes(w, "the watch has seen all", 53, h.Bound)
	for _, p := range h.FirstBound() {
		slot, err := strconv.Atoi(p.Annotations[v1alpha1.SlotAnnotation])
		require.NoError(t, err, "%s: %v", p.Name, p.Annotations)
		want := map[string]string{
			v1alpha1.SlotAnnotation:            strconv.Itoa(slot),
			v1alpha1.CapacityTypeAnnotation:    m.TypeOf(slot).String(),
			v1alpha1.MixAnnotation:             "capacitymix/web",
			v1alpha1.PodDeletionCostAnnotation: "-" + strconv.Itoa(slot),
		}
		if _, annotated := p.Annotations[v1alpha1.SpotPercentAnnotation]; annotated {
			want[v1alpha1.SpotPercentAnnotation] = "100"
			want[v1alpha1.CapacityTypeAnnotation] = v1alpha1.CapacityTypeSpot
			want[v1alpha1.MixAnnotation] = "annotations/pod"
			want[v1alpha1.PodDeletionCostAnnotation] = "42" // the user's own
		}
		assert.Equal(t, want, p.Annotations, p.Name)
	}
}

// writes counts what a user wrote in the test's namespace, by verb and resource.
func writes(w *testenv.World, user string) map[string]int {
	counts := map[string]int{}
	for _, r := range w.Audit(func(r testenv.Request) bool { return r.User == user && r.Write() }) {
		counts[r.Verb+" "+r.Resource]++
	}
	return counts
}

func TestAPodWithAMixCostsNoExtraAPIWrite(t *testing.T) {
	const pods = 100
	want := map[string]int{"create pods/binding": pods, "create events": pods}
	burst := func(t *testing.T, user string, o cluster.ProgramOptions, scheduler func(*corev1.PodTemplateSpec)) {
		w := testenv.New(t, wide()...)
		o.User = user
		w.RunScheduler(o)
		w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", pods, scheduler))
		w.WaitBound("web", pods)
		w.Reaches("the events are written", pods, func() int { return writes(w, user)["create events"] })
		assert.Equal(t, want, writes(w, user))
	}
	t.Run("stock", func(t *testing.T) {
		stock, err := cluster.Binary(t.Context(), os.Stderr, cluster.StockScheduler)
		require.NoError(t, err)
		off := &cluster.LeaderElection{Enabled: new(false)}
		burst(t, "system:kube-scheduler", cluster.ProgramOptions{Binary: stock, Name: "stock", LeaderElection: off}, builders.ByDefault)
	})
	t.Run("berth", func(t *testing.T) {
		burst(t, cluster.BerthSchedulerUser, testenv.SchedulerOptions(testenv.SecondScheduler), builders.SchedulerName(builders.Scheduler))
	})
}

func TestTheSchedulerWritesEachLineAsJSONIfItIsConfiguredTo(t *testing.T) {
	w := testenv.New(t, wide()...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Name = "berth-scheduler-json" // with a log of its own
	o.Args = []string{"--logging-format=json", "-v=4"}
	s := w.RunScheduler(o)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 5))
	w.RequireExact("web", split.New(70, 2), 5)
	testenv.Kill(s)
	lines := slices.Collect(strings.Lines(testenv.ReadFile(t, s.LogPath())))
	require.NotEmpty(t, lines)
	for _, line := range lines {
		var entry struct {
			Message string `json:"msg"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		require.NotEmpty(t, entry.Message, line)
	}
}
