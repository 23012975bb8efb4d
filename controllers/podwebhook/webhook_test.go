// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/test/builders"
)

func limit(name string, change func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1}}
	l.Spec.CPU = new(resource.MustParse("2"))
	if change != nil {
		change(&l.Spec)
	}
	return l
}

func handler(all ...*v1alpha1.ResourceLimit) *Handler {
	registry := registry.NewRegistry("")
	for _, l := range all {
		registry.Set(l)
	}
	return &Handler{Limits: registry, Synced: func() bool { return true }, SchedulerName: "berth-scheduler"}
}

func ask(h *Handler, raw string) admission.Response {
	return h.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(raw)},
	}})
}

// patched does what the API server does with an answer.
func patched(t *testing.T, raw string, r admission.Response) map[string]any {
	t.Helper()
	text, err := json.Marshal(r.Patches)
	require.NoError(t, err)
	if r.Patches == nil {
		text = []byte("[]")
	}
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	out, err := patch.Apply([]byte(raw))
	require.NoError(t, err, "%s", text)
	var o map[string]any
	require.NoError(t, json.Unmarshal(out, &o))
	return o
}

func at(o any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			o = o.(map[string]any)[key]
		case int:
			o = o.([]any)[key]
		}
	}
	return o
}

const plain = `{"metadata":{"generateName":"web-","labels":{"berth.dev/resource-limit":"small"}},
	"spec":{"schedulerName":"default-scheduler","containers":[{"name":"main","image":"i","resources":{}}]}}`

func TestAPodIsFilledIn(t *testing.T) {
	r := ask(handler(limit("small", nil)), plain)
	require.True(t, r.Allowed)
	assert.Empty(t, r.Warnings)
	pod := patched(t, plain, r)
	assert.Equal(t, "berth-scheduler", at(pod, "spec", "schedulerName"))
	assert.Equal(t, "2", at(pod, "spec", "containers", 0, "resources", "requests", "cpu"))
	assert.Equal(t, "shop/small@1", at(pod, "metadata", "annotations", v1alpha1.ResolvedLimitAnnotation))
	assert.Nil(t, at(pod, "metadata", "namespace"), "the request has it")
}

// A newer API server sends fields that this program does not have, and may
// leave out what is empty.
func TestFieldsOfANewerAPIServerStay(t *testing.T) {
	raw := `{"metadata":{"generateName":"web-","annotations":{"berth.dev/resource-limit":"small"},"novel":1},
		"spec":{"novel":{"a":[1]},"containers":[{"name":"main","novel":true},{"name":"other","novel":2}]}}`
	pod := patched(t, raw, ask(handler(limit("small", nil)), raw))
	assert.Equal(t, "2", at(pod, "spec", "containers", 0, "resources", "requests", "cpu"))
	assert.InDelta(t, 1, at(pod, "metadata", "novel"), 0)
	assert.Equal(t, map[string]any{"a": []any{1.0}}, at(pod, "spec", "novel"))
	assert.Equal(t, true, at(pod, "spec", "containers", 0, "novel"))
	assert.Equal(t, map[string]any{"name": "other", "novel": 2.0}, at(pod, "spec", "containers", 1))
}

func TestTheSchedulerIsSetWhereThePodNamesNone(t *testing.T) {
	for name, tc := range map[string]struct {
		raw, configured, want string
	}{
		"none":               {`{"spec":{"containers":[]}}`, "berth-scheduler", "berth-scheduler"},
		"the default":        {`{"spec":{"schedulerName":"default-scheduler","containers":[]}}`, "berth-scheduler", "berth-scheduler"},
		"another":            {`{"spec":{"schedulerName":"mine","containers":[]}}`, "berth-scheduler", "mine"},
		"it has a node":      {`{"spec":{"schedulerName":"default-scheduler","nodeName":"n","containers":[]}}`, "berth-scheduler", "default-scheduler"},
		"not configured":     {`{"spec":{"schedulerName":"default-scheduler","containers":[]}}`, "", "default-scheduler"},
		"a mirror of a file": {`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"schedulerName":"default-scheduler","containers":[]}}`, "berth-scheduler", "default-scheduler"},
	} {
		h := handler()
		h.SchedulerName = tc.configured
		assert.Equal(t, tc.want, at(patched(t, tc.raw, ask(h, tc.raw)), "spec", "schedulerName"), name)
	}
}

