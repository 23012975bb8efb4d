// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// track makes a Deployment of an app with a name of its own, of which an app has several.
func track(app, name string, replicas int32) *appsv1.Deployment {
	d := builders.Deployment(app, replicas, labeled("track", name))
	d.Name = app + "-" + name
	d.Spec.Selector.MatchLabels = map[string]string{"app": app, "track": name}
	return d
}

func TestAStableAndACanaryAreOneGroupBySelector(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	stable, canary := track("web", "stable", 6), track("web", "canary", 4)
	w.Create(builders.CapacityMix("web", 70, 2, grouped(v1alpha1.PodGroupingSelector)), stable, canary)
	w.RequireExact("web", m, 10)
	require.Equal(t, testenv.Split{Spot: 7, OnDemand: 3}, w.Split("web"), "each on its own would have 4 and 2, 2 and 2")
	for _, n := range []int32{6, 14} { // both grow, and no pod is moved
		w.Scale(canary, n)
		w.WaitReady("web", 6+int(n))
		w.RequireExact("web", m, 6+int(n))
	}
	w.Scale(stable, 20)
	w.RequireExact("web", m, 34)
}

// Each is a group by its ReplicaSet unless the mix has them as one.
func TestAStableAndACanaryAreTwoGroupsByDefault(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), track("web", "stable", 6), track("web", "canary", 4))
	requireEach(w, byOwner(w.WaitBound("web", 10)), 2, split.New(70, 2))
	require.Equal(t, testenv.Split{Spot: 6, OnDemand: 4}, w.Split("web"))
}

func TestTheRevisionsOfADeploymentMayBeOneGroup(t *testing.T) {
	for name, by := range map[string]struct {
		mix         *v1alpha1.CapacityMix
		annotations map[string]string
	}{
		"of a CapacityMix": {mix: builders.CapacityMix("web", 70, 2, grouped(v1alpha1.PodGroupingTop))},
		"of annotations":   {annotations: annotated(70, 2, string(v1alpha1.PodGroupingTop))},
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			if by.mix != nil {
				w.Create(by.mix)
			}
			rollsOut(w, by.annotations)
		})
	}
}

func rollsOut(w *testenv.World, annotations map[string]string) {
	w.T.Helper()
	m := split.New(70, 2)
	web := builders.Deployment("web", 10)
	maps.Copy(web.Annotations, annotations)
	web.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(5)), MaxUnavailable: new(intstr.FromInt32(0))},
	}
	w.Create(web)
	record := w.Record("web")
	w.WaitReady("web", 10)
	w.RequireExact("web", m, 10)

	// The second revision gets stuck: 10 pods of the first one and 5 of the second are one sequence.
	testenv.Patch(w, web, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/app:2"
		d.Spec.Template.Annotations = map[string]string{cluster.PodReadyDelay: time.Hour.String()}
	})
	pods := w.RequireExact("web", m, 15)
	require.Len(w.T, byOwner(pods), 2)
	require.Equal(w.T, testenv.Split{Spot: 10, OnDemand: 5}, w.SplitOf(pods), "each on its own would have 7 and 3, 3 and 2")

	testenv.Patch(w, web, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/app:3"
		d.Spec.Template.Annotations = nil
	})
	w.Eventually("the third revision is out", func() (bool, string) {
		live := w.Live("web")
		third := testenv.Where(live, func(p *corev1.Pod) bool {
			return p.Spec.Containers[0].Image == "example.com/app:3" && testenv.Ready(p)
		})
		return len(live) == 10 && len(third) == 10, w.SplitOf(live).String()
	})
	w.T.Logf("after the rollout: %s", w.Split("web"))
	requireNoSlotTwice(w, record)
	record.RequireOnTheirTypes(m)
}

// requireNoSlotTwice demands that at no event two pods held one slot, of all pods of an app: they are one group.
func requireNoSlotTwice(w *testenv.World, record *testenv.Recording) {
	w.T.Helper()
	record.Replay(func(running map[types.UID]*corev1.Pod) {
		holders := map[int]string{}
		for _, p := range running {
			slot := slotOf(w.T, p)
			require.Empty(w.T, holders[slot], "the other holder of slot %d, beside %s", slot, p.Name)
			holders[slot] = p.Name
		}
	})
}

// rollouts makes the ReplicaSets of an Argo Rollout with two revisions.
func rollouts(w *testenv.World, app string, stable, canary int32, changes ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	r := custom(w, rollout, app, nil)
	for hash, replicas := range map[string]int32{"6f8d": stable, "77bc": canary} {
		const key = "rollouts-pod-template-hash"
		rs := builders.ReplicaSet(app, replicas, append(changes, labeled(key, hash))...)
		rs.Name, rs.OwnerReferences = app+"-"+hash, []metav1.OwnerReference{*controllerRef(w, r)}
		rs.Spec.Selector.MatchLabels = map[string]string{"app": app, key: hash}
		w.Create(rs)
	}
}

// The scheduler does not read Rollouts: its ReplicaSets name the Rollout that owns them.
func TestTheRevisionsOfARolloutMayBeOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("top", 70, 2, grouped(v1alpha1.PodGroupingTop)), builders.CapacityMix("each", 70, 2))
	rollouts(w, "top", 6, 4)
	w.RequireExact("top", m, 10)
	rollouts(w, "each", 6, 4)
	requireEach(w, byOwner(w.WaitBound("each", 10)), 2, m)
}

