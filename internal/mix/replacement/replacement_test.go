// SPDX-License-Identifier: Apache-2.0

package replacement_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/replacement"
)

func podOf(apiVersion, kind string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2", Labels: map[string]string{
		"app": "web", "added": "by-the-operator", "topology.kubernetes.io/zone": "a",
	}}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "owner", Controller: new(true), BlockOwnerDeletion: new(true)}}
	}
	return p
}

func template(cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}},
			Volumes:    []corev1.Volume{{Name: "data"}, {Name: "cache"}},
		},
	}
}

func TestOnlyWhatSomethingRecreatesIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		apiVersion, kind string
		policy           corev1.RestartPolicy
		lost             string
	}{
		"no controller":                    {lost: "no controller"},
		"a ReplicaSet":                     {apiVersion: "apps/v1", kind: "ReplicaSet"},
		"a StatefulSet":                    {apiVersion: "apps/v1", kind: "StatefulSet"},
		"a ReplicationController":          {apiVersion: "v1", kind: "ReplicationController"},
		"a Job":                            {apiVersion: "batch/v1", kind: "Job", policy: corev1.RestartPolicyNever, lost: "would count it as failed"},
		"a Job of another project":         {apiVersion: "batch.example.com/v1", kind: "Job", policy: corev1.RestartPolicyAlways},
		"a Deployment as the controller":   {apiVersion: "apps/v1", kind: "Deployment", lost: "creates no pods itself"},
		"a ConfigMap as the controller":    {apiVersion: "v1", kind: "ConfigMap", lost: "creates no pods itself"},
		"a step of a workflow":             {apiVersion: "argoproj.io/v1alpha1", kind: "Workflow", policy: corev1.RestartPolicyNever, lost: "restartPolicy is Never"},
		"a driver":                         {apiVersion: "example.com/v1", kind: "Application", policy: corev1.RestartPolicyOnFailure, lost: "restartPolicy is OnFailure"},
		"an unknown kind that runs always": {apiVersion: "example.com/v1", kind: "Clone", policy: corev1.RestartPolicyAlways},
		"an unknown kind without a policy": {apiVersion: "example.com/v1", kind: "Clone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(c.apiVersion, c.kind)
			p.Spec.RestartPolicy = c.policy
			if lost := replacement.Lost(p); c.lost == "" {
				assert.Empty(t, lost)
			} else {
				assert.Contains(t, lost, c.lost)
			}
		})
	}
}

func TestReplicasCountOnlyPodsOfKindsThatCreatePods(t *testing.T) {
	counting := map[string]string{"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}
	for kind, apiVersion := range counting {
		assert.True(t, replacement.KindOf(apiVersion, kind).Counts(), kind)
		assert.False(t, replacement.KindOf("example.com/v1", kind).Counts(), "%s of another group", kind)
	}
	assert.False(t, replacement.KindOf("apps/v1", "Deployment").Counts())
	assert.False(t, replacement.MakerOf(nil).Counts())
}

// The cases follow newVersionedStatefulSetPod of Kubernetes 1.37.
func TestAStatefulSetCreatesFromTheRevisionOfAnOrdinal(t *testing.T) {
	rolling := func(partition int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
		}
	}
	for name, c := range map[string]struct {
		strategy appsv1.StatefulSetUpdateStrategy
		start    int32
		current  int32
		revision string // of web-2
	}{
		"OnDelete":                       {strategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, current: 4, revision: "web-new"},
		"below the partition":            {strategy: rolling(3), revision: "web-old"},
		"at the partition":               {strategy: rolling(2), revision: "web-new"},
		"no partition":                   {strategy: rolling(0), current: 4, revision: "web-new"},
		"the partition counts from":      {strategy: rolling(1), start: 2, revision: "web-old"},
		"no parameters, below current":   {strategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}, current: 3, revision: "web-old"},
		"no parameters, current no more": {strategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}, current: 2, revision: "web-new"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			s.Spec.UpdateStrategy, s.Spec.Template = c.strategy, template("1")
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: c.start}
			s.Status.CurrentRevision, s.Status.UpdateRevision, s.Status.CurrentReplicas = "web-old", "web-new", c.current
			got, err := replacement.Of(s, podOf("apps/v1", "StatefulSet"))
			require.NoError(t, err)
			assert.Equal(t, c.revision, got.Revision)
			assert.Equal(t, c.revision == "web-old", got.Pod == nil, "the old template is in a ControllerRevision")
		})
	}
}

func TestAStatefulSetThatItsControllerHasNotSeenIsUnknown(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}
	s.Status.ObservedGeneration = 1
	_, err := replacement.Of(s, podOf("apps/v1", "StatefulSet"))
	assert.ErrorContains(t, err, "status.updateRevision")
}

