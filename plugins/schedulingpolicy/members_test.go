// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func phase(is corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = is } }

func ofKind(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = apiVersion, kind }
}

func ofJob(p *corev1.Pod) { ofKind("batch/v1", "Job")(p) }

func ofReplicaSet(p *corev1.Pod) { ofKind("apps/v1", "ReplicaSet")(p) }

// replicas has the ReplicaSet of the pods make a number of them.
func (f *fixture) replicas(t *testing.T, n int32) {
	t.Helper()
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}, Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
	require.NoError(t, f.Informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Update(rs))
	f.plugin.ownerHandler().OnUpdate(rs, rs)
}

func (f *fixture) job(t *testing.T, completions, parallelism int32) {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	job.Spec.Completions, job.Spec.Parallelism = &completions, &parallelism
	require.NoError(t, f.Informers.Batch().V1().Jobs().Informer().GetIndexer().Update(job))
}

func TestAMemberWaitsForWhatItsControllerMakesOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(t *testing.T, f *fixture)
		of   func(*corev1.Pod)
		want fwk.Code
	}{
		"the last of a Job is a replacement": {func(t *testing.T, f *fixture) {
			f.job(t, 4, 4)
			f.SetPods(t, pod("a", "n00", ofJob, phase(corev1.PodSucceeded)), pod("b", "n00", ofJob, phase(corev1.PodSucceeded)),
				pod("c", "n00", ofJob, phase(corev1.PodSucceeded)), pod("d", "n00", ofJob, phase(corev1.PodFailed)))
		}, ofJob, fwk.Success},
		"of a Job one succeeded, one failed and no other is there": {func(t *testing.T, f *fixture) {
			f.job(t, 4, 4)
			f.SetPods(t, pod("a", "n00", ofJob, phase(corev1.PodSucceeded)), pod("b", "n00", ofJob, phase(corev1.PodFailed)))
		}, ofJob, fwk.Wait},
		"a Job runs fewer at once": {func(t *testing.T, f *fixture) {
			f.job(t, 8, 2)
			f.SetPods(t, pod("a", "n00", ofJob))
		}, ofJob, fwk.Success},
		"a ReplicaSet of a rollout has fewer": {func(t *testing.T, f *fixture) {
			f.replicas(t, 1)
		}, ofReplicaSet, fwk.Success},
		"a ReplicaSet has them all": {func(t *testing.T, f *fixture) {
			f.replicas(t, 4)
		}, ofReplicaSet, fwk.Wait},
		"pods that were deleted do not count": {func(t *testing.T, f *fixture) {
			f.SetPods(t, pod("a", "n00"), pod("b", "n00"), pod("c", "n00", deleted))
		}, ofReplicaSet, fwk.Wait},
		"pods of other controllers and namespaces do not count": {func(t *testing.T, f *fixture) {
			f.SetPods(t, pod("a", "n00", controller("db")), pod("b", "n00", func(p *corev1.Pod) { p.Namespace = "other" }), pod("c", ""))
		}, ofReplicaSet, fwk.Wait},
		"bound pods count": {func(t *testing.T, f *fixture) {
			f.SetPods(t, pod("a", "n00"), pod("b", "n00", phase(corev1.PodRunning)), pod("c", "n01"))
		}, ofReplicaSet, fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := grouped(t, 4)
			test.set(t, f)
			f.permit(t, "x", test.want, test.of)
		})
	}
}

// Members that are tried at different times would miss each other for as long as their back-offs are longer than they wait.
func TestTheFirstThatWaitsWakesItsGroup(t *testing.T) {
	t.Parallel()
	f, _ := grouped(t, 3)
	f.SetPods(t, pod("a", ""), pod("b", ""), pod("c", ""), pod("bound", "n00"), pod("gone", "", deleted), pod("other", "", controller("db")))
	woken := func(want map[string]int, message string) {
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, f.Activated.Pods()) }, time.Minute, time.Millisecond, message)
	}
	first := f.permit(t, "a", fwk.Wait)
	woken(map[string]int{"shop/b": 1, "shop/c": 1}, "those without a node, and not the one that waits")
	f.framework.RunReservePluginsUnreserve(f.Ctx, first.state, first.pod, first.node)
	f.permit(t, "b", fwk.Wait)
	woken(map[string]int{"shop/a": 1, "shop/b": 1, "shop/c": 2}, "the first of each attempt wakes the others")
}

