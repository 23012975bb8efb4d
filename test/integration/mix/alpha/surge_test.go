// SPDX-License-Identifier: Apache-2.0

package alpha_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	lifecycleapply "k8s.io/client-go/applyconfigurations/lifecycle/v1alpha1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var surge = builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)

// standIn writes what the controllers of Kubernetes 1.38 write about a request, for a pod of a namespace: Berth is the responder in a state.
// test/evictions has these controllers.
type standIn struct {
	*testenv.World
	namespace, name string
}

// newEviction is an Eviction in a namespace that names a pod.
func newEviction(w *testenv.World, namespace string, p *corev1.Pod) standIn {
	w.T.Helper()
	s := standIn{w, namespace, "pod-1-" + p.Name}
	e := &lifecyclev1alpha1.Eviction{ObjectMeta: metav1.ObjectMeta{
		Name:   s.name,
		Labels: map[string]string{v1alpha1.EvictionResponder: string(lifecyclev1alpha1.EvictionParticipantRoleResponder)},
	}}
	e.Spec.Target.Pod = &lifecyclev1alpha1.EvictionPodReference{Name: p.Name, UID: p.UID}
	_, err := w.Kube.LifecycleV1alpha1().Evictions(namespace).Create(w.Ctx, e, metav1.CreateOptions{})
	require.NoError(w.T, err)
	return s
}

// set has Berth be the responder in a state, and the imperative eviction follow it.
func (s standIn) set(state lifecyclev1alpha1.ResponderStateType, failed bool) {
	s.T.Helper()
	const evictor = lifecyclev1alpha1.EvictionResponderImperativeEviction
	started := metav1.Now()
	if now := s.get(); len(now.Status.Responders) > 0 {
		started = *answerIn(now).StartTime
	}
	status := lifecycleapply.EvictionStatus().WithObservedGeneration(1).WithTargetResponders(
		lifecycleapply.TargetResponder().WithName(v1alpha1.EvictionResponder).WithPriority(v1alpha1.EvictionResponderPriority).WithState(state),
		lifecycleapply.TargetResponder().WithName(evictor).WithPriority(100).WithState(lifecyclev1alpha1.ResponderStateInactive),
	).WithResponders(
		lifecycleapply.ResponderStatus().WithName(v1alpha1.EvictionResponder).WithStartTime(started), lifecycleapply.ResponderStatus().WithName(evictor),
	)
	if failed {
		status.WithConditions(metav1apply.Condition().WithType(string(lifecyclev1alpha1.EvictionConditionFailed)).WithStatus(metav1.ConditionTrue).
			WithReason("CanceledDueToNoRequesters").WithMessage("").WithLastTransitionTime(started))
	}
	_, err := s.Kube.LifecycleV1alpha1().Evictions(s.namespace).ApplyStatus(s.Ctx,
		lifecycleapply.Eviction(s.name, s.namespace).WithStatus(status), metav1.ApplyOptions{FieldManager: "stand-in", Force: true})
	require.NoError(s.T, err)
}

func (s standIn) get() *lifecyclev1alpha1.Eviction {
	s.T.Helper()
	e, err := s.Kube.LifecycleV1alpha1().Evictions(s.namespace).Get(s.Ctx, s.name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return e
}

// answerIn is what Berth has answered.
func answerIn(e *lifecyclev1alpha1.Eviction) *lifecyclev1alpha1.ResponderStatus {
	for i := range e.Status.Responders {
		if r := &e.Status.Responders[i]; r.Name == v1alpha1.EvictionResponder {
			return r
		}
	}
	return &lifecyclev1alpha1.ResponderStatus{}
}

// record returns what Berth has answered since then, without the gaps of polling.
func (s standIn) record() (answers func() []lifecyclev1alpha1.ResponderStatus) {
	s.T.Helper()
	all := s.Kube.LifecycleV1alpha1().Evictions(s.namespace)
	events, err := toolswatch.NewRetryWatcherWithContext(s.Ctx, s.get().ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
			return all.Watch(ctx, o)
		},
	})
	require.NoError(s.T, err)
	s.T.Cleanup(events.Stop)
	var mu sync.Mutex
	var seen []lifecyclev1alpha1.ResponderStatus
	go func() {
		for e := range events.ResultChan() {
			if now, is := e.Object.(*lifecyclev1alpha1.Eviction); is {
				mu.Lock()
				seen = append(seen, *answerIn(now))
				mu.Unlock()
			}
		}
	}()
	return func() []lifecyclev1alpha1.ResponderStatus {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// waitCompleted waits until Berth has completed its part.
func (s standIn) waitCompleted(words string) {
	s.T.Helper()
	s.Eventually("Berth has completed its part", func() (bool, string) {
		a := answerIn(s.get())
		if a.Message == nil {
			return false, ""
		}
		return a.CompletionTime != nil, *a.Message
	})
	assert.Contains(s.T, *answerIn(s.get()).Message, words)
}

func released(w *testenv.World, app string) int {
	return len(testenv.Where(w.Live(app), func(p *corev1.Pod) bool { _, is := pods.ReleasedFrom(p); return is }))
}

func namesBerth(p *corev1.Pod) bool {
	return len(p.Spec.EvictionResponders) == 1 && p.Spec.EvictionResponders[0].Name == v1alpha1.EvictionResponder
}

func TestARequestIsAnsweredWithASurge(t *testing.T) {
	const replicas = 4
	w := newWorld(t, testenv.Roomy()...)
	w.Webhook()
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", replicas, builders.ReadyAfter(2*time.Second)))
	w.Create(builders.CapacityMix("plain", 50, 0), builders.Deployment("plain", 2))
	list, plain := w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout), w.WaitReady("plain", 2)
	require.True(t, namesBerth(&list[0]))
	assert.Empty(t, plain[0].Spec.EvictionResponders, "its strategy is Evict")
	recording := w.Record("web")
	e := newEviction(w, w.Namespace, &list[0])
	answers := e.record()
	e.set(lifecyclev1alpha1.ResponderStateActive, false)
	recording.WaitPod("the pod is released", "web", func(p *corev1.Pod) bool { _, is := pods.ReleasedFrom(p); return is && p.UID == list[0].UID })
	w.Eventually("the Eviction has the answer before Berth has completed its part", func() (bool, string) {
		all := answers()
		return slices.ContainsFunc(all, func(a lifecyclev1alpha1.ResponderStatus) bool {
			return a.HeartbeatTime != nil && a.CompletionTime == nil
		}), fmt.Sprint(all)
	})
	e.waitCompleted("The pod terminates")
	assert.Equal(t, replicas+1, recording.MostAtOnce(), "replicas at once: the pod runs beside its replacement")
	w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout)
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.Len(t, w.EvictionsOf("web"), 1)

	other := newEviction(w, w.Namespace, &plain[0])
	other.set(lifecyclev1alpha1.ResponderStateActive, false)
	other.waitCompleted("rebalance.strategy is Evict")
	used := w.RightsUsedBy(cluster.BerthControllerUser)
	for _, right := range []string{"get", "list", "watch"} {
		assert.True(t, used[right+" lifecycle.k8s.io/evictions"], right)
	}
	assert.True(t, used["patch lifecycle.k8s.io/evictions/status"])
	assert.Empty(t, w.RefusedHere(cluster.BerthControllerUser))
}

