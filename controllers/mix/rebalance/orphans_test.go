// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

func requestFor(pod string, uid types.UID, changes ...func(*lifecyclev1alpha1.EvictionRequest)) lifecyclev1alpha1.EvictionRequest {
	r := lifecyclev1alpha1.EvictionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "berth-" + string(uid)}}
	r.Spec = lifecyclev1alpha1.EvictionRequestSpec{
		Requester: "berth.dev/rebalance", Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
		Target: lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: pod, UID: uid}},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// A leader that ends after a move timed out, and before it withdrew the request, leaves nothing of it in the journal.
func TestANewLeaderWithdrawsWhatAnEarlierOneLeft(t *testing.T) {
	p, _ := strayController(t, 0)
	p.journal.restored = true
	kube := &fake.Clientset{}
	var reads int
	var refuse error
	var withdrawn []types.UID
	kube.AddReactor("list", "evictionrequests", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, &lifecyclev1alpha1.EvictionRequestList{Items: []lifecyclev1alpha1.EvictionRequest{
			requestFor("left", "left"), requestFor("moving", "moving"), requestFor("left", "of an earlier pod"), requestFor("gone", "gone"),
			requestFor("of-others", "of-others", func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Requester = "example.com/drain" }),
			requestFor("withdrawn", "withdrawn", func(r *lifecyclev1alpha1.EvictionRequest) {
				r.Spec.Intent = lifecyclev1alpha1.EvictionRequestIntentWithdrawn
			}),
			requestFor("of-another-berth", "of-another-berth"),
			requestFor("of-another-name", "of-another-name", func(r *lifecyclev1alpha1.EvictionRequest) { r.Name = "mine" }),
		}}, refuse
	})
	kube.AddReactor("patch", "evictionrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := lifecyclev1alpha1.EvictionRequest{}
		require.NoError(t, json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &r))
		assert.Equal(t, lifecyclev1alpha1.EvictionRequestIntentWithdrawn, r.Spec.Intent)
		withdrawn = append(withdrawn, r.Spec.Target.Pod.UID)
		return true, &r, nil
	})
	p.Client = kube
	for _, name := range []string{"left", "moving", "of-others", "withdrawn", "of-another-berth", "of-another-name"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
		if pod.Spec.SchedulerName = p.Profile.SchedulerNames[0]; name == "of-another-berth" {
			pod.Spec.SchedulerName = "berth-two"
		}
		p.State.SetPod(pod)
	}
	p.Workloads.Put(rebalance.Entry{
		Group: clusterstate.Group{Key: governing.GroupKey{Namespace: "shop", ID: "db"}},
		Moves: []rebalance.Move{{UID: "moving", Namespace: "shop", Name: "moving", Requested: true}},
	})

	p.asked.sweep(t.Context(), noon)
	assert.Zero(t, reads, "the moves that the journal has are not known before each workload was reconciled")
	p.Workloads.SetComplete()
	p.journal.restored = false
	p.asked.sweep(t.Context(), noon)
	assert.Zero(t, reads, "the journal was not read")
	p.journal.restored, p.journal.partial = true, true
	p.asked.sweep(t.Context(), noon)
	assert.Zero(t, reads, "the journal was not read as a whole")
	p.journal.partial = false
	refuse = errors.New("down")
	p.asked.sweep(t.Context(), noon)
	p.asked.sweep(t.Context(), noon.Add(time.Second))
	assert.Equal(t, 1, reads, "it is tried again, and not at once")
	assert.True(t, p.clusterNow().GraceUntil.IsZero(), "nothing else depends on it")
	refuse = nil
	p.asked.sweep(t.Context(), noon.Add(withdrawAgain))
	assert.Equal(t, []types.UID{"left"}, withdrawn)
	p.asked.sweep(t.Context(), noon.Add(withdrawAgain))
	p.asked.sweep(t.Context(), noon.Add(time.Hour))
	assert.Equal(t, 2, reads, "they are looked for once")
	assert.Len(t, withdrawn, 1)
}

func TestRequestsThatAreNotServedAreNotLookedForAgain(t *testing.T) {
	p, _ := strayController(t, 0)
	p.journal.restored = true
	p.Workloads.SetComplete()
	reads := 0
	kube := &fake.Clientset{}
	kube.AddReactor("list", "evictionrequests", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, nil, apierrors.NewNotFound(lifecyclev1alpha1.Resource("evictionrequests"), "")
	})
	p.Client = kube
	p.asked.sweep(t.Context(), noon)
	p.asked.sweep(t.Context(), noon.Add(time.Hour))
	assert.Equal(t, 1, reads)
}

// Each reconcile waits for one page, and a tenant may have many requests.
func TestRequestsAreReadAPageAtATime(t *testing.T) {
	p, _ := strayController(t, 0)
	p.Namespaces = []string{"bank", "shop"}
	p.journal.restored = true
	p.Workloads.SetComplete()
	var read []string
	kube := &fake.Clientset{}
	kube.AddReactor("list", "evictionrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		token := a.(clienttesting.ListActionImpl).ListOptions.Continue
		read = append(read, a.GetNamespace()+"/"+token)
		list := &lifecyclev1alpha1.EvictionRequestList{}
		switch {
		case token == "1" && len(read) < 3:
			return true, nil, apierrors.NewResourceExpired("too old")
		case token == "":
			list.Continue = "1"
		}
		return true, list, nil
	})
	p.Client = kube
	for range 10 {
		p.asked.sweep(t.Context(), noon)
	}
	assert.Equal(t, []string{"bank/", "bank/1", "bank/", "bank/1", "shop/", "shop/1"}, read)
}