// The members of a group by a label can have several controllers, some of which are created later, so that what one of them makes at
// once is no bound; those that have succeeded do not come again.
func TestAGroupByALabelEndsWithItsJob(t *testing.T) {
	t.Parallel()
	labeled := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{key: "a"} }
	}
	member := func(name, key string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, "n00", append(change, ofJob, labeled(key))...)
	}
	for name, test := range map[string]struct {
		key         string
		parallelism int32
		succeeded   int32
		pods        []string
		want        fwk.Code
	}{
		"all but one have succeeded, and their pods were deleted": {"team", 6, 5, nil, fwk.Success},
		"two have succeeded, and three run":                       {"team", 6, 2, []string{"a", "b", "c"}, fwk.Success},
		"one has succeeded, and three run":                        {"team", 6, 1, []string{"a", "b", "c"}, fwk.Wait},
		"another controller may follow":                           {"team", 4, 0, []string{"a", "b", "c"}, fwk.Wait},
		"the label is of one Job":                                 {batchv1.JobNameLabel, 4, 0, []string{"a", "b", "c"}, fwk.Success},
		"the label is of one Job, of which fewer are there":       {batchv1.ControllerUidLabel, 4, 0, []string{"a", "b"}, fwk.Wait},
		"the label is of another kind of controller":              {appsv1.DefaultDeploymentUniqueLabelKey, 4, 0, []string{"a", "b", "c"}, fwk.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := grouped(t, 6, groupLabel(test.key))
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
			job.Spec.Completions, job.Spec.Parallelism, job.Status.Succeeded = ptr.To[int32](6), &test.parallelism, test.succeeded
			require.NoError(t, f.Informers.Batch().V1().Jobs().Informer().GetIndexer().Update(job))
			for _, name := range test.pods {
				f.SetPods(t, member(name, test.key))
			}
			f.permit(t, "x", test.want, ofJob, labeled(test.key))
		})
	}
}

// The message of a group that its controller cannot complete names the controller.
func TestAGroupThatWaitsForOtherControllersNamesItsOwn(t *testing.T) {
	t.Parallel()
	f, _ := grouped(t, 6, groupLabel("team"))
	f.job(t, 6, 4)
	a := f.permit(t, "a", fwk.Wait, ofJob, team("a"))
	assert.Equal(t, ErrReasonIncomplete+": group team=a: 1 of 6 members are here, groupSize is 6; Job web creates 4 at once, "+
		"and the group waits for pods of other controllers", f.plugin.incomplete(read(a.state), a.pod))
	f.job(t, 6, 6)
	assert.Equal(t, ErrReasonIncomplete+": group team=a: 1 of 6 members are here, groupSize is 6", f.plugin.incomplete(read(a.state), a.pod))
}

func TestAGroupWaitsForTheReplicasOfAReplicationController(t *testing.T) {
	t.Parallel()
	f, _ := grouped(t, 4)
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	set := func(n int32) {
		rc = rc.DeepCopy()
		rc.Spec.Replicas = &n
		require.NoError(t, f.Informers.Core().V1().ReplicationControllers().Informer().GetIndexer().Update(rc))
		f.plugin.ownerHandler().OnUpdate(rc, rc)
	}
	set(3)
	of := ofKind("v1", "ReplicationController")
	a, b := f.permit(t, "a", fwk.Wait, of), f.permit(t, "b", fwk.Wait, of)
	set(2)
	require.True(t, a.waited(t).IsSuccess())
	require.True(t, b.waited(t).IsSuccess())
	foreign := f.permit(t, "c", fwk.Wait, ofKind("example.com/v1", "ReplicationController"), controller("other"))
	assert.Contains(t, f.plugin.incomplete(read(foreign.state), foreign.pod), "1 of 4 members")
}

