// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/governing"
)

// leaving is a controller whose ReplicaSet requests two pods and has so many, beside which released ones run.
func leaving(t *testing.T, has, released int) (*fixture, *server) {
	t.Helper()
	p, s := strayController(t, 0)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "rs"}}
	rs.Spec.Replicas = new(int32(2))
	rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)}}
	p.State.SetOwner(rs)
	for i := range has + released {
		name := fmt.Sprintf("web-%d", i)
		pod := podOf("shop", sceneOwner{"apps/v1", "ReplicaSet", "web-1"}, i, 0)
		pod.Name, pod.UID, pod.Labels = name, types.UID(name), map[string]string{"app": "web", "pod-template-hash": "1"}
		pod.OwnerReferences[0].UID, pod.Spec.NodeName = "rs", "spot"
		if i >= has {
			pod.OwnerReferences[0].Controller, pod.Labels = nil, map[string]string{"app": "web"}
			pod.Spec.ActiveDeadlineSeconds = new(int64(3600))
			pod.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value(pod.UID)}
		}
		s.pods[name] = pod
		p.State.SetPod(pod)
	}
	return p, s
}

func (f *fixture) sweep(t *testing.T) {
	t.Helper()
	f.leavers.sweep(t.Context(), governing.GroupKey{Namespace: "shop"})
}

func TestReleasedReplicasGoOnceTheirReplacementsAreAvailable(t *testing.T) {
	p, s := leaving(t, 1, 1)
	p.sweep(t)
	assert.Empty(t, s.evicted, "the replacement is not there yet")

	p, s = leaving(t, 2, 1)
	p.graceEnd = p.Clock.Now().Add(time.Minute)
	p.sweep(t)
	assert.Empty(t, s.evicted, "what the watch has may be old")
	p.Clock.(*clocktesting.FakeClock).Step(time.Minute)
	s.pods["web-0"].Status.Conditions[0].Status = corev1.ConditionFalse
	p.sweep(t)
	assert.Empty(t, s.evicted, "the API server has one that is not Ready")
	s.pods["web-0"].Status.Conditions[0].Status = corev1.ConditionTrue
	p.Clock.(*clocktesting.FakeClock).Step(retireAgain)
	p.sweep(t)
	assert.Equal(t, []string{"web-2"}, s.evicted)
	p.sweep(t)
	assert.Len(t, s.evicted, 1, "the watch still shows it")
}

// The budget of a floor does not allow released replicas to go: a drain could evict another one in their place.
func TestAReleasedReplicaLosesTheLabelOfTheFloorBeforeItGoes(t *testing.T) {
	p, s := leaving(t, 2, 1)
	pod := s.pods["web-2"]
	pod.Labels[v1alpha1.FloorLabel] = governing.FloorLabel(governing.GroupKey{Namespace: "shop", ID: "rs"})
	p.State.SetPod(pod)
	var patches []string
	p.Client.(*fake.Clientset).AddReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		assert.Empty(t, s.evicted, "it is evicted afterwards")
		patches = append(patches, string(a.(clienttesting.PatchAction).GetPatch()))
		after := pod.DeepCopy()
		after.ResourceVersion = "after"
		return true, after, nil
	})
	p.sweep(t)
	for _, a := range p.Client.(*fake.Clientset).Actions() {
		if e, is := a.(clienttesting.CreateAction); is && a.GetSubresource() == "eviction" {
			assert.Equal(t, "after", *e.GetObject().(*policyv1.Eviction).DeleteOptions.Preconditions.ResourceVersion)
		}
	}
	assert.Equal(t, []string{`{"metadata":{"labels":{"berth.dev/floor":null},"resourceVersion":"","uid":"web-2"}}`}, patches)
	assert.Equal(t, []string{"web-2"}, s.evicted)

	p, s = leaving(t, 2, 1)
	pod = s.pods["web-2"]
	pod.Labels[v1alpha1.FloorLabel] = "of another client"
	p.State.SetPod(pod)
	p.Client.(*fake.Clientset).AddReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		assert.Fail(t, "the label of another client stays")
		return true, pod, nil
	})
	p.sweep(t)
	assert.Len(t, s.evicted, 1)
}

func TestASweepIsBounded(t *testing.T) {
	p, s := leaving(t, 2, 3*maxRetired)
	asked := 0
	s.on["evict"] = func() error {
		asked++
		return apierrors.NewTooManyRequestsError("a budget")
	}
	p.sweep(t)
	assert.Equal(t, 1, asked, "the others of the ReplicaSet would be refused as well")
	s.on["evict"] = nil
	p.sweep(t)
	assert.Len(t, s.evicted, maxRetired, "and the one that was refused waits")
	assert.NotContains(t, s.evicted, "web-2")
	p.sweep(t)
	assert.Len(t, s.evicted, 2*maxRetired)
}

func TestNoReplicaIsEvictedThatIsNotReleasedAnyMore(t *testing.T) {
	p, s := leaving(t, 2, 1)
	adopted := s.pods["web-2"].DeepCopy()
	adopted.OwnerReferences[0].Controller = new(true)
	s.pods["web-2"] = adopted // and the watch does not show that yet
	p.sweep(t)
	assert.Empty(t, s.evicted)
}

func TestReleasedReplicasStayWhileNothingIsKnown(t *testing.T) {
	p, s := leaving(t, 2, 1)
	s.on["list"] = func() error { return errors.New("no") }
	p.sweep(t)
	assert.Empty(t, s.evicted)
	p.DryRun = true
	s.on["list"] = nil
	p.sweep(t)
	assert.Empty(t, s.evicted, "nothing is evicted with --dry-run")
	p.DryRun = false
	p.Clock.(*clocktesting.FakeClock).Step(retireAgain)
	p.State.DeleteOwner("rs")
	p.sweep(t)
	assert.Len(t, s.evicted, 1, "no other one comes")
}

// A tenant may make many ReplicaSets that request nothing, and mark pods as released from them.
func TestRefusedEvictionsAreBoundedAndBackOff(t *testing.T) {
	p, s := leaving(t, 2, 3*maxRetired)
	for _, pod := range s.pods {
		if pods.Leaves(pod) {
			pod.OwnerReferences[0].UID = "of-" + pod.UID
			pod.Annotations[v1alpha1.ReleasedAnnotation] = pods.Release{ReplicaSet: "of-" + pod.UID, Group: "x"}.Value(pod.UID)
			p.State.SetPod(pod)
		}
	}
	asked := 0
	s.on["evict"] = func() error {
		asked++
		return apierrors.NewTooManyRequestsError("a budget")
	}
	for range 10 {
		p.sweep(t)
	}
	assert.Equal(t, 3*maxRetired, asked, "each once")
	p.Clock.(*clocktesting.FakeClock).Step(retireAgain)
	p.sweep(t)
	assert.Equal(t, 4*maxRetired, asked)
}
