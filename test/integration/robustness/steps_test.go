// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	nodesOfType = 12
	workloads   = 4
	// maxReplicas of all workloads together fit on the nodes of one type, with one cordoned.
	maxReplicas = 10
	// pace is the longest pause between two steps.
	pace = 1500 * time.Millisecond
)

// workload is a Deployment or a StatefulSet with its mix.
type workload struct {
	object client.Object
	mix    split.Mix
}

// change changes the replicas and the template of a workload.
func (r *runner) change(w *workload, change func(replicas **int32, template *corev1.PodTemplateSpec)) {
	r.T.Helper()
	switch o := w.object.(type) {
	case *appsv1.Deployment:
		testenv.Patch(r.World, o, func(d *appsv1.Deployment) { change(&d.Spec.Replicas, &d.Spec.Template) })
	case *appsv1.StatefulSet:
		testenv.Patch(r.World, o, func(s *appsv1.StatefulSet) { change(&s.Spec.Replicas, &s.Spec.Template) })
	}
}

// runner takes the steps of a run.
type runner struct {
	*testenv.World
	random             *rand.Rand
	scheduler          *cluster.Scheduler
	controller         *cluster.Controller
	workloads          []*workload
	cordoned           string
	operations, faults []string
}

// action is a step. It returns what it did.
type action struct {
	fault bool
	do    func(*runner) string
}

// actions are drawn by weight.
var actions = []struct {
	weight int
	action
}{
	{6, action{false, (*runner).scale}},
	{4, action{false, (*runner).remix}},
	{3, action{false, (*runner).rollOut}},
	{3, action{false, (*runner).deletePods}},
	{2, action{false, (*runner).cordon}},
	{4, action{true, (*runner).killScheduler}},
	{2, action{true, (*runner).killController}},
	{2, action{true, (*runner).pauseScheduler}},
	{1, action{true, (*runner).killAPIServer}},
}

// begin starts the programs and the workloads, half of them with the gate, and the last one a StatefulSet.
func (r *runner) begin() {
	r.startScheduler()
	r.startController()
	for i := range workloads {
		app := fmt.Sprintf("w%d", i)
		w := &workload{mix: r.draw()}
		template := []func(*corev1.PodTemplateSpec){builders.CPU("1")}
		if i%2 == 1 {
			template = append(template, builders.Gated)
		}
		w.object = builders.Deployment(app, r.replicas(), template...)
		if i == workloads-1 {
			w.object = builders.StatefulSet(app, r.replicas(), appsv1.ParallelPodManagement, template...)
		}
		r.Create(builders.CapacityMix(app, w.mix.SpotPercent, w.mix.MinOnDemand), w.object)
		r.workloads = append(r.workloads, w)
	}
}

func (r *runner) startScheduler() {
	r.scheduler = r.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
}

func (r *runner) startController() { r.controller = r.Controller(testenv.Impatient) }

func (r *runner) draw() split.Mix {
	return split.New(int32(r.random.IntN(101)), int32(r.random.IntN(4)))
}

func (r *runner) replicas() int32 { return int32(1 + r.random.IntN(maxReplicas)) }

func (r *runner) any() *workload { return r.workloads[r.random.IntN(len(r.workloads))] }

// step takes one step, and pauses for a moment that belongs to the seed.
func (r *runner) step() {
	r.T.Helper()
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := r.random.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			done := a.do(r)
			r.T.Log(done)
			if a.fault {
				r.faults = append(r.faults, done)
			} else {
				r.operations = append(r.operations, done)
			}
			break
		}
	}
	pause := time.NewTimer(time.Duration(r.random.Int64N(int64(pace))))
	select {
	case <-pause.C:
	case <-r.Ctx.Done():
	}
}

func (r *runner) scale() string {
	w, n := r.any(), r.replicas()
	r.change(w, func(replicas **int32, _ *corev1.PodTemplateSpec) { *replicas = &n })
	return fmt.Sprintf("scale %s to %d", w.object.GetName(), n)
}

func (r *runner) remix() string {
	w := r.any()
	w.mix = r.draw()
	m := testenv.Read(r.World, w.object.GetName(), &v1alpha1.CapacityMix{})
	testenv.Patch(r.World, m, func(m *v1alpha1.CapacityMix) {
		m.Spec.SpotPercent, m.Spec.MinOnDemand = w.mix.SpotPercent, w.mix.MinOnDemand
	})
	return fmt.Sprintf("mix of %s: %s", w.object.GetName(), w.mix)
}

func (r *runner) rollOut() string {
	w, version := r.any(), fmt.Sprint(r.random.IntN(1e6))
	r.change(w, func(_ **int32, t *corev1.PodTemplateSpec) { t.Annotations = map[string]string{"version": version} })
	return fmt.Sprintf("roll out version %s of %s", version, w.object.GetName())
}

func (r *runner) deletePods() string {
	w, n := r.any(), 1+r.random.IntN(3)
	pods := r.Live(w.object.GetName())
	pods = pods[:min(n, len(pods))]
	for i := range pods {
		require.NoError(r.T, client.IgnoreNotFound(r.Client.Delete(r.Ctx, &pods[i])))
	}
	return fmt.Sprintf("delete %d pods of %s", n, w.object.GetName())
}

// cordon cordons one node, and uncordons the one before.
func (r *runner) cordon() string {
	capacityType := []string{"spot", "on-demand"}[r.random.IntN(2)]
	before := r.cordoned
	r.cordoned = fmt.Sprintf("%s-%d", capacityType, r.random.IntN(nodesOfType))
	if before != "" {
		r.Cordon(false, before)
	}
	r.Cordon(true, r.cordoned)
	return "cordon " + r.cordoned
}

func (r *runner) killScheduler() string {
	testenv.Kill(r.scheduler)
	r.startScheduler()
	return "kill the scheduler"
}

func (r *runner) killController() string {
	r.controller.Kill()
	<-r.controller.Done()
	r.startController()
	return "kill the controller"
}

// pauseScheduler lets the workloads change while the scheduler sees nothing of it.
func (r *runner) pauseScheduler() string {
	r.scheduler.Pause()
	first, second := r.scale(), r.deletePods()
	r.scheduler.Resume()
	return fmt.Sprintf("pause the scheduler, and meanwhile %s, %s", first, second)
}

func (r *runner) killAPIServer() string {
	require.NoError(r.T, r.Cluster.StopComponent(cluster.APIServer))
	require.NoError(r.T, r.Cluster.StartComponent(r.Ctx, cluster.APIServer))
	// The leader may have lost its lease meanwhile, and ended. Its kubelet would start it again.
	r.controller.Kill()
	<-r.controller.Done()
	r.startController()
	return "kill the API server"
}

// settle ends the faults, and waits until all workloads are exactly in their mix.
func (r *runner) settle() {
	r.T.Helper()
	if r.cordoned != "" {
		r.Cordon(false, r.cordoned)
	}
	if runs, log := testenv.Runs(r.scheduler); !runs {
		r.T.Fatalf("the scheduler ended by itself: %s", log)
	}
	for _, w := range r.workloads {
		var n int32
		r.change(w, func(replicas **int32, _ *corev1.PodTemplateSpec) { n = **replicas })
		r.WaitExact(w.object.GetName(), w.mix, int(n), settle)
	}
}