// What is bound or made later completes a group that waits already.
func TestAGroupThatWaitsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *fixture){
		"another scheduler binds a member": func(t *testing.T, f *fixture) { f.SetPods(t, pod("other", "n00")) },
		"the controller makes fewer":       func(t *testing.T, f *fixture) { f.replicas(t, 2) },
		"a policy selects the members anew": func(t *testing.T, f *fixture) {
			f.Cluster.SetPods(t, pod("other", "n00"))
			f.plugin.policiesChanged("shop")
		},
		"a member succeeded before it is new": func(t *testing.T, f *fixture) { f.SetPods(t, pod("other", "n00", phase(corev1.PodSucceeded))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := grouped(t, 3)
			f.replicas(t, 3)
			a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Wait)
			change(t, f)
			require.True(t, a.waited(t).IsSuccess())
			require.True(t, b.waited(t).IsSuccess())
		})
	}
}

// The census is as a scan of all pods, whatever comes and goes.
func TestTheCensusFollowsThePods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, pods := newCensus(), map[string]*corev1.Pod{}
		keyOf := func(p *corev1.Pod) string { return p.Labels["group"] }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "pod"))
			if old := pods[id]; old != nil && rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
				c.set(old, "")
				delete(pods, id)
				continue
			}
			p := pod("pod-"+id, rapid.SampledFrom([]string{"", "n00", "n01"}).Draw(t, "node"))
			p.UID = types.UID(id)
			p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"Pending", "Running", "Succeeded", "Failed"}).Draw(t, "phase")
			p.Labels = map[string]string{"group": rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group")}
			if rapid.IntRange(0, 5).Draw(t, "terminating") == 0 {
				p.DeletionTimestamp = &metav1.Time{}
			}
			pods[id] = p
			c.set(p, keyOf(p))
		}
		for _, key := range []string{"a", "b"} {
			want, succeeded := sets.New("prepared"), 0
			for _, p := range pods {
				switch {
				case keyOf(p) != key || !counts(p):
				case p.Status.Phase == corev1.PodSucceeded:
					succeeded++
				default:
					want.Insert(p.Name)
				}
			}
			c.with(key, []string{"prepared"}, func(got *settled, n int) {
				require.Equal(t, want.Len(), got.Len())
				for name := range want {
					require.True(t, got.Has(name))
				}
				require.Equal(t, succeeded, n)
			})
		}
	})
}

func TestAGroupNeedsNoMoreThanItsControllerMakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size, completions := rapid.IntRange(2, 100).Draw(t, "size"), rapid.IntRange(1, 100).Draw(t, "completions")
		parallelism, succeeded := rapid.IntRange(1, 100).Draw(t, "parallelism"), rapid.IntRange(0, completions).Draw(t, "succeeded")
		n := needed(size, crew{atOnce: parallelism, inAll: completions}, succeeded)
		require.GreaterOrEqual(t, n, 1)
		require.LessOrEqual(t, n, size)
		require.LessOrEqual(t, n, parallelism)
		require.LessOrEqual(t, n, max(1, completions-succeeded), "so many are still made")
		require.Equal(t, size, needed(size, unbounded, 0))
	})
}

func TestIndexesThatFailedForGoodAreNotMade(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "3": 1, "1,3-5,7": 5, "0-9": 10, "x,5-3,2-": 0} {
		assert.Equal(t, want, indexes(text), text)
	}
	job := &batchv1.Job{}
	job.Spec.Completions, job.Spec.Parallelism = ptr.To[int32](8), ptr.To[int32](4)
	job.Status.FailedIndexes, job.Status.Succeeded = new("0,2-3"), 3
	assert.Equal(t, crew{atOnce: 4, inAll: 5, succeeded: 3}, crewOfJob(job))
}

