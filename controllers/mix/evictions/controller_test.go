// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/evictions"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/builders"
)

// stage is a controller with one pod of a mix, and what it has written.
type stage struct {
	*Controller
	kube    *fake.Clientset
	answers []lifecyclev1alpha1.ResponderStatus
	changed []governing.GroupKey
	// refuse is the answer of the API server to a write, nil where it takes it; there is the Eviction that it has.
	refuse error
	there  *lifecyclev1alpha1.Eviction
}

func newStage(t *testing.T) *stage {
	t.Helper()
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	mixes := governing.NewRegistry()
	cm := builders.CapacityMix("web", 50, 0)
	cm.Namespace = "shop"
	require.NoError(t, mixes.Set(cm))
	s := &stage{kube: fake.NewClientset(), there: active("web", "w")}
	s.kube.PrependReactor("patch", "evictions", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if s.refuse != nil {
			return true, nil, s.refuse
		}
		e := &lifecyclev1alpha1.Eviction{}
		patch := a.(clienttesting.PatchAction)
		if err := json.Unmarshal(patch.GetPatch(), e); err != nil {
			return true, nil, err
		}
		own := e.Status.Responders[0]
		s.answers = append(s.answers, own)
		written := s.there.DeepCopy()
		own.StartTime = written.Status.Responders[0].StartTime
		written.Status.Responders[0] = own
		s.there = written
		return true, written, nil
	})
	s.kube.PrependReactor("get", "evictions", func(clienttesting.Action) (bool, runtime.Object, error) {
		if s.there == nil {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "evictions"}, "e")
		}
		return true, s.there, nil
	})
	s.Controller = New(Options{
		State: clusterstate.New(clusterstate.Options{
			Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: mixes,
		}),
		Client: s.kube, Clock: clock.RealClock{}, Synced: func() (string, bool) { return "", true }, Served: NewServed(nil),
		Changed: func(key governing.GroupKey) { s.changed = append(s.changed, key) },
	})
	s.State.SetPod(podOf("web", "w"))
	return s
}

// podOf is a pod of a ReplicaSet that names Berth.
func podOf(app, uid string) *corev1.Pod {
	template := builders.PodTemplate(app)
	p := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.Namespace, p.Name, p.UID, p.Spec.NodeName = "shop", app, types.UID(uid), "node"
	p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "1"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	p.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: v1alpha1.EvictionResponder, Priority: new(int32(5000))}}
	return p
}

// active is an Eviction of a pod for which Berth is active from now on.
func active(pod, uid string) *lifecyclev1alpha1.Eviction {
	e := &lifecyclev1alpha1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-1-" + pod, UID: "e"}}
	e.Spec.Target.Pod = &lifecyclev1alpha1.EvictionPodReference{Name: pod, UID: types.UID(uid)}
	e.Status.ObservedGeneration = new(int64(1))
	e.Status.TargetResponders = []lifecyclev1alpha1.TargetResponder{{Name: v1alpha1.EvictionResponder, State: lifecyclev1alpha1.ResponderStateActive}}
	e.Status.Responders = []lifecyclev1alpha1.ResponderStatus{{Name: v1alpha1.EvictionResponder, StartTime: new(metav1.Now())}}
	return e
}

// handle answers what is in the queue for a time.
func (s *stage) handle(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		for s.queue.Len() > 0 {
			key, _ := s.queue.Get()
			if err := s.reconcile(ctx, key); err != nil {
				s.queue.AddRateLimited(key)
			}
			s.queue.Done(key)
			synctest.Wait()
		}
		if !time.Now().Before(end) {
			return
		}
		time.Sleep(min(time.Second, time.Until(end)))
	}
}

func (s *stage) last() lifecyclev1alpha1.ResponderStatus { return s.answers[len(s.answers)-1] }

func TestARequestIsAnsweredUntilThePodIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.queue.ShutDown()
		s.set(s.there)
		assert.Equal(t, []governing.GroupKey{{Namespace: "shop", ID: "rs"}}, s.changed, "its workload is reconciled")
		assert.Equal(t, map[types.UID]time.Time{"w": time.Now()}, s.Of("shop"))
		assert.Nil(t, s.Of("other"))
		s.handle(t.Context(), 0)
		require.Len(t, s.answers, 1)
		assert.Contains(t, *s.last().Message, "about to be released")

		s.Decided("shop", "w", evictions.Fate{State: evictions.Waiting, Why: "a rollout is in progress"})
		s.handle(t.Context(), time.Minute)
		require.Len(t, s.answers, 2)
		assert.Contains(t, *s.last().Message, "a rollout is in progress")

		released := podOf("web", "w")
		released.OwnerReferences[0].Controller = nil
		released.OwnerReferences = append(released.OwnerReferences, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)})
		released.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: "w/rs/rs"}
		released.Spec.ActiveDeadlineSeconds = new(int64(3600))
		s.State.SetPod(released)
		s.PodsChanged("shop")
		s.PodsChanged("other")
		s.handle(t.Context(), time.Minute)
		require.Len(t, s.answers, 3, "not after the next heartbeat only")
		assert.Contains(t, *s.last().Message, "was released")
		s.handle(t.Context(), 30*time.Minute)
		assert.Contains(t, *s.last().Message, "was released")
		assert.Nil(t, s.last().CompletionTime, "nobody else goes on")
		assert.LessOrEqual(t, len(s.answers), 2+7, "an answer every five minutes")
		assert.GreaterOrEqual(t, len(s.answers), 2+6)

		s.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "web"}, "w")
		s.PodsChanged("shop")
		s.handle(t.Context(), time.Second)
		assert.NotNil(t, s.last().CompletionTime)
		assert.Nil(t, s.Of("shop"))
		before := len(s.answers)
		s.handle(t.Context(), time.Hour)
		assert.Len(t, s.answers, before, "nothing is written any more")
	})
}

// A pod may be released, evicted and gone before anything is decided about its request.
func TestAPodThatIsGoneAtOnceIsNoneThatWasNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.queue.ShutDown()
		s.set(s.there)
		s.handle(t.Context(), 0)
		s.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "web"}, "w")
		s.PodsChanged("shop")
		s.handle(t.Context(), time.Second)
		require.NotNil(t, s.last().CompletionTime)
		assert.Contains(t, *s.last().Message, "terminates")
	})
}

func TestAPodThatIsNeverSeenIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.queue.ShutDown()
		s.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "web"}, "w")
		s.set(s.there)
		s.handle(t.Context(), 59*time.Second)
		assert.Nil(t, s.last().CompletionTime, "the watch may be behind")
		s.handle(t.Context(), 2*time.Second)
		assert.NotNil(t, s.last().CompletionTime)
		assert.Contains(t, *s.last().Message, "not found")
	})
}

func TestWhatIsNotReleasedIsPassedOnAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*stage)
		why    string
	}{
		"a reason":          {func(s *stage) { s.Decided("shop", "w", evictions.Fate{State: evictions.Refused, Why: "a pause"}) }, "a pause"},
		"a dry run":         {func(s *stage) { s.SetDryRun(true) }, "dry-run"},
		"another namespace": {func(s *stage) { s.Namespaces = []string{"other"} }, "namespace"},
		"no mix":            {func(s *stage) { s.State.Mixes.Delete("shop", "web") }, "no mix"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				defer s.queue.ShutDown()
				s.set(s.there)
				c.before(s)
				s.handle(t.Context(), 0)
				require.Len(t, s.answers, 1)
				assert.NotNil(t, s.last().CompletionTime)
				assert.Contains(t, *s.last().Message, c.why)
			})
		})
	}
}

func TestAWithdrawalEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.queue.ShutDown()
		s.set(s.there)
		s.handle(t.Context(), 0)
		pod := podOf("web", "w")
		require.NoError(t, s.Confirm(t.Context(), pod))
		withdrawn := s.there.DeepCopy()
		withdrawn.Status.TargetResponders[0].State = lifecyclev1alpha1.ResponderStateCanceled
		s.there = withdrawn
		err := s.Confirm(t.Context(), pod)
		assert.Equal(t, rebalance.ReasonStaleView, rebalance.ObstacleOf(err).Reason, "before the watch has shown it")
		s.set(evictions.Trimmed(withdrawn))
		assert.Nil(t, s.Of("shop"))
		written := len(s.answers)
		s.handle(t.Context(), time.Hour)
		assert.Len(t, s.answers, written)
	})
}

// The watch may show a withdrawal before the answer to a write arrives, which is older.
func TestAnAnswerBringsBackNoRequest(t *testing.T) {
	s := newStage(t)
	defer s.queue.ShutDown()
	s.set(s.there)
	key := types.NamespacedName{Namespace: s.there.Namespace, Name: s.there.Name}
	s.answered(key, s.there)
	require.NotNil(t, s.Of("shop"))
	withdrawn := s.there.DeepCopy()
	withdrawn.Status.TargetResponders[0].State = lifecyclev1alpha1.ResponderStateCanceled
	s.set(withdrawn)
	s.answered(key, s.there)
	assert.Nil(t, s.Of("shop"))
}