// Who can write Evictions in a namespace decides about no pod of another one, and about none that does not name Berth. One that was
// withdrawn before anything was released releases nothing.
func TestForgedAndWithdrawnRequestsReleaseNothing(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("plain", 50, 0, surge), builders.Deployment("plain", 2))
	unnamed := w.WaitReady("plain", 2)
	assert.Empty(t, unnamed[0].Spec.EvictionResponders, "there was no webhook")
	c := w.Webhook()
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", 4))
	list := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	testenv.End(c, true)

	newEviction(w, "default", &list[0]).set(lifecyclev1alpha1.ResponderStateActive, false)
	newEviction(w, w.Namespace, &unnamed[0]).set(lifecyclev1alpha1.ResponderStateActive, false)
	withdrawn := newEviction(w, w.Namespace, &list[1])
	withdrawn.set(lifecyclev1alpha1.ResponderStateActive, false)
	withdrawn.set(lifecyclev1alpha1.ResponderStateCanceled, true)
	w.Controller(testenv.Impatient)
	w.Always(testenv.Holds, "nothing is released", func() (bool, string) {
		return released(w, "web")+released(w, "plain") == 0 && len(w.Live("web")) == 4 && len(w.Live("plain")) == 2, ""
	})
	assert.Nil(t, answerIn(withdrawn.get()).HeartbeatTime)
	assert.Zero(t, w.Evicted())
}

func TestBerthAnswersForItselfAlone(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.Create(builders.Deployment("web", 1))
	e := newEviction(w, w.Namespace, &w.WaitReady("web", 1)[0])
	e.set(lifecyclev1alpha1.ResponderStateActive, false)
	now := e.get()
	config, err := w.Cluster.ConfigFor(cluster.BerthControllerUser)
	require.NoError(t, err)
	berth, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	apply := func(status *lifecycleapply.EvictionStatusApplyConfiguration) error {
		_, err := berth.LifecycleV1alpha1().Evictions(w.Namespace).ApplyStatus(w.Ctx, lifecycleapply.Eviction(e.name, w.Namespace).WithStatus(status),
			metav1.ApplyOptions{FieldManager: "berth", Force: true})
		return err
	}
	answer := lifecycleapply.ResponderStatus().WithName(v1alpha1.EvictionResponder).WithHeartbeatTime(metav1.Now())
	require.NoError(t, apply(lifecycleapply.EvictionStatus().WithResponders(answer)))
	requester := lifecycleapply.Requester().WithName("example.com/drain").WithIntent(lifecyclev1alpha1.RequesterIntentWithdrawn)
	require.ErrorContains(t, apply(lifecycleapply.EvictionStatus().WithResponders(answer).WithRequesters(requester)), "berth-controller-evictions")

	for requester, refusal := range map[string]string{v1alpha1.EvictionRequester: "", "example.com/drain": "berth-controller-eviction-requests"} {
		target := lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: now.Spec.Target.Pod.Name, UID: now.Spec.Target.Pod.UID}}
		r := &lifecyclev1alpha1.EvictionRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: lifecyclev1alpha1.EvictionRequestSpec{
			Target: target, Requester: requester, Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
		}}
		_, err := berth.LifecycleV1alpha1().EvictionRequests(w.Namespace).Create(w.Ctx, r, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refusal == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, refusal)
	}
}
