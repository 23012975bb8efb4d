// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/render"
)

func terminated(id string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ContainerID: id}
}

func podWith(name string, deleting bool, s corev1.ContainerStatus) corev1.Pod {
	p := podOf("shop", "backend", name)
	s.Name = "backend"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
	if deleting {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(30))
	}
	return *p
}

func TestTheContainersThatEndAreFound(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want []string
	}{
		"runs":      {podWith("p", false, corev1.ContainerStatus{ContainerID: "1", State: running}), nil},
		"ended":     {podWith("p", false, corev1.ContainerStatus{ContainerID: "1", State: corev1.ContainerState{Terminated: terminated("1")}}), []string{"1"}},
		"restarted": {podWith("p", false, corev1.ContainerStatus{ContainerID: "2", State: running, LastTerminationState: corev1.ContainerState{Terminated: terminated("1")}}), []string{"1 previous"}},
		"ended again": {podWith("p", false, corev1.ContainerStatus{
			ContainerID: "2", State: corev1.ContainerState{Terminated: terminated("2")}, LastTerminationState: corev1.ContainerState{Terminated: terminated("1")},
		}), []string{"1 previous", "2"}},
		"waits to be restarted": {podWith("p", false, corev1.ContainerStatus{
			ContainerID: "1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: corev1.ContainerState{Terminated: terminated("1")},
		}), []string{"1 previous"}},
		"is deleted":        {podWith("p", true, corev1.ContainerStatus{ContainerID: "1", State: running}), []string{"1 follow"}},
		"was never started": {podWith("p", true, corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}), nil},
	} {
		var got []string
		for _, e := range endings([]corev1.Pod{c.pod}) {
			text := e.id
			if e.previous {
				text += " previous"
			}
			if e.follow {
				text += " follow"
				assert.Equal(t, logTimeout+30*time.Second, e.timeout())
			}
			got = append(got, text)
		}
		assert.Equal(t, c.want, got, name)
	}
}

// keeper keeps logs in a cluster whose kubelets return texts by the ID of the container, or errors.
func keeper(t *testing.T, funcs interceptor.Funcs, open OpenLog) (*endedLogs, func() map[string][]byte) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(funcs).Build()
	return newEndedLogs(c, c, open), func() map[string][]byte {
		secret := &corev1.Secret{}
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "env-shop", Name: endedlogs.Secret}, secret)
		require.NoError(t, client.IgnoreNotFound(err))
		if err == nil {
			assert.Equal(t, render.Labels(environmentOf("shop")), secret.Labels)
			assert.Equal(t, corev1.SecretTypeOpaque, secret.Type)
		}
		return secret.Data
	}
}

func ended(name, id string) corev1.Pod {
	return podWith(name, false, corev1.ContainerStatus{ContainerID: id, State: corev1.ContainerState{Terminated: terminated(id)}})
}

func inShop() *v1alpha1.Environment {
	e := environmentOf("shop")
	e.Status.Namespace = "env-shop"
	return e
}

// All that end at once are kept, once, though their writes conflict.
func TestTheLogsOfContainersThatEndAreKept(t *testing.T) {
	reads := make(chan string, 100)
	l, data := keeper(t, interceptor.Funcs{}, func(_ context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		reads <- pod
		assert.True(t, o.Timestamps)
		assert.EqualValues(t, 10, *o.TailLines)
		return io.NopCloser(strings.NewReader("2026-11-26T12:00:00Z bye of " + pod + "\n")), nil
	})
	var pods []corev1.Pod
	for i := range 5 {
		pods = append(pods, ended(fmt.Sprint("p", i), fmt.Sprint("c://", i)))
	}
	require.Eventually(t, func() bool {
		l.observe(t.Context(), inShop(), pods, 10)
		return len(data()) == 5
	}, 10*time.Second, 10*time.Millisecond)
	assert.Equal(t, "2026-11-26T12:00:00Z bye of p3\n", string(data()[endedlogs.Key("backend", "c://3")]))
	l.observe(t.Context(), inShop(), pods, 10)
	next := newEndedLogs(l.client, l.live, l.open) // a new leader
	for i := range pods {
		require.NoError(t, next.keep(t.Context(), inShop(), &endings(pods)[i], 10))
	}
	assert.Len(t, reads, 5, "each is read once")
	require.Eventually(t, func() bool { return len(l.readers) == 0 }, 10*time.Second, 10*time.Millisecond)
	assert.Len(t, l.seen[client.ObjectKeyFromObject(inShop())], 5)
	l.observe(t.Context(), inShop(), pods[:1], 10)
	assert.Len(t, l.seen[client.ObjectKeyFromObject(inShop())], 1, "what no longer exists is forgotten")
	l.forget(client.ObjectKeyFromObject(inShop()))
	assert.Empty(t, l.seen)
}

