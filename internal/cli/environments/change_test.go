// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/test/clitest"
)

func TestARollbackRestoresASpecAndKeepsItsRunPolicy(t *testing.T) {
	was := store()
	was.Spec.RestartedAt = new(clitest.Ago(time.Hour))
	c := envCluster(t, interceptor.Funcs{}, append(revisions(t), was)...)
	back := func(revision int64, dryRun string) (string, string, error) {
		o, out, errOut := clitest.Screen("table")
		err := runRollback(t.Context(), o, c, reread(t, c), revision, dryRun)
		return out.String(), errOut.String(), err
	}
	_, _, err := back(7, command.DryRunNone)
	require.EqualError(t, err, "environment.berth.dev/store-1a2b has no revision 7: it has 1, 2, 3")

	changes := "  spec.stack.backend.container.image: node:22-alpine -> node:20\n  spec.stack.backend.replicas: 3 -> absent\n"
	for _, dryRun := range []string{command.DryRunClient, command.DryRunServer} {
		out, _, err := back(1, dryRun)
		require.NoError(t, err)
		assert.Equal(t, "environment.berth.dev/store-1a2b rolled back to revision 1"+command.DryRunText(dryRun)+"\n"+changes, out)
		assert.Equal(t, was.Spec.Stack, reread(t, c).Spec.Stack, "a dry run keeps nothing")
	}
	out, errOut, err := back(1, command.DryRunNone)
	require.NoError(t, err)
	assert.Contains(t, out, changes)
	assert.Contains(t, errOut, "Secret shop/store-1a2b-credentials of revision 1 does not exist")
	now := reread(t, c)
	assert.Equal(t, "node:20", now.Spec.Stack.Backend.Container.Image)
	assert.Nil(t, now.Spec.Stack.Backend.Replicas)
	assert.Equal(t, v1alpha1.RunPolicyRunning, now.Spec.RunPolicy)
	assert.False(t, now.Spec.ForceStop)
	assert.True(t, was.Spec.RestartedAt.Equal(now.Spec.RestartedAt), "another restart would replace all pods")
	assert.Equal(t, "bob", now.Annotations[v1alpha1.ActorAnnotation], "who requested it, and not for the one before")

	out, _, err = back(1, command.DryRunNone)
	require.NoError(t, err)
	assert.Equal(t, "environment.berth.dev/store-1a2b already has the spec of revision 1\n", out)
}

// A write of another client in between is not overwritten: the change is made on top of it.
func TestAChangeAppliesToTheCurrentObject(t *testing.T) {
	tries := 0
	c := envCluster(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if tries++; tries == 1 {
			other := store()
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), other); err != nil {
				return err
			}
			other.Spec.Description = "Sells more things."
			if err := c.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.Patch(ctx, obj, p, opts...)
	}}, store())
	o, out, _ := clitest.Screen("table")
	require.NoError(t, scaleEnvironment(t.Context(), o, c, reread(t, c), []change.Replicas{{Component: "backend", Replicas: 5}, {Component: "frontend", Replicas: 1}}, &scaleFlags{}))
	assert.Equal(t, "environment.berth.dev/store-1a2b backend scaled from 3 to 5\nenvironment.berth.dev/store-1a2b frontend already has 1 replica\n", out.String())
	assert.Equal(t, 2, tries)
	now := reread(t, c)
	assert.Equal(t, "Sells more things.", now.Spec.Description)
	assert.EqualValues(t, 5, *now.Spec.Stack.Backend.Replicas)
	assert.Nil(t, now.Spec.Stack.Frontend.Replicas, "what is as configured already is not written")
}

