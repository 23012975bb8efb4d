// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/test/plugintest"
)

// try runs a pod through PreFilter.
func (f *fixture) try(pods ...*corev1.Pod) {
	for _, p := range pods {
		_, _ = f.plugin.PreFilter(f.Ctx, framework.NewCycleState(), p, nil)
	}
}

// woken is what the last change wakes, at once or after the pause of the namespace.
func (f *fixture) woken(t *testing.T) (pods map[string]int) {
	t.Helper()
	require.Eventually(t, func() bool { pods = f.Activated.Take(); return len(pods) > 0 }, 10*time.Second, time.Millisecond)
	return pods
}

func TestAChangedLimitWakesThePodsThatHaveIt(t *testing.T) {
	t.Parallel()
	missing, above, selected, other, none := pod("missing", "huge"), pod("above", "small"), pod("selected", ""), pod("other", "large"), pod("none", "")
	selected.Labels = map[string]string{"app": "web"}
	elsewhere := pod("elsewhere", "shared")
	elsewhere.Namespace = "else"
	f := newFixture(t, defaultArgs(), missing, above, selected, other, none, elsewhere)
	small, web := limit("shop", "small", cpu("500m")), limit("shop", "web", cpu("500m"))
	web.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, l := range []*v1alpha1.ResourceLimit{small, web, limit("shop", "large", cpu("2"))} {
		f.set(l)
	}
	f.try(missing, above, selected, other, none, elsewhere)
	require.Empty(t, f.Activated.Take())

	f.set(limit("shop", "huge"))
	assert.Equal(t, map[string]int{"shop/missing": 1}, f.woken(t), "the limit that it names appeared")
	f.set(next(small, cpu("1")))
	assert.Equal(t, map[string]int{"shop/above": 1}, f.woken(t), "the limit was raised; the other pod is on its way already")
	f.try(missing, above)
	status := next(small, cpu("1"))
	status.Status.PodCount = 7
	f.set(status)
	assert.Empty(t, f.Activated.Take(), "a status is no change")
	f.plugin.limitHandler().OnDelete(cache.DeletedFinalStateUnknown{Obj: web})
	assert.Equal(t, map[string]int{"shop/selected": 1}, f.woken(t), "nothing selects it any more")
	f.try(selected)
	f.set(limit("sizes", "shared"))
	assert.Equal(t, map[string]int{"else/elsewhere": 1}, f.woken(t), "the default namespace concerns all")
	f.try(elsewhere)
	f.set(limit("else", "shared"))
	assert.Equal(t, map[string]int{"else/elsewhere": 1}, f.woken(t), "one of its own namespace goes before")
}

func TestPodsThatDoNotWaitAreForgotten(t *testing.T) {
	t.Parallel()
	bound, gone, replaced := pod("bound", "huge"), pod("gone", "huge"), pod("replaced", "huge")
	f := newFixture(t, defaultArgs(), bound, gone, replaced)
	f.try(bound, gone, replaced, pod("unknown", "huge"))
	assert.Len(t, f.plugin.waiting.byNamespace["shop"], 3, "one that the cache does not have would never be forgotten")

	h := f.plugin.podHandler()
	onNode := bound.DeepCopy()
	onNode.Spec.NodeName = "n"
	h.OnUpdate(bound, onNode)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: gone})
	anew := replaced.DeepCopy()
	anew.UID = types.UID("anew")
	h.OnUpdate(replaced, anew)

	assert.Empty(t, f.plugin.waiting.byNamespace)
	f.set(limit("shop", "huge"))
	assert.Empty(t, f.Activated.Take())
}

func TestAPodIsWokenByItsAnnotation(t *testing.T) {
	t.Parallel()
	waits := pod("waits", "")
	waits.Annotations = map[string]string{v1alpha1.ResourceLimitLabel: "huge"}
	f := newFixture(t, defaultArgs(), waits)
	f.try(waits)
	changed := waits.DeepCopy()
	changed.Annotations["example.com/x"] = "y"
	f.plugin.podHandler().OnUpdate(waits, changed)
	assert.Empty(t, f.Activated.Take())
	resized := changed.DeepCopy()
	resized.Annotations[v1alpha1.ResourceLimitLabel] = "large"
	f.plugin.podHandler().OnUpdate(changed, resized)
	assert.Equal(t, map[string]int{"shop/waits": 1}, f.woken(t))
	f.plugin.podHandler().OnUpdate(resized, changed)
	assert.Empty(t, f.Activated.Take(), "it is on its way already")
}