// Who may write the status of Evictions in a namespace decides about no other pods.
func TestARequestIsConfirmedForItsOwnPod(t *testing.T) {
	s := newStage(t)
	defer s.queue.ShutDown()
	s.set(s.there)
	require.NoError(t, s.Confirm(t.Context(), podOf("web", "w")))
	elsewhere := podOf("web", "w")
	elsewhere.Namespace = "other"
	unnamed := podOf("web", "w")
	unnamed.Spec.EvictionResponders = nil
	for name, p := range map[string]*corev1.Pod{
		"a pod of another namespace": elsewhere, "a pod that does not name Berth": unnamed,
		"a successor of the same name": podOf("web", "successor"), "another pod": podOf("other", "w"),
	} {
		assert.Error(t, s.Confirm(t.Context(), p), name)
	}
	s.there = nil
	assert.Error(t, s.Confirm(t.Context(), podOf("web", "w")), "it was deleted")
}

func TestTheMemoryForRequestsIsBounded(t *testing.T) {
	s := newStage(t)
	defer s.queue.ShutDown()
	add := func(namespace string, n int) {
		e := active("p", "")
		e.Namespace, e.Name, e.UID = namespace, fmt.Sprint("e", n), types.UID(fmt.Sprint("e", n))
		e.Spec.Target.Pod.UID = types.UID(fmt.Sprint(n))
		s.set(e)
	}
	for n := range 2 * maxRequests {
		add("shop", n)
	}
	add("other", 1)
	assert.Len(t, s.Of("shop"), maxRequests)
	assert.Len(t, s.Of("other"), 1, "another namespace has its own")
	for n := range 2 * maxRequests {
		s.remove(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("e", n)})
	}
	s.remove(types.NamespacedName{Namespace: "other", Name: "e1"})
	assert.Equal(t, newTable(), s.table, "nothing is left")
}

func TestARefusedAnswerIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.queue.ShutDown()
		s.refuse = errors.New("no")
		s.set(s.there)
		s.handle(t.Context(), time.Minute)
		assert.Empty(t, s.answers)
		s.refuse = nil
		s.handle(t.Context(), 2*time.Minute)
		assert.NotEmpty(t, s.answers)
		s.refuse = apierrors.NewNotFound(schema.GroupResource{Resource: "evictions"}, "e")
		s.handle(t.Context(), 6*time.Minute)
		assert.Nil(t, s.Of("shop"), "it is gone")
	})
}

// lister answers discovery.
type lister struct {
	list *metav1.APIResourceList
	err  error
}

func (l lister) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return l.list, l.err
}

func TestWhereEvictionsAreServed(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "lifecycle.k8s.io/v1alpha1")
	for name, c := range map[string]struct {
		lister
		served, fails bool
	}{
		"1.36, or the gate is off": {lister{nil, notFound}, false, false},
		"no answer":                {lister{nil, errors.New("no")}, false, true},
		"another kind":             {lister{&metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "evictionrequests"}}}, nil}, false, false},
		"served":                   {lister{&metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "evictions"}, {Name: "evictions/status"}}}, nil}, true, false},
	} {
		served, err := NewServed(c.lister).look(t.Context())
		assert.Equal(t, c.served, served, name)
		assert.Equal(t, c.fails, err != nil, name)
	}
}

// later is the discovery of an API server that has Evictions after some looks, of which the first one fails.
type later struct{ looks, servedAt int }

func (l *later) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	l.looks++
	switch {
	case l.looks == 1:
		return nil, errors.New("no answer")
	case l.looks < l.servedAt:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "lifecycle.k8s.io/v1alpha1")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "evictions/status"}}}, nil
}

// The API may be turned on while the controller runs: no restart is needed, and nothing is watched before.
func TestEvictionsThatAreServedLaterAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, api := newStage(t), &later{servedAt: 3}
		s.Served = NewServed(api)
		assert.False(t, s.Served.NeedLeaderElection(), "the webhooks of all replicas depend on it")
		ctx, cancel := context.WithCancel(t.Context())
		ended, begins := make(chan error, 2), make(chan bool, 1)
		go func() { ended <- s.Served.Start(ctx) }()
		go func() { begins <- s.Served.await(ctx) }()
		synctest.Wait()
		assert.False(t, s.Served.Is())
		assert.Empty(t, begins)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		assert.True(t, s.Served.Is())
		assert.True(t, <-begins)
		require.NoError(t, <-ended, "it is over")
		time.Sleep(time.Hour)
		assert.Equal(t, 3, api.looks)
		cancel()
		s.queue.ShutDown()
	})
}