func TestTheReplacementOfAStatefulSetKeepsItsIdentity(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	s.Spec.Template, s.Spec.ServiceName = template("1"), "peers"
	s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(9))}
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	s.Status.CurrentRevision, s.Status.UpdateRevision = "web-old", "web-new"
	old := podOf("apps/v1", "StatefulSet")
	got, err := replacement.Of(s, old)
	require.NoError(t, err)
	revised := template("4")
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": revised.ObjectMeta, "spec": revised.Spec, "$patch": "replace"}}})
	require.NoError(t, err)
	require.NoError(t, got.ReadRevision(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: raw}}))
	p := got.Replacement(old)
	assert.Equal(t, map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2", "controller-revision-hash": "web-old",
	}, p.Labels)
	assert.Equal(t, "web-2", p.Spec.Hostname)
	assert.Equal(t, "peers", p.Spec.Subdomain)
	require.Len(t, p.Spec.Volumes, 2)
	assert.Equal(t, "data-web-2", p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	assert.Equal(t, "cache", p.Spec.Volumes[1].Name)
	assert.Equal(t, "4", p.Spec.Containers[0].Resources.Limits.Cpu().String())
	assert.NotEqual(t, old.Name, p.Name, "a dry run must not meet the pod that runs")
	assert.Regexp(t, "^web-.*-2$", p.Name, "webhooks read the ordinal")
	assert.Nil(t, p.OwnerReferences[0].BlockOwnerDeletion, "it would require a right on the finalizers of the owner")
}

// The webhook of LeaderWorkerSet reads the ordinal from the name, and keeps the labels that are there.
func TestTheReplacementOfALeaderStaysInItsGroup(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	s.Spec.Template = template("1")
	old := podOf("apps/v1", "StatefulSet")
	group := map[string]string{"leaderworkerset.sigs.k8s.io/name": "web", "leaderworkerset.sigs.k8s.io/group-index": "2", "leaderworkerset.sigs.k8s.io/group-key": "a1b2"}
	maps.Copy(old.Labels, group)
	s.Spec.Template.Labels["leaderworkerset.sigs.k8s.io/name"] = "web"
	got, err := replacement.Of(s, old)
	require.NoError(t, err)
	next := got.Replacement(old, "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/subgroup-key")
	assert.Subset(t, next.Labels, group)
	assert.NotContains(t, next.Labels, "leaderworkerset.sigs.k8s.io/subgroup-key")
}