// nightly makes a CronJob and as many Jobs as its controller would in so many nights, of 3 pods each.
func nightly(w *testenv.World, app string, nights int) {
	w.T.Helper()
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: app}}
	cron.Spec.Schedule, cron.Spec.Suspend = "0 3 * * *", new(true)
	cron.Spec.JobTemplate.Spec = builders.Job(app, 3, batchv1.NonIndexedCompletion).Spec
	w.Create(cron)
	for i := range nights {
		job := builders.Job(app, 3, batchv1.NonIndexedCompletion)
		job.Name, job.OwnerReferences = fmt.Sprintf("%s-%d", app, i), []metav1.OwnerReference{*controllerRef(w, cron)}
		w.Create(job)
	}
}

func TestTheJobsOfACronJobMayBeOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("top", 50, 1, grouped(v1alpha1.PodGroupingTop)), builders.CapacityMix("each", 50, 1))
	nightly(w, "top", 3)
	w.RequireExact("top", m, 9)
	nightly(w, "each", 3)
	requireEach(w, byOwner(w.WaitBound("each", 9)), 3, m)
}

// A kind that the scheduler does not read names no owner above it.
func TestTheHighestOwnerIsTheFirstOneThatIsNotRead(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 0)
	w.Create(builders.CapacityMix("fleet", 50, 0, grouped(v1alpha1.PodGroupingTop)))
	above := custom(w, fleet, "fleet", nil)
	for _, name := range []string{"a", "b"} {
		s := custom(w, gameServerSet, name, above)
		for i := range 3 {
			w.Create(builders.Pod("fleet", fmt.Sprintf("%s-%d", name, i), below(w, s)))
		}
	}
	requireEach(w, byOwner(w.WaitBound("fleet", 6)), 2, m)
}

func TestOwnersWithOneGroupNameAreOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	mix := annotated(70, 2, "api")
	for i := range 4 {
		name := fmt.Sprintf("api-%d", i)
		rs := builders.ReplicaSet("api", 2, labeled("part", name))
		rs.Name, rs.Annotations = name, mix
		rs.Spec.Selector.MatchLabels = map[string]string{"app": "api", "part": name}
		w.Create(rs)
		w.RequireExact("api", m, 2*i+2)
	}
	of := func(group map[string]string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Annotations = group }
	}
	for i := range 2 {
		w.Create(builders.Pod("api", fmt.Sprint("bare-", i), of(mix)))
	}
	w.RequireExact("api", m, 10)
	require.Equal(t, testenv.Split{Spot: 7, OnDemand: 3}, w.Split("api"), "five owners of two pods each would have none on spot")

	// Another name, another mix, or none, is another group.
	for i, other := range []map[string]string{annotated(70, 2, "other"), annotated(50, 0, "api"), annotated(50, 0, "")} {
		app := fmt.Sprint("other-", i)
		for n := range 4 {
			w.Create(builders.Pod(app, fmt.Sprintf("%s-%d", app, n), of(other)))
		}
		percent, floor := int32(50), int32(0)
		if i == 0 {
			percent, floor = 70, 2
		}
		w.RequireExact(app, split.New(percent, floor), 4)
	}
}

// What has no set above it is a group by its direct controller, and bare pods by their mix.
func TestByDefaultEachControllerIsAGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 1)
	podsOf := func(owner client.Object, app string, n int) {
		for i := range n {
			w.Create(builders.Pod(app, fmt.Sprintf("%s-%s-%d", app, owner.GetName(), i), below(w, owner)))
		}
	}
	for kind, create := range map[string]func(app, name string, n int){
		"deployment":  func(app, name string, n int) { w.Create(track(app, name, int32(n))) },
		"statefulset": func(app, name string, n int) { w.Create(statefulTrack(app, name, int32(n))) },
		"job":         func(app, name string, n int) { w.Create(jobTrack(app, name, int32(n))) },
		"cloneset":    func(app, name string, n int) { podsOf(custom(w, cloneSet, app+name, nil), app, n) },
		"raycluster":  func(app, name string, n int) { podsOf(custom(w, rayCluster, app+name, nil), app, n) },
	} {
		w.Create(builders.CapacityMix(kind, 60, 1))
		create(kind, "a", 10)
		create(kind, "b", 4)
		requireEach(w, byOwner(w.WaitBound(kind, 14)), 2, m) // 6 of 10 and 2 of 4
		require.Equal(t, testenv.Split{Spot: 8, OnDemand: 6}, w.Split(kind), kind)
	}
	w.Create(builders.CapacityMix("bare", 60, 1))
	for i := range 14 {
		w.Create(builders.Pod("bare", fmt.Sprint("bare-", i)))
	}
	w.RequireExact("bare", m, 14)
}

func statefulTrack(app, name string, replicas int32) *appsv1.StatefulSet {
	s := builders.StatefulSet(app, replicas, appsv1.ParallelPodManagement, labeled("track", name))
	s.Name = app + "-" + name
	s.Spec.Selector.MatchLabels = map[string]string{"app": app, "track": name}
	return s
}

func jobTrack(app, name string, pods int32) *batchv1.Job {
	j := builders.Job(app, pods, batchv1.IndexedCompletion, labeled("track", name))
	j.Name = app + "-" + name
	return j
}
