// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// server is an API server of pods.
type server struct {
	pods map[string]*corev1.Pod
	// on is called before a request is answered, by its verb; what it returns is the answer if it is not nil.
	on      map[string]func() error
	evicted []string
	quotas  []corev1.ResourceQuota
}

// allowAll has a fake API server have no quotas and no limit ranges.
func allowAll(c *fake.Clientset) {
	c.AddReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ResourceQuotaList{}, nil
	})
	c.AddReactor("list", "limitranges", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.LimitRangeList{}, nil })
}

// roomy has free capacity for every pod.
type roomy struct{}

func (roomy) Fits(context.Context, simulation.Question) (simulation.Answer, error) {
	return simulation.Answer{Fits: true, Node: "spot"}, nil
}
func (roomy) Assume(*corev1.Pod, string) {}
func (roomy) Domains(simulation.Question, simulation.Holder, []simulation.Holder) simulation.Domains {
	return simulation.Domains{}
}
func (roomy) Close() {}

// strayController has a workload whose pods run on on-demand and belong on spot.
func strayController(t *testing.T, pods int, change ...func(*v1alpha1.CapacityMix)) (*fixture, *server) {
	t.Helper()
	p := testController(t, capacityMix(append(change, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{StabilizationSeconds: new(int32(0)), MaxConcurrent: new(int32(10))}
	})...))
	s := &server{pods: map[string]*corev1.Pod{}, on: map[string]func() error{}}
	p.Client, p.Grace = s.client(), 30*time.Second
	p.proof.take = func(context.Context) (snapshot, error) { return roomy{}, nil }
	spot := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "spot", Labels: map[string]string{"karpenter.sh/capacity-type": "spot"}}}
	spot.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: cpu("100"), corev1.ResourceMemory: cpu("100Gi"), corev1.ResourcePods: cpu("100")}
	p.State.SetNode(spot)
	for i := range pods {
		pod := podOf("shop", sceneOwner{"clone.example/v1", "CloneSet", "web"}, i, 0)
		pod.Spec.NodeName = "on-demand"
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	return p, s
}

var strayKey = governing.GroupKey{Namespace: "shop", ID: "shop-web"}

func (s *server) client() *fake.Clientset {
	c := &fake.Clientset{}
	c.AddReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ResourceQuotaList{Items: s.quotas}, nil
	})
	allowAll(c)
	answer := func(verb string, of func(clienttesting.Action) (runtime.Object, error)) clienttesting.ReactionFunc {
		return func(a clienttesting.Action) (bool, runtime.Object, error) {
			if on := s.on[verb]; on != nil {
				if err := on(); err != nil {
					return true, nil, err
				}
			}
			o, err := of(a)
			return true, o, err
		}
	}
	c.AddReactor("get", "pods", answer("get", func(a clienttesting.Action) (runtime.Object, error) {
		if p := s.pods[a.(clienttesting.GetAction).GetName()]; p != nil {
			return p.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), "gone")
	}))
	c.AddReactor("list", "pods", answer("list", func(clienttesting.Action) (runtime.Object, error) {
		list := &corev1.PodList{}
		for _, p := range s.pods {
			list.Items = append(list.Items, *p)
		}
		return list, nil
	}))
	c.AddReactor("create", "pods", answer("evict", func(a clienttesting.Action) (runtime.Object, error) {
		s.evicted = append(s.evicted, a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction).Name)
		return nil, nil
	}))
	return c
}

func (p *fixture) reasonOf(t *testing.T, pod string) *rebalance.Reason {
	t.Helper()
	e, known := p.Workloads.Get(strayKey)
	require.True(t, known)
	for _, s := range e.Group.Assignments {
		if h, held := e.Held[string(s.Pod.UID)]; held && (pod == "" || s.Pod.Name == pod) {
			return h.Verdict.Reason
		}
	}
	return e.Verdict.Reason
}