// A name is a valid one that is a value of labels, too, ends with the ordinal, and is the same for each proof of a pod.
func TestTheNameOfANumberedReplacementIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ordinal := rapid.StringMatching("[0-9]{1,6}").Draw(t, "ordinal")
		old := podOf("apps/v1", "StatefulSet")
		old.Name = rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,59}[a-z0-9])?`).Draw(t, "set") + "-" + ordinal
		old.UID = types.UID(rapid.String().Draw(t, "uid"))
		s := &appsv1.StatefulSet{}
		s.Spec.Template = template("1")
		got, err := replacement.Of(s, old)
		require.NoError(t, err)
		name := got.Replacement(old).Name
		assert.NotEqual(t, old.Name, name)
		assert.Equal(t, name, got.Replacement(old).Name)
		assert.True(t, strings.HasSuffix(name, "-"+ordinal), name)
		assert.LessOrEqual(t, len(name), 63)
		if !strings.Contains(old.Name, "..") && !strings.Contains(old.Name, ".-") && !strings.Contains(old.Name, "-.") {
			assert.Empty(t, validation.IsDNS1123Subdomain(name))
		}
	})
}

func TestANumberedPodOfAnUnknownKindIsReplacedByANumberedOne(t *testing.T) {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(template("1")))
	require.NoError(t, err)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": whole}}}
	got, err := replacement.OfUnknown(o, nil)
	require.NoError(t, err)
	old := podOf("example.com/v1", "Set")
	assert.Regexp(t, "^web-.+-2$", got.Replacement(old).Name)
	old.GenerateName = "web-"
	assert.Empty(t, got.Replacement(old).Name, "its controller has the API server complete the name")
	old.GenerateName, old.Name = "", "primary"
	assert.Equal(t, "primary-", got.Replacement(old).GenerateName)
}

func TestARevisionWithoutATemplateIsNoTemplate(t *testing.T) {
	for _, raw := range []string{"", "{}", "[]", `{"spec":{}}`, `{"spec":{"template":7}}`} {
		var got replacement.Template
		assert.Error(t, got.ReadRevision(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(raw)}}), raw)
	}
}

func TestAnUnknownKindHasATemplateOnlyIfItIsOneOfPods(t *testing.T) {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(template("1")))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		spec map[string]any
		want string
	}{
		"a template":          {spec: map[string]any{"template": whole}},
		"none":                {spec: map[string]any{}, want: "Set web has no spec.template"},
		"a text":              {spec: map[string]any{"template": "pod"}, want: "no spec.template"},
		"something else":      {spec: map[string]any{"template": map[string]any{"spec": map[string]any{"steps": int64(3)}}}, want: "no spec.containers"},
		"containers of texts": {spec: map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{"main"}}}}, want: "is no template of a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
			o.SetKind("Set")
			o.SetName("web")
			got, err := replacement.OfUnknown(o, nil)
			if c.want != "" {
				assert.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			p := got.Replacement(podOf("example.com/v1", "Set"))
			assert.Equal(t, map[string]string{"app": "web", "added": "by-the-operator"}, p.Labels, "labels of the node are of the pod that runs")
		})
	}
}

// Kinds with a partition or with revisions of their own create from an older template while they are updated.
func TestTheTemplateOfAnUnknownKindIsUnknownDuringAnUpdate(t *testing.T) {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(template("1")))
	require.NoError(t, err)
	hash := func(values ...string) (pods []map[string]string) {
		for _, v := range values {
			pods = append(pods, map[string]string{"app": "web", appsv1.ControllerRevisionHashLabelKey: v})
		}
		return pods
	}
	for name, c := range map[string]struct {
		status map[string]any
		pods   []map[string]string
		want   string // "" if the template is known
	}{
		"no status":                            {pods: hash("old", "old")},
		"no revision":                          {pods: []map[string]string{{"app": "web"}, {"app": "web", "added": "by-a-webhook"}}},
		"one revision":                         {status: map[string]any{"currentRevision": "web-new", "updateRevision": "web-new"}, pods: hash("web-new")},
		"the label has the hash only":          {status: map[string]any{"updateRevision": "web-new"}, pods: hash("new", "new")},
		"the status has the hash only":         {status: map[string]any{"updateRevision": "new"}, pods: hash("web-new")},
		"no pod has the label":                 {status: map[string]any{"updateRevision": "web-new"}, pods: hash("", "")},
		"a revision of another type":           {status: map[string]any{"updateRevision": int64(2), "currentRevision": int64(1)}},
		"the status is no map":                 {status: nil, pods: hash("new")},
		"pods of two revisions":                {pods: hash("new", "old", "new"), want: "values new and old of the label controller-revision-hash"},
		"pods of two templates":                {pods: []map[string]string{{"pod-template-hash": "1"}, {"pod-template-hash": "2"}}, want: "values 1 and 2 of the label pod-template-hash"},
		"a partition that keeps all pods":      {status: map[string]any{"currentRevision": "web-old", "updateRevision": "web-new"}, pods: hash("old"), want: "status.currentRevision is web-old"},
		"the status names the new one only":    {status: map[string]any{"updateRevision": "web-new"}, pods: hash("old"), want: "the value old of the label"},
		"its controller has not seen it":       {status: map[string]any{"observedGeneration": int64(6)}, want: "status.observedGeneration is 6, and metadata.generation is 7"},
		"its controller has seen it":           {status: map[string]any{"observedGeneration": int64(7)}},
		"a current revision and no update":     {status: map[string]any{"currentRevision": "web-old"}, pods: hash("old")},
		"a suffix that is not the whole hash":  {status: map[string]any{"updateRevision": "web-new"}, pods: hash("ew"), want: "the value ew of the label"},
		"some pods are without their revision": {status: map[string]any{"updateRevision": "web-new"}, pods: hash("new", "")},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": whole}, "status": c.status}}
			o.SetKind("Set")
			o.SetName("web")
			o.SetGeneration(7)
			_, err := replacement.OfUnknown(o, c.pods)
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "Set web may create the next pod from another template than its spec.template: ")
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// Pods of one revision, with whatever admission adds to them, never make a template unknown; those of two always do.
func TestOnlyRevisionsOfPodsMakeATemplateUnknown(t *testing.T) {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(template("1")))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		revisions := map[string]bool{}
		var pods []map[string]string
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			labels := rapid.MapOf(rapid.SampledFrom([]string{"app", "zone", "injected"}), rapid.String()).Draw(t, "labels")
			if revision := rapid.SampledFrom([]string{"", "a", "a", "b"}).Draw(t, "revision"); revision != "" {
				labels[appsv1.ControllerRevisionHashLabelKey] = revision
				revisions[revision] = true
			}
			pods = append(pods, labels)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": whole}}}
		_, err := replacement.OfUnknown(o, pods)
		require.Equal(t, len(revisions) > 1, err != nil, "%v", err)
	})
}

func TestAPodThatIsNotAdmittedRequestsItsLimits(t *testing.T) {
	s := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template("3")}}
	old := podOf("apps/v1", "ReplicaSet")
	got, err := replacement.Of(s, old)
	require.NoError(t, err)
	p := replacement.AsAdmitted(got.Replacement(old), old)
	assert.Equal(t, "3", p.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, corev1.DefaultSchedulerName, p.Spec.SchedulerName)
	assert.Nil(t, s.Spec.Template.Spec.Containers[0].Resources.Requests, "the template is as it was")
}

// Users write what a revision and a custom object hold.
func FuzzTemplatesOfUsers(f *testing.F) {
	f.Add([]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main"}]}}}}`))
	f.Add([]byte(`{"spec":{"template":{"metadata":{"labels":7},"spec":{"containers":[7]}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		old := podOf("example.com/v1", "Set")
		var revised replacement.Template
		if revised.ReadRevision(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: raw}}) == nil {
			assert.Equal(t, old.Namespace, revised.Replacement(old).Namespace)
		}
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if json.Unmarshal(raw, &o.Object) != nil {
			return
		}
		if got, err := replacement.OfUnknown(o, nil); err == nil {
			assert.Equal(t, old.Namespace, got.Replacement(old).Namespace)
		}
	})
}
