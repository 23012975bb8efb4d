// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/test/clitest"
)

func leaseOf(holder string, renewed time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: clitest.Now.Add(-renewed)},
		},
	}
}

func schedulerPod(args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler-7d9-x2x4z"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "berth-scheduler", Args: args}}},
	}
}

const holder = "berth-scheduler-7d9-x2x4z_1b671a64-40d5-491e-99b0-da01ff1f3341"

func TestTheLeaderIsThePodThatHoldsTheLease(t *testing.T) {
	for want, args := range map[string][]string{
		"port 10260 of pod berth-system/berth-scheduler-7d9-x2x4z": {"--config=x"},
		"port 4711 of pod berth-system/berth-scheduler-7d9-x2x4z":  {"--config=x", "--decisions-bind-address=127.0.0.1:4711"},
	} {
		l := &leaders{
			kube:      fake.NewClientset(leaseOf(holder, time.Second), schedulerPod(args...)),
			lease:     types.NamespacedName{Namespace: "berth-system", Name: "berth-scheduler"},
			namespace: "berth-system", now: clitest.Now,
		}
		at, err := l.leader(t.Context(), &rest.Config{})
		require.NoError(t, err)
		assert.Equal(t, want, at.name)
		assert.False(t, at.verified)
	}
}

func TestPodsThatMayNotBeReadHaveThePortOfTheManifests(t *testing.T) {
	kube := fake.NewClientset(leaseOf(holder, time.Second))
	kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	l := &leaders{kube: kube, lease: types.NamespacedName{Namespace: "berth-system", Name: "berth-scheduler"}, namespace: "berth-system", now: clitest.Now}
	at, err := l.leader(t.Context(), &rest.Config{})
	require.NoError(t, err)
	assert.Equal(t, "port 10260 of pod berth-system/berth-scheduler-7d9-x2x4z", at.name)
}

func TestWithoutALeaderTheErrorNamesTheLease(t *testing.T) {
	lease := types.NamespacedName{Namespace: "berth-system", Name: "berth-scheduler"}
	for want, c := range map[string]struct {
		lease   types.NamespacedName
		objects []runtime.Object
	}{
		"no leader election, so its pod is not known: use --scheduler-address":                               {},
		"no berth-scheduler leads: lease berth-system/berth-scheduler does not exist":                        {lease: lease},
		"no berth-scheduler leads: lease berth-system/berth-scheduler has no holder":                         {lease: lease, objects: []runtime.Object{leaseOf("", time.Second)}},
		"no berth-scheduler leads: lease berth-system/berth-scheduler of a_b was last renewed 3m ago":        {lease: lease, objects: []runtime.Object{leaseOf("a_b", 3*time.Minute)}},
		"runs on laptop, which is not a pod of namespace berth-system: use --scheduler-address, or --system": {lease: lease, objects: []runtime.Object{leaseOf("laptop_1b671a64", time.Second)}},
	} {
		l := &leaders{kube: fake.NewClientset(c.objects...), lease: c.lease, namespace: "berth-system", now: clitest.Now}
		_, err := l.leader(t.Context(), &rest.Config{})
		require.ErrorContains(t, err, want)
	}
	kube := fake.NewClientset()
	kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("leases is forbidden")
	})
	_, err := (&leaders{kube: kube, lease: lease}).leader(t.Context(), &rest.Config{})
	assert.EqualError(t, err, "find the leading berth-scheduler, or name it with --scheduler-address: leases is forbidden")
}