// D11: an outage that is noticed between a decision and its eviction.
func TestAnOutageThatIsNoticedDuringADecisionStopsIt(t *testing.T) {
	for _, verb := range []string{"get", "list"} {
		t.Run(verb, func(t *testing.T) {
			p, s := strayController(t, 4)
			s.on[verb] = func() error {
				p.Clock.(*clocktesting.FakeClock).Step(40 * time.Second)
				p.Outage(p.Clock.Now()) // the informers notices it
				s.on[verb] = nil
				return nil
			}
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			assert.Equal(t, rebalance.ReasonStartupGrace, p.reasonOf(t, ""))

			p.Clock.(*clocktesting.FakeClock).Step(29 * time.Second)
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			p.Clock.(*clocktesting.FakeClock).Step(2 * time.Second)
			p.reconcile(t, "shop")
			assert.Len(t, s.evicted, 4)
		})
	}
}

func TestAStormThatBeginsDuringADecisionStopsIt(t *testing.T) {
	p, s := strayController(t, 4)
	p.storm = rebalance.NewStorm(rebalance.StormSettings{SharePercent: 20, MinNodes: 2, Window: time.Minute, Quiet: 2 * time.Minute})
	s.on["get"] = func() error {
		p.NodeLeft(interrupted("a", 3))
		p.NodeLeft(interrupted("b", 2))
		return nil
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonStorm, p.reasonOf(t, ""))
}

// interrupted is the loss of a spot node.
func interrupted(name string, staying int) clusterstate.Departure {
	return clusterstate.Departure{Name: name, Type: sp, Cause: capacity.Interruption, Staying: staying}
}

// An autoscaler that removes nodes has no need of them: nothing has to wait for it.
func TestNodesThatAnAutoscalerRemovesAreNoStorm(t *testing.T) {
	p, _ := strayController(t, 4)
	p.storm = rebalance.NewStorm(rebalance.StormSettings{SharePercent: 20, MinNodes: 2, Window: time.Minute, Quiet: 2 * time.Minute})
	for i, cause := range []capacity.Cause{capacity.Autoscaler, capacity.Maintenance, capacity.Health, capacity.Autoscaler} {
		p.NodeLeft(clusterstate.Departure{Name: fmt.Sprint(i), Type: sp, Cause: cause, Staying: 3 - i})
	}
	assert.False(t, p.Workloads.Storm())
}

func TestAStormBeginsWithoutADecision(t *testing.T) {
	p, s := strayController(t, 4)
	p.storm = rebalance.NewStorm(rebalance.StormSettings{SharePercent: 20, MinNodes: 2, Window: time.Minute, Quiet: 2 * time.Minute})
	p.NodeLeft(interrupted("a", 3))
	assert.False(t, p.Workloads.Storm())
	p.NodeLeft(interrupted("b", 2))
	assert.True(t, p.Workloads.Storm(), "the metric has it at once")
	p.Clock.(*clocktesting.FakeClock).Step(90 * time.Second)
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonStorm, p.reasonOf(t, ""), "the first decision comes after the window in which the nodes left")
}

func TestACallThatIsNotAnsweredStartsTheGraceAgain(t *testing.T) {
	for _, verb := range []string{"get", "list"} {
		t.Run(verb, func(t *testing.T) {
			p, s := strayController(t, 4)
			s.on[verb] = func() error { return context.DeadlineExceeded }
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			s.on[verb] = nil
			p.Clock.(*clocktesting.FakeClock).Step(p.Grace - time.Second)
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			e, _ := p.Workloads.Get(strayKey)
			assert.Equal(t, rebalance.ReasonStartupGrace, e.Verdict.Reason)

			p.Clock.(*clocktesting.FakeClock).Step(time.Second)
			p.reconcile(t, "shop")
			p.drain(t) // a pod that was not evicted is a replica again
			assert.Empty(t, s.evicted, "the first answer starts it once more: the API server may be back since this moment only")
			p.Clock.(*clocktesting.FakeClock).Step(p.Grace)
			p.reconcile(t, "shop")
			assert.NotEmpty(t, s.evicted)
		})
	}
}