func TestWarnings(t *testing.T) {
	many := map[string]v1alpha1.VolumeLimit{}
	raw := `{"metadata":{"labels":{"berth.dev/resource-limit":"small"}},"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"3"}}}],"volumes":[`
	for name := range strings.SplitSeq("abcdefghi", "") {
		many[name] = v1alpha1.VolumeLimit{Size: resource.MustParse("1Gi")}
		raw += `{"name":"` + name + `"},`
	}
	raw = strings.TrimSuffix(raw, ",") + "]}}"
	for name, tc := range map[string]struct {
		limit *v1alpha1.ResourceLimit
		want  []string // how they begin
	}{
		"a limit that does not exist": {limit("large", nil), []string{`berth: ResourceLimit "shop/small" does not exist`}},
		"a pod above its limit": {limit("small", nil), []string{
			"berth: spec.containers[0].resources.limits.cpu is left unset: of 2 the other containers leave 2",
			`berth: ResourceLimit "shop/small": cpu request 3 is above 2: berth-scheduler will not place the pod`,
		}},
	} {
		r := ask(handler(tc.limit), raw)
		require.True(t, r.Allowed, name)
		require.Len(t, r.Warnings, len(tc.want), name)
		for i, w := range tc.want {
			assert.Truef(t, strings.HasPrefix(r.Warnings[i], w), "%s: %s", name, r.Warnings[i])
		}
	}
	r := ask(handler(limit("small", func(s *v1alpha1.ResourceLimitSpec) { s.Volumes = many })), raw)
	require.Len(t, r.Warnings, maxWarnings)
	assert.Equal(t, "berth: 4 more", r.Warnings[maxWarnings-1])
	long := bounded([]string{strings.Repeat("ü\n", 500)})
	assert.LessOrEqual(t, len(long[0]), maxWarningLength)
	assert.NotContains(t, long[0], "\n")
}

type panics struct{}

func (panics) For(*corev1.Pod) registry.Resolution { panic("a bug") }

func TestWhateverHappensThePodIsAllowed(t *testing.T) {
	broken, early := handler(limit("small", nil)), handler(limit("small", nil))
	broken.Limits = panics{}
	early.Synced = func() bool { return false }
	for name, r := range map[string]admission.Response{
		"a bug":        ask(broken, plain),
		"not read yet": ask(early, plain),
		"no pod":       ask(handler(), `{"spec":[]}`),
		"no JSON":      ask(handler(), `{`),
	} {
		assert.True(t, r.Allowed, name)
		assert.Empty(t, r.Patches, name)
		require.Len(t, r.Warnings, 1, name)
		assert.Contains(t, r.Warnings[0], "the pod is left as it is", name)
	}
	update := handler(limit("small", nil)).Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: []byte(plain)},
	}})
	assert.True(t, update.Allowed)
	assert.Empty(t, update.Patches, "only when a pod is created")
}

func TestNamesOfTheCertificate(t *testing.T) {
	for host, want := range map[string][]string{
		"": nil, "0.0.0.0": nil, "::": nil, "127.0.0.1": {"127.0.0.1"}, "::1": {"::1"}, "localhost": {"localhost"},
	} {
		names := namesOf(host, "berth-webhook", "berth-system")
		assert.Equal(t, []string{"berth-webhook.berth-system.svc", "berth-webhook.berth-system.svc.cluster.local"}, names.DNS[:2])
		got := names.DNS[2:]
		for _, ip := range names.IPs {
			got = append(got, ip.String())
		}
		assert.ElementsMatch(t, want, got, host)
	}
}

func FuzzHandle(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte(`{"metadata":{"labels":{"berth.dev/resource-limit":"small"}},"spec":{"containers":[null]}}`))
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1e99"}}}]}}`))
	h := handler(limit("small", func(s *v1alpha1.ResourceLimitSpec) {
		s.NodeSelector = map[string]string{"a": "b"}
		s.Volumes = map[string]v1alpha1.VolumeLimit{"data": {Size: resource.MustParse("1Gi")}}
	}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := ask(h, string(raw))
		require.True(t, r.Allowed)
		if len(r.Patches) > 0 {
			patched(t, string(raw), r)
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	t := builders.PodTemplate("web")
	t.Labels[v1alpha1.ResourceLimitLabel] = "small"
	raw, err := json.Marshal(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
	require.NoError(b, err)
	h := handler(limit("small", func(s *v1alpha1.ResourceLimitSpec) {
		s.NodeSelector = map[string]string{"disk": "ssd"}
		s.Volumes = map[string]v1alpha1.VolumeLimit{"data": {Size: resource.MustParse("1Gi")}}
	}))
	b.ReportAllocs()
	for b.Loop() {
		ask(h, string(raw))
	}
}
