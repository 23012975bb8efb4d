// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/test/clitest"
)

var web = client.ObjectKey{Namespace: "shop", Name: "web-1"}

// webPod has a container that runs, and an init container that has ended.
func webPod(uid string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: types.UID(uid)}}
	p.Spec.Containers, p.Spec.InitContainers = []corev1.Container{{Name: "app"}}, []corev1.Container{{Name: "migrate"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", ContainerID: "c://app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "migrate", ContainerID: "c://migrate", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	return p
}

// printer prints the texts of containers.
func printer(texts map[string]string) (p *Printer, out, notes fmt.Stringer) {
	o, printed, problems := clitest.Screen(printers.Text)
	return &Printer{Command: o, Tail: 10, Poll: time.Millisecond, Open: openTexts(texts)}, printed, problems
}

func openTexts(texts map[string]string) Open {
	return func(_ context.Context, _ *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		text, there := texts[options.Container]
		if !there {
			return nil, errors.New("the node does not answer")
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

const appLog, migrateLog = "2026-07-01T12:00:02Z listening\n", "2026-07-01T12:00:01Z migrated\n"

func TestTheLogsOfAPodAreInTheOrderOfTheirTimes(t *testing.T) {
	c := fake.NewFakeClient(webPod("a"))
	texts := map[string]string{"app": appLog, "migrate": migrateLog}
	p, out, _ := printer(texts)
	require.NoError(t, ofPod(t.Context(), p, c, web, "", false))
	assert.Equal(t, "[migrate] migrated\n[app] listening\n", out.String())

	p, out, _ = printer(texts)
	require.NoError(t, ofPod(t.Context(), p, c, web, "app", false))
	assert.Equal(t, "listening\n", out.String(), "of one container as it was written")

	p, _, _ = printer(texts)
	require.EqualError(t, ofPod(t.Context(), p, c, web, "other", false), `container is "other": it must be one of app, migrate`)

	delete(texts, "migrate")
	p, out, notes := printer(texts)
	require.ErrorIs(t, ofPod(t.Context(), p, c, web, "", false), command.ErrFailed)
	assert.Equal(t, "[app] listening\n", out.String(), "one that cannot be read leaves the others")
	assert.Contains(t, notes.String(), "cannot read the log of migrate: pod shop/web-1: the node does not answer")
}

// A pod can have any number of containers, and each log is a connection.
func TestTheLogsOfAPodAreBounded(t *testing.T) {
	pod, texts := webPod("a"), map[string]string{"migrate": migrateLog}
	pod.Spec.Containers, pod.Status.ContainerStatuses = nil, nil
	for i := range 2 * mostContainers {
		name := fmt.Sprint("c-", i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, ContainerID: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
		texts[name] = appLog
	}
	p, out, notes := printer(texts)
	require.NoError(t, ofPod(t.Context(), p, fake.NewFakeClient(pod), web, "", false))
	assert.Equal(t, mostContainers, strings.Count(out.String(), "\n"))
	assert.Contains(t, notes.String(), "The first 16 of 33 containers are shown")
}

// What is followed is one pod: another one may have its name later.
func TestALogIsFollowedUntilItsPodIsGone(t *testing.T) {
	for name, after := range map[string][]client.Object{"gone": nil, "another one": {webPod("b")}} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewFakeClient(webPod("a"))
			p, out, notes := printer(map[string]string{"app": appLog})
			read := p.Open
			p.Open = func(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error) {
				assert.True(t, options.Follow)
				assert.NoError(t, c.Delete(ctx, webPod("a")))
				for _, o := range after {
					assert.NoError(t, c.Create(ctx, o))
				}
				return read(ctx, pod, options)
			}
			require.NoError(t, ofPod(t.Context(), p, c, web, "app", true))
			assert.Equal(t, "listening\n", out.String())
			assert.Contains(t, notes.String(), "Pod shop/web-1 was deleted.")
		})
	}
}

func TestAContainerThatCrashedHasTheLogOfBefore(t *testing.T) {
	pod := webPod("a")
	id, running := Started(pod, "app")
	assert.Equal(t, "c://app", id)
	assert.True(t, running)
	s := &pod.Status.ContainerStatuses[0]
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	id, _ = Started(pod, "app")
	assert.Empty(t, id, "none has run yet")
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "c://before"}
	id, running = Started(pod, "app")
	assert.Equal(t, "c://before", id)
	assert.False(t, running)
	id, _ = Started(pod, "none")
	assert.Empty(t, id)
}

func TestContainersThatWereAddedToAPodHaveALog(t *testing.T) {
	p := webPod("uid")
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{
		{Name: "debugger", ContainerID: "c://debugger", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	assert.Equal(t, []string{"app", "migrate", "debugger"}, Containers(p))
	id, running := Started(p, "debugger")
	assert.Equal(t, "c://debugger", id)
	assert.True(t, running)
}