func FuzzIndexes(f *testing.F) {
	f.Add("1,3-5,7")
	f.Fuzz(func(_ *testing.T, text string) { indexes(text) })
}

func TestAnOrderedStatefulSetMakesOnePodAtATime(t *testing.T) {
	t.Parallel()
	set := &appsv1.StatefulSet{}
	set.Spec.Replicas, set.Spec.PodManagementPolicy = ptr.To[int32](5), appsv1.OrderedReadyPodManagement
	assert.Equal(t, 1, needed(4, crewOfSet(set), 0))
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	assert.Equal(t, 4, needed(4, crewOfSet(set), 0))
}

// A member costs the same in a namespace with 5,000 bound pods and 100 policies as in an empty one: pods are counted when they
// change, and no cycle lists them.
func TestAMemberCostsTheSameInAFullNamespace(t *testing.T) {
	f, _ := grouped(t, 4)
	cost := func() float64 {
		x := pod("x", "")
		return testing.AllocsPerRun(20, func() {
			state := framework.NewCycleState()
			_, status := f.plugin.PreFilter(f.Ctx, state, x, nil)
			require.True(t, status.IsSkip())
			_, _ = f.plugin.Permit(f.Ctx, state, x, "n00")
			f.plugin.Unreserve(f.Ctx, state, x, "n00")
		})
	}
	empty := cost()
	fill(t, f, 5_000, 0)
	assert.InDelta(t, empty, cost(), 3)

	f.Cluster.SetPods(t, pod("unseen-1", "n00"), pod("unseen-2", "n00"), pod("unseen-3", "n00"))
	f.permit(t, "y", fwk.Wait) // it would be complete if the pods were listed
}

// fill adds bound pods of other workloads, and policies with the largest selectors.
func fill(tb testing.TB, f *fixture, pods, policies int) {
	tb.Helper()
	for i := range pods {
		f.SetPods(tb, pod(fmt.Sprint("bound-", i), "n00", controller(types.UID(fmt.Sprint("owner-", i/50))), team("a")))
	}
	for i := range policies {
		p := policy(twoPhase(4))
		p.Name, p.UID, p.CreationTimestamp = fmt.Sprint("policy-", i), types.UID(fmt.Sprint("policy-", i)), metav1.Now()
		for k := range 16 {
			r := v1alpha1.PodSelectorRequirement{Key: fmt.Sprint("key-", k), Operator: v1alpha1.PodSelectorOpNotIn}
			for v := range 32 {
				r.Values = append(r.Values, fmt.Sprint("value-", v))
			}
			p.Spec.PodSelector.MatchExpressions = append(p.Spec.PodSelector.MatchExpressions, r)
		}
		p.Spec.PodSelector.MatchExpressions = append(p.Spec.PodSelector.MatchExpressions,
			v1alpha1.PodSelectorRequirement{Key: "none", Operator: v1alpha1.PodSelectorOpExists})
		f.set(p)
	}
}

func BenchmarkAMemberOfAGroup(b *testing.B) {
	for _, size := range []int{0, 5_000} {
		b.Run(fmt.Sprint("pods=", size), func(b *testing.B) {
			f := newFixture(b, noArgs(), fleetOf(2)...)
			p := &preparations{}
			f.plugin.preparer = func() (preparer, bool) { return p, true }
			fill(b, f, size, 100)
			f.set(policy(twoPhase(4)))
			x := pod("x", "")
			require.NotNil(b, f.plugin.governorOf(x))
			b.ReportAllocs()
			for b.Loop() {
				state := framework.NewCycleState()
				_, _ = f.plugin.PreFilter(f.Ctx, state, x, nil)
				_, _ = f.plugin.Permit(f.Ctx, state, x, "n00")
				f.plugin.Unreserve(f.Ctx, state, x, "n00")
			}
		})
	}
}