// A tenant who changes a limit, or the annotations of pods, all the time has the pods of a namespace tried no more often than their
// back-off. A limit of the default namespace concerns all others, none of which is delayed by another one.
func TestLimitsThatChangeAllTheTimeWakePodsRarely(t *testing.T) {
	for name, changes := range map[string]func(w *waiting, pods []*corev1.Pod){
		"a limit of the namespace":     func(w *waiting, _ []*corev1.Pod) { w.wake("many"); w.wake("few") },
		"one of the default namespace": func(w *waiting, _ []*corev1.Pod) { w.wake("") },
		"annotations": func(w *waiting, pods []*corev1.Pod) {
			for _, p := range pods {
				w.change(p)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var generation atomic.Int64
				woken := &plugintest.Activated{}
				now := func(*corev1.Pod) registry.Resolution {
					return registry.Resolution{Missing: fmt.Sprint(generation.Load())}
				}
				w := newWaiting(func(pods map[string]*corev1.Pod) { woken.Activate(klog.Logger{}, pods) }, now)
				var pods []*corev1.Pod
				for namespace, n := range map[string]int{"many": 1000, "few": 1} {
					for i := range n {
						p := pod(fmt.Sprint(i), "huge")
						p.Namespace, p.UID = namespace, types.UID(namespace+p.Name)
						pods = append(pods, p)
					}
				}
				for range 600 { // ten a second, for a minute
					for _, p := range pods {
						w.put(p, now(p))
					}
					generation.Add(1)
					changes(w, pods)
					time.Sleep(100 * time.Millisecond)
				}
				synctest.Wait()
				many, few := woken.In("many"), woken.In("few")
				assert.LessOrEqual(t, many, 7*1000)
				assert.GreaterOrEqual(t, many, 5*1000)
				assert.Equal(t, 600, few, "one pod is tried again at each change")
				time.Sleep(time.Minute)
			})
		})
	}
}

// A pod that was tried with a new size, or does not wait any more, when the pause ends is not woken.
func TestAPodThatWasTriedMeanwhileIsNotWoken(t *testing.T) {
	var w *waiting
	p := pod("a", "huge")
	missing, exists := registry.Resolution{Missing: "shop/huge"}, registry.Resolution{Limit: &registry.Compiled{}}
	for name, meanwhile := range map[string]func(){
		"tried":     func() { w.put(p, exists) },
		"forgotten": func() { w.forget(p) },
	} {
		t.Run(name, func(t *testing.T) {
			activated := false
			w = newWaiting(func(map[string]*corev1.Pod) { activated = true }, func(*corev1.Pod) registry.Resolution {
				meanwhile()
				return exists
			})
			w.put(p, missing)
			w.wake("shop")
			assert.False(t, activated)
		})
	}
}

// The queue's object is older than the cache's where the wake-up came first.
func TestTheNewestObjectDeterminesTheSizeOfAPod(t *testing.T) {
	t.Parallel()
	known := pod("a", "large")
	f := newFixture(t, defaultArgs(), known)
	f.set(limit("shop", "large"))
	stale := pod("a", "huge")
	got := f.plugin.sizeOf(stale)
	require.NotNil(t, got.Limit)
	assert.Equal(t, "shop/large", got.Limit.Key)
}

func TestPodsAreHeldUntilTheLimitsAreKnown(t *testing.T) {
	t.Parallel()
	p := pod("a", "large")
	c := plugintest.NewCluster(t, nil, p)
	created, err := NewFactory()(c.Ctx, defaultArgs(), c.Handle(t))
	require.NoError(t, err)
	pl := created.(*ResourceLimit)
	assert.Equal(t, ErrReasonNotSynced, pl.PreEnqueue(c.Ctx, p).Message())
	_, status := pl.PreFilter(c.Ctx, framework.NewCycleState(), p, nil)
	require.EqualError(t, status.AsError(), ErrReasonNotSynced, "it does not wait")
	assert.Empty(t, c.Activated.Pods())
	c.Start()
	require.Eventually(t, func() bool { return c.Activated.Pods()["shop/a"] == 1 }, 10*time.Second, time.Millisecond)
	assert.Nil(t, pl.PreEnqueue(c.Ctx, p))
	_, status = pl.PreFilter(c.Ctx, framework.NewCycleState(), p, nil)
	assert.Equal(t, `ResourceLimit "shop/large" does not exist`, status.Message())
}
