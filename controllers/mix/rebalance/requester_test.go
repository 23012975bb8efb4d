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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/rebalance"
)

// requests is a requester with the requests that it has written.
func requests() (q *requester, written *[]lifecyclev1alpha1.EvictionRequest, refuse *error) {
	written, refuse = &[]lifecyclev1alpha1.EvictionRequest{}, new(error)
	kube := &fake.Clientset{}
	kube.AddReactor("patch", "evictionrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := lifecyclev1alpha1.EvictionRequest{}
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &r); err != nil {
			return true, nil, err
		}
		*written = append(*written, r)
		return true, &r, *refuse
	})
	o := &Options{Client: kube, Clock: clocktesting.NewFakeClock(noon)}
	return &requester{
		Options: o, api: &calls{Options: o, outage: func(time.Time) {}}, left: map[types.UID]withdrawal{}, orphans: orphans{done: true},
	}, written, refuse
}

func TestAMoveIsRequestedAndWithdrawn(t *testing.T) {
	q, written, refuse := requests()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "u"}}
	require.NoError(t, q.request(t.Context(), pod))
	require.Len(t, *written, 1)
	r := (*written)[0]
	assert.Equal(t, "shop/berth-u", r.Namespace+"/"+r.Name)
	assert.Equal(t, lifecyclev1alpha1.EvictionRequestSpec{
		Target:    lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: "db-0", UID: "u"}},
		Requester: "berth.dev/rebalance", Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
	}, r.Spec)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db-0", UID: "u"}}, r.OwnerReferences, "it ends with the pod")

	move := rebalance.Move{UID: "u", Namespace: "shop", Name: "db-0", Requested: true}
	q.withdraw(t.Context(), []rebalance.Ending{{Move: move, Outcome: rebalance.Succeeded}, {Move: rebalance.Move{UID: "v"}, Outcome: rebalance.TimedOut}})
	require.Len(t, *written, 1)
	*refuse = errors.New("no")
	q.withdraw(t.Context(), []rebalance.Ending{{Move: move, Outcome: rebalance.TimedOut}})
	require.Len(t, *written, 2)
	assert.Equal(t, lifecyclev1alpha1.EvictionRequestIntentWithdrawn, (*written)[1].Spec.Intent)
	q.sweep(t.Context(), noon.Add(time.Second))
	require.Len(t, *written, 2, "not at once")
	*refuse = nil
	q.sweep(t.Context(), noon.Add(10*time.Second))
	require.Len(t, *written, 3, "it is tried again")
	q.sweep(t.Context(), noon.Add(time.Minute))
	require.Len(t, *written, 3)

	*refuse = errors.New("no")
	q.withdraw(t.Context(), []rebalance.Ending{{Move: move, Outcome: rebalance.TimedOut}})
	q.sweep(t.Context(), noon.Add(2*time.Hour))
	assert.Empty(t, q.left, "it is not tried forever")
}