// The reconciliation that found a container goes on while its log is read.
func TestALogIsKeptForTheEnvironmentAsItWas(t *testing.T) {
	opened, changed := make(chan struct{}), make(chan struct{})
	l, data := keeper(t, interceptor.Funcs{}, func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		close(opened)
		<-changed
		return io.NopCloser(strings.NewReader("2026-11-26T12:00:00Z bye\n")), nil
	})
	env := inShop()
	l.observe(t.Context(), env, []corev1.Pod{ended("p", "c://1")}, 10)
	<-opened
	env.Name, env.Status = "another", v1alpha1.EnvironmentStatus{}
	close(changed)
	require.Eventually(t, func() bool { return len(data()) == 1 }, 10*time.Second, 10*time.Millisecond)
}

func TestALogThatCannotBeReadIsReadAgain(t *testing.T) {
	fails := make(chan error, 1)
	fails <- errors.New("the node does not answer")
	l, data := keeper(t, interceptor.Funcs{}, func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		select {
		case err := <-fails:
			return nil, err
		default:
			return io.NopCloser(strings.NewReader("2026-11-26T12:00:00Z bye\n")), nil
		}
	})
	pods := []corev1.Pod{ended("p", "c://1")}
	require.Eventually(t, func() bool {
		l.observe(t.Context(), inShop(), pods, 10)
		return len(data()) == 1
	}, 10*time.Second, 10*time.Millisecond)
}

// Nothing is read where nothing is kept, and nothing is written where there is nothing to keep or no place for it.
func TestLogsThatAreNotKept(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	answers := map[string]error{"gone": apierrors.NewNotFound(resource, "p"), "not started": apierrors.NewBadRequest("waiting"), "empty": nil}
	for name, answer := range answers {
		l, data := keeper(t, interceptor.Funcs{}, func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("")), answer
		})
		require.NoError(t, l.keep(t.Context(), inShop(), &endings([]corev1.Pod{ended("p", "c://1")})[0], 10), name)
		assert.Empty(t, data(), name)
	}
	off, _ := keeper(t, interceptor.Funcs{}, nil)
	off.observe(t.Context(), inShop(), []corev1.Pod{ended("p", "c://1")}, 0)
	assert.Empty(t, off.seen)

	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "env-shop", Name: endedlogs.Secret}}
	l, data := keeper(t, interceptor.Funcs{}, func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("2026-11-26T12:00:00Z bye\n")), nil
	})
	require.NoError(t, l.client.Create(t.Context(), foreign))
	require.ErrorContains(t, l.keep(t.Context(), inShop(), &endings([]corev1.Pod{ended("p", "c://1")})[0], 10), "was not made for this environment")
	require.NoError(t, l.client.Delete(t.Context(), foreign))
	assert.Empty(t, data())
}

// However many end at once, and however much they wrote: the memory of the controller is bounded.
func TestLogsAreReadAFewAtATime(t *testing.T) {
	block := make(chan struct{})
	var open OpenLog = func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		<-block
		return io.NopCloser(strings.NewReader("")), nil
	}
	l, _ := keeper(t, interceptor.Funcs{}, open)
	var pods []corev1.Pod
	for i := range 3 * logReaders {
		pods = append(pods, ended(fmt.Sprint("p", i), fmt.Sprint("c://", i)))
	}
	l.observe(t.Context(), inShop(), pods, 10)
	assert.Len(t, l.readers, readersOfOne, "one environment does not take all")
	for i := range logReaders {
		other := environmentOf(fmt.Sprint("other", i))
		l.observe(t.Context(), other, pods, 10)
	}
	assert.Len(t, l.readers, logReaders)
	close(block)
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.readers) == 0 && len(l.reading) == 0
	}, 10*time.Second, 10*time.Millisecond)
	day := podWith("p", true, corev1.ContainerStatus{ContainerID: "1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	day.DeletionGracePeriodSeconds = new(int64(86400))
	assert.LessOrEqual(t, endings([]corev1.Pod{day})[0].timeout(), 6*time.Minute)

	huge := strings.NewReader(strings.Repeat(strings.Repeat("x", 99)+"\n", 100_000))
	tail := endedlogs.NewTail(1000)
	_, err := io.Copy(tail, huge)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(tail.Bytes()), endedlogs.MaxBytes)
	assert.True(t, slices.Equal(tail.Bytes()[len(tail.Bytes())-2:], []byte("x\n")))
}
