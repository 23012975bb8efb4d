// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/clitest"
)

// store is an environment of which everything is ready but a cache that crashes.
func store() *v1alpha1.Environment {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "store-1a2b", UID: "store", Generation: 4, CreationTimestamp: clitest.Ago(3 * time.Hour),
		Annotations: map[string]string{v1alpha1.ActorAnnotation: "alice"},
	}}
	stack, _ := render.FindStack("web-postgres-redis")
	e.Spec = v1alpha1.EnvironmentSpec{
		DisplayName: "The Store", Description: "Sells things.", RunPolicy: v1alpha1.RunPolicyRunning, VolumeRetention: v1alpha1.VolumeRetentionDelete,
		Labels: map[string]v1alpha1.AttributeValue{"team": "shop", "environment": "staging"}, Stack: stack.Stack,
	}
	e.Spec.Stack.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: "store-1a2b-credentials"}
	e.Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: "store-1a2b-credentials"}
	e.Spec.Stack.Backend.Replicas = new(int32(3))
	s := &e.Status
	s.ObservedGeneration, s.Phase, s.Message, s.Namespace, s.Ready, s.OpenStages, s.Revision = 4, v1alpha1.EnvironmentRunning,
		"redis-cache: 0 of 1 replicas are ready: back-off", "env-store", "3/4", 4, 3
	status := func(name string, stage, ready, replicas, restarts int32, reason, message string) {
		s.Components = append(s.Components, v1alpha1.EnvironmentComponentStatus{
			Name: name, Stage: stage, ReadyReplicas: ready, Replicas: replicas, Restarts: restarts, Ready: ready == replicas, Reason: reason, Message: message,
		})
	}
	status("database", 1, 1, 1, 0, "", "")
	status("redis-cache", 2, 0, 1, 7, "CrashLoopBackOff", "back-off 5m0s restarting failed container")
	status("backend", 3, 3, 3, 0, "", "")
	status("old-cache", 2, 1, 1, 0, "", "")
	s.Ports = []v1alpha1.AllocatedPort{
		{Component: "backend", ContainerPort: 3000, HostPort: 30001, Protocol: v1alpha1.ProtocolTCP},
		{Component: "frontend", ContainerPort: 80, HostPort: 8080, Protocol: v1alpha1.ProtocolTCP},
	}
	s.Conditions = []metav1.Condition{
		clitest.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "CrashLoopBackOff", "redis-cache: back-off"),
		clitest.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, "CrashLoopBackOff", "redis-cache: back-off"),
		clitest.Condition(v1alpha1.ConditionNetworkConfigured, metav1.ConditionTrue, "Configured", "as configured"),
		clitest.Condition(v1alpha1.ConditionVolumesProvisioned, metav1.ConditionFalse, "HostPathRefused", "/data is a claim"),
		clitest.Condition(v1alpha1.ConditionPortsAllocated, metav1.ConditionTrue, "Configured", "as configured"),
	}
	return e
}

// envCluster has objects, and takes everybody for bob.
func envCluster(t testing.TB, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if review, ok := obj.(*authenticationv1.SelfSubjectReview); ok {
			review.Status.UserInfo.Username = "bob"
			return nil
		}
		if create != nil {
			return create(ctx, c, obj, opts...)
		}
		return c.Create(ctx, obj, opts...)
	}
	return clitest.Client(t, funcs, objects...)
}

func reread(t *testing.T, c client.Client) *v1alpha1.Environment {
	t.Helper()
	e := &v1alpha1.Environment{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "store-1a2b"}, e))
	return e
}

func TestEnvironmentsAreListed(t *testing.T) {
	fresh := v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "back", Name: "new", Generation: 1, CreationTimestamp: clitest.Ago(time.Minute)}}
	old := *store()
	old.Name, old.Generation, old.DeletionTimestamp = "old", 5, new(clitest.Ago(time.Second))
	list := []*v1alpha1.Environment{store(), &old, &fresh}
	clitest.Goldens(t, "list.stderr", map[string]string{
		"list.txt": printers.Text, "list-wide.txt": printers.Wide, "list.json": printers.JSON, "list.names": printers.Name,
	}, func(o *command.Options) error { return environmentKind.Show(o, list, "") })
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return environmentKind.Show(o, nil, "shop") })
	assert.Empty(t, out)
	assert.Equal(t, "No environments found in namespace shop.\n", errOut)
}