func TestComponentsAreScaled(t *testing.T) {
	for name, tc := range map[string]struct {
		words []string
		did   string
		err   string
	}{
		"one":             {[]string{"backend=4"}, "backend scaled from 3 to 4", ""},
		"several":         {[]string{"frontend=2", "redis-cache=0"}, "frontend scaled from 1 to 2\nredis-cache scaled from 1 to 0", ""},
		"as it is":        {[]string{"backend=3"}, "backend already has 3 replicas", ""},
		"the database":    {[]string{"backend=4", "database=2"}, "", "database cannot be scaled: it has one replica"},
		"unknown":         {[]string{"bakend=4"}, "", `component "bakend" not found: the environment has database, redis-cache, backend, frontend`},
		"twice":           {[]string{"backend=4", "backend=5"}, "", "component backend is given twice"},
		"negative":        {[]string{"backend=-1"}, "", `REPLICAS of backend is "-1": it must be a number from 0 to 1000`},
		"too many":        {[]string{"backend=1001"}, "", `REPLICAS of backend is "1001"`},
		"no number":       {[]string{"backend=two"}, "", `REPLICAS of backend is "two"`},
		"nothing":         {[]string{"backend="}, "", `REPLICAS of backend is ""`},
		"no replicas":     {[]string{"backend"}, "", `"backend" must be COMPONENT=REPLICAS`},
		"no component":    {[]string{"=3"}, "", `"=3" must be COMPONENT=REPLICAS`},
		"more than 31bit": {[]string{"backend=4294967299"}, "", `REPLICAS of backend is "4294967299"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := envCluster(t, interceptor.Funcs{}, store())
			wanted, err := parseReplicas(tc.words)
			var did []change.Scaled
			if err == nil {
				did, _, err = change.Scale(t.Context(), c, reread(t, c), wanted)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			var lines []string
			for _, s := range did {
				lines = append(lines, scaledText(s))
			}
			assert.Equal(t, tc.did, strings.Join(lines, "\n"))
			for _, w := range wanted {
				for _, c := range stack.Components(&reread(t, c).Spec.Stack) {
					if c.Name == w.Component {
						assert.Equal(t, w.Replicas, c.Replicas)
					}
				}
			}
		})
	}
}

// A refused one leaves the others as they are.
func TestAllComponentsAreScaledOrNone(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store())
	o, out, _ := clitest.Screen("table")
	err := scaleEnvironment(t.Context(), o, c, reread(t, c), []change.Replicas{{Component: "backend", Replicas: 5}, {Component: "database", Replicas: 2}}, &scaleFlags{})
	require.ErrorContains(t, err, "environment.berth.dev/store-1a2b: database cannot be scaled: it has one replica; run a database with more by an operator")
	assert.Empty(t, out.String())
	assert.EqualValues(t, 3, *reread(t, c).Spec.Stack.Backend.Replicas)
}

// A value that is accepted has the same meaning when it is printed again, and the API accepts it.
func FuzzParseReplicas(f *testing.F) {
	for _, seed := range []string{"backend=3", "a=0 b=1000", "=", "a==1", "a=+1", "a=1 a=2", "redis-cache=07", "x=99999999999999999999", "a= 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Fields(text)
		got, err := parseReplicas(words)
		if err != nil {
			return
		}
		require.Len(t, got, len(words))
		var again []string
		seen := map[string]bool{}
		for _, r := range got {
			require.NotEmpty(t, r.Component)
			require.NotContains(t, r.Component, "=")
			require.True(t, r.Replicas >= 0 && r.Replicas <= stack.MaxReplicas)
			require.False(t, seen[r.Component])
			seen[r.Component] = true
			again = append(again, fmt.Sprintf("%s=%d", r.Component, r.Replicas))
		}
		twice, err := parseReplicas(again)
		require.NoError(t, err)
		require.Equal(t, got, twice)
	})
}

func TestArrivedComparesTheStatusWithTheSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(e *v1alpha1.Environment)
		arrived bool
		err     string
	}{
		"runs, but not all of it": {func(*v1alpha1.Environment) {}, false, ""},
		"runs":                    {ready, true, ""},
		"an older generation":     {func(e *v1alpha1.Environment) { ready(e); e.Status.ObservedGeneration = 3 }, false, ""},
		"is to be stopped":        {func(e *v1alpha1.Environment) { ready(e); e.Spec.RunPolicy = v1alpha1.RunPolicyStopped }, false, ""},
		"stopped": {func(e *v1alpha1.Environment) {
			e.Spec.RunPolicy, e.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopped
		}, true, ""},
		"stopped, to be started": {func(e *v1alpha1.Environment) { e.Status.Phase = v1alpha1.EnvironmentStopped }, false, ""},
		"is updated":             {func(e *v1alpha1.Environment) { ready(e); e.Status.Phase = v1alpha1.EnvironmentUpdating }, false, ""},
		"failed":                 {func(e *v1alpha1.Environment) { e.Status.Phase = v1alpha1.EnvironmentFailed }, false, "it failed: redis-cache"},
		"is deleted":             {func(e *v1alpha1.Environment) { ready(e); e.DeletionTimestamp = new(clitest.Ago(0)) }, false, "it is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			e := store()
			tc.change(e)
			got, err := arrived(e, 4)
			assert.Equal(t, tc.arrived, got)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func ready(e *v1alpha1.Environment) {
	meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"})
}

func TestAStartIsWaitedFor(t *testing.T) {
	e := store()
	e.Spec.RunPolicy, e.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopped
	looks := 0
	c := envCluster(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, obj, opts...)
		if e, ok := obj.(*v1alpha1.Environment); ok && err == nil && e.Spec.RunPolicy == v1alpha1.RunPolicyRunning {
			if looks++; looks > 2 {
				e.Status.Phase = v1alpha1.EnvironmentRunning
				ready(e)
			}
		}
		return err
	}}, e)
	o, out, _ := clitest.Screen("table")
	f := &runFlags{waitFlags: waitFlags{wait: true, timeout: time.Minute, poll: time.Millisecond}}
	start := func(e *v1alpha1.Environment, _ *runFlags) error { return render.Start(e) }
	require.NoError(t, runEnvironment(t.Context(), o, c, reread(t, c), f, "started", start))
	assert.Equal(t, "environment.berth.dev/store-1a2b started\nenvironment.berth.dev/store-1a2b is Running\n", out.String())
	assert.Equal(t, 3, looks)

	f.timeout = 20 * time.Millisecond
	err := runEnvironment(t.Context(), o, envCluster(t, interceptor.Funcs{}, e), e, f, "started", start)
	require.ErrorContains(t, err, "environment.berth.dev/store-1a2b is Stopped after 20ms: redis-cache")
}
