// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

// fakeReader reads a cluster with a pod that a hostile user made, and whose lists list sees first.
func fakeReader(t *testing.T, list func(client.ObjectList, *client.ListOptions) error) *reader {
	t.Helper()
	s := clitest.OneOfEach()
	pod := s.Pod("web", "hostile", "s1")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: hostile, Name: "x\x1b[31m" + strings.Repeat("y", 1<<18), UID: "u", Controller: new(true)}}
	objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "s1", Labels: map[string]string{
		"karpenter.sh/capacity-type": "spot", corev1.LabelTopologyZone: hostile,
	}}}}
	for _, p := range s.Pods {
		objects = append(objects, p)
	}
	for _, m := range s.Mixes {
		objects = append(objects, m)
	}
	c := clitest.Client(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(options)
		if err := list(l, o); err != nil {
			return err
		}
		return c.List(ctx, l, client.InNamespace(o.Namespace))
	}}, objects...)
	return &reader{
		client: live.OverviewClient{Client: c}, now: func() time.Time { return clitest.Now },
		load: func(ctx context.Context, c client.Client, namespace string) (*overview.Cluster, error) {
			settings, err := live.Defaults()
			require.NoError(t, err)
			return live.Load(ctx, c, settings, namespace)
		},
	}
}

func none(client.ObjectList, *client.ListOptions) error { return nil }

func TestListsComeFromTheCacheOfTheAPIServer(t *testing.T) {
	count := 0
	r := fakeReader(t, func(l client.ObjectList, o *client.ListOptions) error {
		count++
		require.NotNil(t, o.Raw)
		assert.Equal(t, "0", o.Raw.ResourceVersion)
		_, unused := l.(*policyv1.PodDisruptionBudgetList)
		assert.False(t, unused)
		return nil
	})
	r.client.Version = live.FromCache
	_, err := r.read(t.Context(), "shop")
	require.NoError(t, err)
	assert.Equal(t, 7, count)

	seen := ""
	c := live.OverviewClient{Version: live.FromCache, Client: clitest.Client(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(options)
		seen = o.Continue
		assert.Nil(t, o.Raw, "the API server refuses a version with a token")
		return nil
	}})}
	require.NoError(t, c.List(t.Context(), &corev1.PodList{}, client.Continue("more")))
	assert.Equal(t, "more", seen)
}

func TestAForbiddenListIsAProblemAndNoOtherIs(t *testing.T) {
	d, err := fakeReader(t, func(l client.ObjectList, _ *client.ListOptions) error {
		if _, ok := l.(*appsv1.ReplicaSetList); ok {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "replicasets"}, "", nil)
		}
		return nil
	}).read(t.Context(), "shop")
	require.NoError(t, err)
	assert.Equal(t, []string{"replicasets.apps"}, d.missing)
	assert.Equal(t, []string{"not allowed: list replicasets.apps in namespace shop"}, d.problems)

	_, err = fakeReader(t, func(client.ObjectList, *client.ListOptions) error {
		return apierrors.NewServiceUnavailable("down")
	}).read(t.Context(), "shop")
	require.ErrorContains(t, err, "down")
}

func TestOnce(t *testing.T) {
	r := fakeReader(t, none)
	for name, format := range map[string]string{"once.txt": printers.Text, "once.json": printers.JSON} {
		o, out, errOut := clitest.Screen(format)
		require.NoError(t, printOnce(t.Context(), o, r, "shop", plainWidth))
		clitest.Golden(t, name, out.String())
		assert.Empty(t, errOut.String())
	}
	o, out, _ := clitest.Screen(printers.JSON)
	require.NoError(t, printOnce(t.Context(), o, r, "", plainWidth))
	var all overview.Overview
	require.NoError(t, json.Unmarshal(out.Bytes(), &all))
	assert.NotEmpty(t, all.Workloads)

	o, out, _ = clitest.Screen(printers.Text)
	require.NoError(t, printOnce(t.Context(), o, r, "empty", 80))
	assert.Contains(t, out.String(), "No governed workloads found in namespace empty.")
}

// What a tenant writes is shown, and neither moves the cursor nor fills the screen.
func TestHostileTextsAreInertOnAllScreens(t *testing.T) {
	d, err := fakeReader(t, none).read(t.Context(), "shop")
	require.NoError(t, err)
	frames := []string{plain(d, "shop", 300)}
	for _, width := range []int{40, 80, 300} {
		m := newModel("shop", time.Second, false, clitest.Now)
		m.width, m.height = width, 50
		m.update(readMsg{data: d, scope: "shop"})
		press(&m, "/", "h", "o", "s", "t")
		frames = append(frames, m.frame())
		press(&m, "backspace", "backspace", "backspace", "backspace", "x", `\`, "enter", "enter")
		frames = append(frames, m.frame())
	}
	shown := false
	for _, frame := range frames {
		assert.LessOrEqual(t, len(frame), 300*51)
		assert.False(t, strings.ContainsFunc(frame, func(r rune) bool {
			return r != '\n' && (r < ' ' || r > '~') && !strings.ContainsRune("·×…↑↓", r)
		}), "%q", frame)
		shown = shown || strings.Contains(frame, `a\x1b[2J`) || strings.Contains(frame, `x\x1b[31m`)
	}
	assert.True(t, shown)
}

func TestFlagsAreChecked(t *testing.T) {
	for want, args := range map[string][]string{
		"--interval is 500ms: it must be from 1s to 1h":            {"--interval", "500ms"},
		"--interval is 2h0m0s: it must be from 1s to 1h":           {"--interval", "2h"},
		`--selector is "a in b": `:                                 {"-l", "a in b"},
		`--output is "name": it must be one of table, json, yaml`:  {"-o", "name"},
		`unexpected argument "web"`:                                {"web"},
		`invalid argument "soon" for "--interval" flag: time: inv`: {"--interval", "soon"},
	} {
		o, _, _ := clitest.Screen(printers.Text)
		cmd := New(o)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want, "%v", args)
	}
}

// answering is a terminal whose user presses q once it shows a text.
type answering struct {
	io.Writer
	shown strings.Builder
	until string
	keys  *io.PipeWriter
}

func (a *answering) Write(p []byte) (int, error) {
	if a.until != "" {
		if a.shown.Write(p); strings.Contains(a.shown.String(), a.until) {
			a.until = ""
			go func() { _, _ = a.keys.Write([]byte("q")) }()
		}
	}
	return len(p), nil
}

func TestTheProgramShowsTheOverviewUntilQ(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	in, keys := io.Pipe()
	o, _, _ := clitest.Screen(printers.Text)
	o.In, o.Out = in, &answering{until: "shop/api", keys: keys}
	r := fakeReader(t, none)
	require.NoError(t, run(t.Context(), o, &flags{interval: time.Hour}, r, "", tea.WithWindowSize(80, 24)))

	// The user may also send a signal.
	ctx, cancel := context.WithCancel(t.Context())
	o, _, _ = clitest.Screen(printers.Text)
	o.In = strings.NewReader("")
	r = fakeReader(t, func(client.ObjectList, *client.ListOptions) error { cancel(); return nil })
	require.NoError(t, run(ctx, o, &flags{interval: time.Hour}, r, "shop"))
}