func TestEnvironmentsAreChosenByTheirSpecsLabels(t *testing.T) {
	plainOne := v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: "plain", Labels: map[string]string{"team": "shop"}}}
	for name, tc := range map[string]struct {
		pairs []string
		want  int
		err   string
	}{
		"all":                       {nil, 2, ""},
		"one, not by object labels": {[]string{"team=shop"}, 1, ""},
		"both":                      {[]string{"team=shop", "environment=staging"}, 1, ""},
		"one of both":               {[]string{"team=shop", "environment=live"}, 0, ""},
		"absent is not empty":       {[]string{"other="}, 0, ""},
		"a value with =":            {[]string{"team=a=b"}, 0, ""},
		"no value":                  {[]string{"team"}, 0, `--spec-label is "team": it must be key=value`},
		"no key":                    {[]string{"=shop"}, 0, `--spec-label is "=shop"`},
		"two values":                {[]string{"team=a", "team=b"}, 0, `key "team" with values "a" and "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, err := parseLabels(tc.pairs)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			got := 0
			for _, e := range []*v1alpha1.Environment{store(), &plainOne} {
				if labelled(e, wanted) {
					got++
				}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAnEnvironmentIsShown(t *testing.T) {
	clitest.Goldens(t, "", map[string]string{
		"get.txt": printers.Text, "get-wide.txt": printers.Wide, "get.json": printers.JSON, "get.yaml": printers.YAML,
	}, func(o *command.Options) error { return showEnvironment(o, environmentDetailOf(store())) })
	fresh := store()
	fresh.Status = v1alpha1.EnvironmentStatus{}
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showEnvironment(o, environmentDetailOf(fresh)) })
	clitest.Golden(t, "get-fresh.txt", out)
	assert.Contains(t, errOut, "no controller reconciles environments")
}

// An environment that shall be stopped and is stopped is not shown as unready.
func TestAStoppedEnvironmentHasNoUnmetCondition(t *testing.T) {
	types := func(e *v1alpha1.Environment) (list []string) {
		for _, c := range unmetConditions(e) {
			list = append(list, c.Type)
		}
		return list
	}
	e := store()
	assert.Equal(t, []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionReady, v1alpha1.ConditionVolumesProvisioned}, types(e))
	e.Spec.RunPolicy, e.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopping
	assert.Contains(t, types(e), v1alpha1.ConditionReady)
	e.Status.Phase = v1alpha1.EnvironmentStopped
	assert.NotContains(t, types(e), v1alpha1.ConditionReady)
}

func TestAnEnvironmentIsFoundByItsName(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store())
	for _, name := range []string{"store-1a2b", "environment.berth.dev/store-1a2b"} {
		e, err := environmentNamed(t.Context(), c, "shop", name)
		require.NoError(t, err)
		assert.Equal(t, "store-1a2b", e.Name)
	}
	_, err := environmentNamed(t.Context(), c, "shop", "The Store")
	require.EqualError(t, err, `environment "The Store" not found in namespace shop: the environment with this display name is store-1a2b`)
	_, err = environmentNamed(t.Context(), c, "back", "store-1a2b")
	require.EqualError(t, err, `environment "store-1a2b" not found in namespace back`)
}

// revision is a ControllerRevision as the controller makes it.
func revision(t *testing.T, e *v1alpha1.Environment, number int64, actor, changes string, change func(*v1alpha1.EnvironmentSpec)) *appsv1.ControllerRevision {
	t.Helper()
	spec := e.Spec.DeepCopy()
	change(spec)
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: fmt.Sprintf("%s-%d", e.Name, number), Labels: render.Labels(e), Annotations: map[string]string{},
			CreationTimestamp: clitest.Ago(time.Duration(4-number) * time.Hour),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "berth.dev/v1alpha1", Kind: "Environment", Name: e.Name, UID: e.UID, Controller: new(true)}},
		},
		Revision: number, Data: runtime.RawExtension{Raw: text},
	}
	r.Annotations[v1alpha1.ClientAnnotation] = "kubectl-edit"
	if actor != "" {
		r.Annotations[v1alpha1.ActorAnnotation], r.Annotations[v1alpha1.ClientAnnotation] = actor, "berth-services"
	}
	if changes != "" {
		r.Annotations[v1alpha1.ChangesAnnotation] = changes
	}
	return r
}

// revisions are three, and one of an environment of the same name that is gone.
func revisions(t *testing.T) []client.Object {
	e := store()
	gone := revision(t, e, 9, "", "", func(*v1alpha1.EnvironmentSpec) {})
	gone.OwnerReferences[0].UID = types.UID("gone")
	return []client.Object{
		revision(t, e, 3, "alice", "spec.stack.backend.replicas: absent -> 3\nspec.a: 1 -> 2\nspec.b: 1 -> 2\nspec.c: 1 -> 2\nspec.d: 1 -> 2", func(*v1alpha1.EnvironmentSpec) {}),
		gone,
		revision(t, e, 1, "", "", func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Backend.Replicas, s.Stack.Backend.Container.Image = nil, "node:20"
			s.RunPolicy, s.ForceStop, s.RestartedAt = v1alpha1.RunPolicyStopped, true, new(clitest.Ago(9*time.Hour))
		}),
		revision(t, e, 2, "alice", "spec.stack.backend.container.image: node:20 -> node:22-alpine", func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Backend.Replicas = nil
			s.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: "lost"}
		}),
	}
}

func TestTheHistoryOfAnEnvironmentIsShown(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, append(revisions(t), store())...)
	h, err := change.Revisions(t.Context(), c, store())
	require.NoError(t, err)
	clitest.Goldens(t, "", map[string]string{"history.txt": printers.Text, "history-wide.txt": printers.Wide, "history.json": printers.JSON},
		func(o *command.Options) error { return showEnvironmentHistory(o, h) })
	r, err := h.Find(1)
	require.NoError(t, err)
	clitest.Goldens(t, "", map[string]string{"revision.yaml": printers.Text}, func(o *command.Options) error { return showSpec(o, &r.Spec) })

	_, err = h.Find(4)
	require.EqualError(t, err, "environment.berth.dev/store-1a2b has no revision 4: it has 1, 2, 3")
	_, err = (&change.History{Name: "x"}).Find(1)
	require.EqualError(t, err, "environment.berth.dev/x has no revision 1: it has no revisions yet")

	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error {
		return showEnvironmentHistory(o, &change.History{Namespace: "shop", Name: "x"})
	})
	assert.Empty(t, out)
	assert.Contains(t, errOut, "has no revisions yet")
}