// S4: what no watch has shown.
func TestAStaleViewEvictsNothing(t *testing.T) {
	for name, change := range map[string]func(*server){
		"a replica was deleted":        func(s *server) { delete(s.pods, "web-3") },
		"a replica is being deleted":   func(s *server) { s.pods["web-3"].DeletionTimestamp = &metav1.Time{Time: noon} },
		"a replica is not Ready":       func(s *server) { s.pods["web-3"].Status.Conditions[0].Status = corev1.ConditionFalse },
		"a replica was made meanwhile": func(s *server) { p := s.pods["web-3"].DeepCopy(); p.Name, p.UID = "web-9", "new"; s.pods["web-9"] = p },
	} {
		t.Run(name, func(t *testing.T) {
			p, s := strayController(t, 4)
			for name := range s.pods {
				s.pods[name] = s.pods[name].DeepCopy() // the cluster state keeps what it was shown
			}
			change(s)
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			assert.Equal(t, rebalance.ReasonStaleView, p.reasonOf(t, ""))
		})
	}
}

// The answer to an eviction was lost: it may have been carried out.
func TestAnEvictionWithoutAnAnswerIsOnTheMoveUntilItIsKnown(t *testing.T) {
	p, s := strayController(t, 4)
	p.Grace = 0
	s.on["evict"] = func() error { return context.DeadlineExceeded }
	p.reconcile(t, "shop")
	e, _ := p.Workloads.Get(strayKey)
	require.Len(t, e.Moves, 1)
	assert.Equal(t, 4, e.Had)
	assert.Equal(t, noon.Add(rebalance.Unseen), p.queue.At(strayKey))

	p.Clock.(*clocktesting.FakeClock).Step(rebalance.Unseen)
	p.reconcile(t, "shop")
	p.drain(t) // which it has requested
	e, _ = p.Workloads.Get(strayKey)
	assert.Empty(t, e.Moves, "the pod lives, so nothing was moved")
	assert.Equal(t, int32(1), e.Failures, "but it was an attempt")
	p.Clock.(*clocktesting.FakeClock).SetTime(e.RetryAt)
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(strayKey)
	assert.Len(t, e.Moves, 1, "the next attempt")
}

// L6: a quota that was lowered below what runs.
func TestNothingIsEvictedThatAQuotaWouldNotLetComeBack(t *testing.T) {
	p, s := strayController(t, 4)
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: cpu("3")}
	q.Status.Used = corev1.ResourceList{corev1.ResourcePods: cpu("4")}
	s.quotas = []corev1.ResourceQuota{q}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonQuota, p.reasonOf(t, ""))

	s.quotas[0].Spec.Hard[corev1.ResourcePods] = cpu("4")
	p.Clock.(*clocktesting.FakeClock).Step(rebalance.HoldRefused)
	p.reconcile(t, "shop")
	assert.Len(t, s.evicted, 4)
}

func TestUnanswered(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, fmt.Errorf("list: %w", &url.Error{Op: "Get", Err: context.DeadlineExceeded}), apierrors.NewTimeoutError("slow", 1),
		apierrors.NewServerTimeout(corev1.Resource("pods"), "get", 1), apierrors.NewServiceUnavailable("no"),
	} {
		assert.True(t, unanswered(err), "%v", err)
	}
	for _, err := range []error{nil, errors.New("no"), apierrors.NewTooManyRequests("budget", 1), apierrors.NewForbidden(corev1.Resource("pods"), "p", nil), apierrors.NewConflict(corev1.Resource("pods"), "p", nil)} {
		assert.False(t, unanswered(err), "%v", err)
	}
}

// FitAll implements snapshot.
func (s roomy) FitAll(ctx context.Context, all []simulation.Question) ([]simulation.Answer, error) {
	return eachFits(ctx, s, all)
}
