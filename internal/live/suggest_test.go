// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/suggest"
	"berth.dev/berth/test/clitest"
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: clitest.Ago(48 * time.Hour)}
}

func ownedBy(kind, apiVersion, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
}

// set is a StatefulSet with its pods.
func set(name string, replicas int, change func(*corev1.Pod)) []client.Object {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	list := []client.Object{&appsv1.StatefulSet{
		ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(replicas)), Selector: selector},
	}}
	for i := range replicas {
		p := &corev1.Pod{ObjectMeta: named(fmt.Sprintf("%s-%d", name, i))}
		p.Labels = map[string]string{"app": name, "apps.kubernetes.io/pod-index": fmt.Sprint(i)}
		p.OwnerReferences = ownedBy("StatefulSet", "apps/v1", name)
		p.Spec.NodeName, p.Spec.SchedulerName = "o1", "berth-scheduler"
		p.Status.StartTime = new(clitest.Ago(47 * time.Hour))
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: clitest.Ago(47*time.Hour - time.Minute),
		}}
		change(p)
		list = append(list, p)
	}
	return list
}

func withClaim(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + p.Labels["app"]},
	}}}
}

func claim(app string, source corev1.PersistentVolumeSource) []client.Object {
	return []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: named("data-" + app), Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv-" + app, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + app}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}},
	}
}

// world has a workload for most of what is read.
func world(t *testing.T) (list []client.Object) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "o1", Labels: map[string]string{
		"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/region": "us-east-1",
		"topology.kubernetes.io/zone": "a",
	}}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1"}}
	list = append(list, node)
	list = append(list, set("local", 3, withClaim)...)
	list = append(list, claim("local", corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/d"}})...)
	list = append(list, set("attached", 4, withClaim)...)
	list = append(list, claim("attached", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs"}})...)
	list = append(list, set("slow", 3, func(p *corev1.Pod) { p.Status.StartTime = new(clitest.Ago(47*time.Hour + 10*time.Minute)) })...)
	list = append(list, set("loops", 3, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 9}}
	})...)
	list = append(list, set("first", 2, func(p *corev1.Pod) {
		p.Spec.Priority, p.Spec.PriorityClassName = new(int32(2_000_000_000)), "system-cluster-critical"
	})...)
	list = append(list, set("long", 2, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(600)) })...)
	list = append(list, set("shared-a", 4, func(p *corev1.Pod) { p.Labels["tier"] = "shared" })...)
	list = append(list, set("shared-b", 4, func(p *corev1.Pod) { p.Labels["tier"] = "shared" })...)
	list = append(list, &policyv1.PodDisruptionBudget{ObjectMeta: named("shared"), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "shared"}}, MaxUnavailable: new(intstr.FromInt32(2)),
	}})
	list = append(list, set("twin", 4, func(p *corev1.Pod) { p.Labels["role"] = "twin" })...)
	for _, app := range []string{"copy", "late"} { // pods of other owners have the labels that the StatefulSet selects
		p := &corev1.Pod{ObjectMeta: named("job-" + app)}
		p.Labels = map[string]string{"app": "twin", "role": app}
		p.OwnerReferences = ownedBy("Job", "batch/v1", "job-"+app)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: named("job-" + app)}
		if app == "late" {
			job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}}
		}
		list = append(list, p, job)
	}
	return list
}

// looker is a user for whom lists are refused, with what was called and warned.
type looker struct {
	live.User
	calls, warned []string
}

func look(t *testing.T, objects []client.Object, refused ...string) *looker {
	t.Helper()
	l := &looker{}
	refuse := func(v any) error {
		for _, kind := range refused {
			if strings.HasSuffix(fmt.Sprintf("%T", v), "."+kind) {
				return apierrors.NewForbidden(corev1.Resource(kind), "", errors.New("no"))
			}
		}
		return nil
	}
	changed := func(verb string) error {
		l.calls = append(l.calls, verb)
		return nil
	}
	c := clitest.Client(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			l.calls = append(l.calls, "list")
			if err := refuse(list); err != nil {
				return err
			}
			return c.List(ctx, list, o...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			l.calls = append(l.calls, "get")
			if err := refuse(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return changed("create")
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return changed("update")
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return changed("delete")
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return changed("patch")
		},
	}, objects...)
	l.User = live.User{Client: c, Now: func() time.Time { return clitest.Now }, Warn: func(format string, args ...any) {
		l.warned = append(l.warned, fmt.Sprintf(format, args...))
	}}
	l.SystemNamespace = "berth-system"
	return l
}

// reasons are the findings of each workload, as far as they block or limit.
func reasons(s *overview.Suggestions) map[string]string {
	all := map[string]string{}
	for i := range s.Suggestions {
		var list []string
		for _, f := range append(s.Suggestions[i].With(suggest.Blocks), s.Suggestions[i].With(suggest.Limits)...) {
			list = append(list, f.Reason)
		}
		all[s.Suggestions[i].Name] = strings.Join(list, " ")
	}
	return all
}

