// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/logs"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/clitest"
)

// storePod is a pod of a component, whose container was started so often; below 0 is never.
func storePod(name, component string, restarts int32) *corev1.Pod {
	labels := render.Labels(store())
	labels[v1alpha1.EnvironmentComponentLabel] = component
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "env-store", Name: name, UID: types.UID(name), Labels: labels}}
	if restarts >= 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: component, ContainerID: fmt.Sprintf("c://%s-%d", name, restarts), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}
	}
	return p
}

// stamped are lines as the API server sends them, each with the second of its time.
func stamped(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		second, text, _ := strings.Cut(line, " ")
		fmt.Fprintf(&b, "2026-07-01T12:00:%sZ %s\n", second, text)
	}
	return b.String()
}

func TestLogsArePrintedInTheOrderOfTheirTimes(t *testing.T) {
	other := storePod("other", "backend", 0)
	other.Labels[v1alpha1.EnvironmentNamespaceLabel] = "back"
	stray := storePod("stray", "", 0)
	delete(stray.Labels, v1alpha1.EnvironmentComponentLabel)
	c := envCluster(t, interceptor.Funcs{}, store(), storePod("b-1", "backend", 0), storePod("b-2", "backend", 0), storePod("d-0", "database", 0),
		storePod("f-1", "frontend", -1), other, stray)
	written := map[string]string{
		"d-0": stamped("01.5 ready", "04 checkpoint"), "b-1": stamped("02 listening", "03 GET /"),
		"b-2": strings.TrimSuffix(stamped("02.25 listening too", "05 the last has no end"), "\n"),
	}
	f := &logsFlags{tail: -1, open: func(_ context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		assert.Equal(t, pod.Labels[v1alpha1.EnvironmentComponentLabel], options.Container)
		assert.True(t, options.Timestamps)
		assert.False(t, options.Follow)
		text, ok := written[pod.Name]
		require.True(t, ok, pod.Name)
		return io.NopCloser(strings.NewReader(text)), nil
	}}
	o, out, errOut := clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, c, store(), f))
	assert.Equal(t, "[database] ready\n[backend] listening\n[backend] listening too\n[backend] GET /\n[database] checkpoint\n[backend] the last has no end\n", out.String())
	assert.Equal(t, "Warning: frontend has no log yet: pod env-store/f-1 is Pending\n", errOut.String())

	f.component = "database"
	o, out, errOut = clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, c, store(), f))
	assert.Equal(t, "ready\ncheckpoint\n", out.String(), "of one component as it was written")
	assert.Empty(t, errOut.String())
}

func TestLogsOfContainersThatEndedArePrintedOnRequest(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "env-store", Name: endedlogs.Secret}}
	secret.Data = endedlogs.Add(nil, endedlogs.Key("backend", "c://old"), []byte(stamped("01 before", "01.5 panic")))
	secret.Data = endedlogs.Add(secret.Data, endedlogs.Key("backend", "c://b-1-0"), []byte(stamped("02 is read from the kubelet")))
	c := envCluster(t, interceptor.Funcs{}, store(), storePod("b-1", "backend", 0), secret)
	f := &logsFlags{tail: -1, ended: true, open: func(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(stamped("02 listening"))), nil
	}}
	o, out, _ := clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, c, store(), f))
	assert.Equal(t, "[backend] before\n[backend] panic\n[backend] listening\n", out.String())
	f.tail = 1
	o, out, _ = clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, c, store(), f))
	assert.Equal(t, "[backend] panic\n[backend] listening\n", out.String())
	f.ended = false
	o, out, _ = clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, c, store(), f))
	assert.Equal(t, "[backend] listening\n", out.String())
}

func TestALogThatCannotBeReadLeavesTheOthers(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store(), storePod("b-1", "backend", 0), storePod("d-0", "database", 0))
	f := &logsFlags{tail: -1, open: func(_ context.Context, pod *corev1.Pod, _ *corev1.PodLogOptions) (io.ReadCloser, error) {
		if pod.Name == "d-0" {
			return nil, errors.New("the node does not answer")
		}
		return io.NopCloser(strings.NewReader(stamped("02 listening"))), nil
	}}
	o, out, errOut := clitest.Screen("table")
	require.ErrorIs(t, runLogs(t.Context(), o, c, store(), f), command.ErrFailed)
	assert.Equal(t, "[backend] listening\n", out.String())
	assert.Contains(t, errOut.String(), "the log of database: pod env-store/d-0: the node does not answer")
}

func TestFlagsSelectThePartOfALog(t *testing.T) {
	options := (&logsFlags{tail: -1}).printer(nil).Options("backend", false)
	assert.Equal(t, &corev1.PodLogOptions{Container: "backend", Timestamps: true}, options)
	options = (&logsFlags{tail: 0, since: 1500 * time.Millisecond}).printer(nil).Options("backend", true)
	assert.EqualValues(t, 0, *options.TailLines)
	assert.EqualValues(t, 2, *options.SinceSeconds)
	assert.True(t, options.Follow)

	for want, f := range map[string]logsFlags{
		"--since is -1s: it must not be negative":                                             {since: -time.Second},
		"--ended and --follow exclude each other":                                             {ended: true, follow: true},
		"--tail is -2: it must be a number of lines":                                          {tail: -2},
		`--component is "bakend": it must be one of database, redis-cache, backend, frontend`: {component: "bakend"},
	} {
		o, _, _ := clitest.Screen("table")
		require.ErrorContains(t, runLogs(t.Context(), o, nil, store(), &f), want)
	}
	fresh := store()
	fresh.Status = v1alpha1.EnvironmentStatus{}
	o, _, errOut := clitest.Screen("table")
	require.NoError(t, runLogs(t.Context(), o, nil, fresh, &logsFlags{}))
	assert.Equal(t, "No pods found of environment shop/store-1a2b, which is Pending.\n", errOut.String())
}

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.Lock()
	defer b.Unlock()
	return b.String()
}

// The log of a container that was started again goes on, that of a pod that came later is all there, and what was printed is
// not printed again. It ends when the environment is gone.
func TestLogsAreFollowed(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store(), storePod("b-1", "backend", 0))
	first, firstEnd := io.Pipe()
	var opened sync.Map
	f := &logsFlags{tail: 1, since: time.Hour, follow: true, poll: 5 * time.Millisecond}
	f.open = func(_ context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		id, _ := logs.Started(pod, options.Container)
		opened.LoadOrStore(id, options)
		switch id {
		case "c://b-1-0":
			if options.SinceTime != nil { // it was cut off, and is read again
				return io.NopCloser(strings.NewReader(stamped("02 two"))), nil
			}
			return first, nil
		case "c://b-1-1":
			return io.NopCloser(strings.NewReader(stamped("02 two", "03 three"))), nil
		}
		return io.NopCloser(strings.NewReader(stamped("01 late, and early"))), nil
	}
	o, _, _ := clitest.Screen("table")
	out, notes := &lockedBuffer{}, &lockedBuffer{}
	o.Out, o.ErrOut = out, notes
	ended := make(chan error, 1)
	go func() { ended <- followLogs(t.Context(), o, c, store(), f) }()
	eventually := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(out.text(), want) }, 20*time.Second, 2*time.Millisecond, "no %q", want)
	}
	_, err := io.WriteString(firstEnd, stamped("01 one", "02 two"))
	require.NoError(t, err)
	eventually("[backend] two\n")
	require.NoError(t, c.Delete(t.Context(), storePod("b-1", "backend", 0)))
	require.NoError(t, c.Create(t.Context(), storePod("b-1", "backend", 1)))
	require.NoError(t, firstEnd.Close())
	eventually("[backend] three\n")
	require.NoError(t, c.Create(t.Context(), storePod("d-0", "database", 0)))
	eventually("[database] late, and early\n")

	options := func(id string) *corev1.PodLogOptions {
		v, ok := opened.Load(id)
		require.True(t, ok, id)
		return v.(*corev1.PodLogOptions)
	}
	assert.EqualValues(t, 2, options("c://b-1-1").SinceTime.Second())
	assert.Nil(t, options("c://d-0-0").TailLines, "all of a pod that came later is new")
	require.NoError(t, c.Delete(t.Context(), store()))
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it follows an environment that is gone")
	}
	assert.Equal(t, 1, strings.Count(notes.text(), "The container of backend in pod b-1 has ended.\n"), notes.text())
	assert.Equal(t, 1, strings.Count(out.text(), "two\n"), out.text())
	assert.Equal(t, 1, strings.Count(out.text(), "three\n"), out.text())
}

func TestFollowingEndsWithTheCaller(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store(), storePod("b-1", "backend", 0))
	ctx, cancel := context.WithCancel(t.Context())
	f := &logsFlags{tail: -1, follow: true, poll: time.Hour}
	f.open = func(ctx context.Context, _ *corev1.Pod, _ *corev1.PodLogOptions) (io.ReadCloser, error) {
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
		cancel()
		return r, nil
	}
	o, _, errOut := clitest.Screen("table")
	require.NoError(t, followLogs(ctx, o, c, store(), f))
	assert.Empty(t, errOut.String())
}