func TestSuggestionsAreMadeOfWhatTheClusterHas(t *testing.T) {
	l := look(t, world(t))
	s, _, err := l.Suggest(t.Context(), "shop", nil, prices.Options{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"local":    "LocalVolume Stateful VeryFrequentInterruptions",
		"attached": "Stateful AttachedVolume VeryFrequentInterruptions",
		"slow":     "TooFewReplicas Stateful VerySlowStart VeryFrequentInterruptions",
		"loops":    "Restarting Stateful VeryFrequentInterruptions",
		"first":    "SystemCritical Stateful VeryFrequentInterruptions",
		"long":     "LongTermination Stateful VeryFrequentInterruptions",
		"shared-a": "Budget Stateful VeryFrequentInterruptions",
		"shared-b": "Budget Stateful VeryFrequentInterruptions",
		"twin":     "Stateful VeryFrequentInterruptions",
		"job-copy": "RunsToCompletion SingleReplica",
		"job-late": "SingleReplica",
	}, reasons(s))
	assert.Empty(t, l.warned)
	for i := range s.Suggestions {
		switch one := &s.Suggestions[i]; one.Name {
		case "shared-a":
			assert.EqualValues(t, 1, *one.Mix.MaxSpot, "half of what the budget allows")
			assert.Equal(t, map[string]string{"app": "shared-a"}, one.Selector.MatchLabels)
			assert.Equal(t, ">=0.20", one.Interruptions.String())
			assert.Nil(t, one.SavingPerMonth, "the pods request nothing")
		case "twin":
			assert.Equal(t, map[string]string{"app": "twin", "role": "twin"}, one.Selector.MatchLabels, "the Jobs have the label app, too")
		}
	}
}

// It writes nothing: no call but get and list.
func TestSuggestReadsOnly(t *testing.T) {
	l := look(t, world(t))
	_, _, err := l.Suggest(t.Context(), "", nil, prices.Options{})
	require.NoError(t, err)
	assert.Contains(t, l.calls, "get")
	for _, call := range l.calls {
		assert.Contains(t, []string{"get", "list"}, call)
	}
}

func TestSuggestNamesTheListsThatAreRefused(t *testing.T) {
	l := look(t, world(t), "PersistentVolumeList", "NodeList", "PodDisruptionBudgetList", "ConfigMap")
	s, _, err := l.Suggest(t.Context(), "shop", nil, prices.Options{})
	require.NoError(t, err)
	text := strings.Join(l.warned, "\n")
	for _, want := range []string{
		"not allowed: list nodes", "not allowed: list poddisruptionbudgets.policy in namespace shop", "not allowed: list persistentvolumes",
		"not allowed: read ConfigMap berth-controller-interruptions: domains in quarantine are unknown",
	} {
		assert.Contains(t, text, want)
	}
	found := reasons(s)
	assert.Equal(t, "VolumesUnknown BudgetsUnknown Stateful", found["attached"])
	assert.Equal(t, "BudgetsUnknown Stateful", found["twin"])
	for i := range s.Suggestions {
		assert.Nil(t, s.Suggestions[i].Interruptions)
	}
	s, _, err = look(t, world(t), "CapacityMixList").Suggest(t.Context(), "shop", nil, prices.Options{})
	require.NoError(t, err)
	assert.Contains(t, reasons(s)["twin"], "MixesUnknown")
	_, _, err = look(t, nil, "PodList").Suggest(t.Context(), "shop", nil, prices.Options{})
	require.EqualError(t, err, "cannot list pods: suggestions depend on them")
	s, _, err = look(t, nil).Suggest(t.Context(), "", nil, prices.Options{})
	require.NoError(t, err)
	assert.Empty(t, s.Suggestions, "an empty cluster")
}

// Volumes are not read where no pod has a claim: users of a namespace may not list them.
func TestVolumesAreReadForClaimsOnly(t *testing.T) {
	l := look(t, set("web", 3, func(*corev1.Pod) {}), "PersistentVolumeList", "PersistentVolumeClaimList")
	_, _, err := l.Suggest(t.Context(), "shop", nil, prices.Options{})
	require.NoError(t, err)
	assert.Empty(t, l.warned)
}

func TestDomainsInQuarantineAreNoted(t *testing.T) {
	settings, err := live.Defaults()
	require.NoError(t, err)
	objects := world(t)
	c, err := overviewOf(t, objects)
	require.NoError(t, err)
	domain := c.State.Node("o1").Domain
	table := interruptions.Table{Keys: settings.Profile.Args.SpreadSpotOver}
	in := interruptions.Interruption{Node: "gone", Domain: domain}
	table, _ = table.Observe(in, clitest.Now, interruptions.Settings{SharePercent: 1, Quarantine: time.Hour, Longest: time.Hour})
	text, err := table.Encode()
	require.NoError(t, err)
	objects = append(objects, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: interruptions.ConfigMap}, Data: map[string]string{interruptions.DataKey: text},
	})
	s, _, err := look(t, objects).Suggest(t.Context(), "shop", nil, prices.Options{})
	require.NoError(t, err)
	for _, one := range s.Suggestions {
		if one.Name == "twin" {
			assert.Contains(t, one.Findings, suggest.Finding{
				Reason: "Quarantine", Effect: suggest.Notes, Message: "in quarantine after interruptions: " + domain, Field: "Node", Change: "apply the mix later",
			})
		}
	}
}

func overviewOf(t *testing.T, objects []client.Object) (*overview.Cluster, error) {
	t.Helper()
	l := look(t, objects)
	return l.Load(t.Context(), "shop")
}
