// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var ofEnvironment = map[string]string{v1alpha1.EnvironmentLabel: "shop", v1alpha1.EnvironmentNamespaceLabel: "team"}

func TestEnvironmentsWritesOnlyItsSecrets(t *testing.T) {
	s := start(t)
	secret := func(change func(*corev1.Secret)) *corev1.Secret {
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "new", Labels: ofEnvironment}, Type: corev1.SecretTypeOpaque}
		change(o)
		return o
	}
	owned := []metav1.OwnerReference{{APIVersion: "berth.dev/v1alpha1", Kind: "Environment", Name: "shop", UID: "1", Controller: new(true)}}
	for name, tc := range map[string]struct {
		change func(*corev1.Secret)
		want   string
	}{
		"of an environment": {func(*corev1.Secret) {}, ""},
		"owned by one":      {func(o *corev1.Secret) { o.Labels, o.OwnerReferences = nil, owned }, ""},
		"without a label":   {func(o *corev1.Secret) { o.Labels = nil }, "metadata.labels:"},
		"owned by something else": {func(o *corev1.Secret) {
			o.Labels, o.OwnerReferences = nil, owned
			o.OwnerReferences[0].APIVersion = "v1"
		}, "metadata.labels:"},
		"of kube-system": {func(o *corev1.Secret) { o.Namespace = "kube-system" }, "metadata.namespace:"},
		"of kube-public": {func(o *corev1.Secret) { o.Namespace = "kube-public" }, "metadata.namespace:"},
		"of Berth":       {func(o *corev1.Secret) { o.Namespace = "berth-system" }, "metadata.namespace:"},
		"the token of an account": {func(o *corev1.Secret) {
			o.Type = corev1.SecretTypeServiceAccountToken
			o.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		}, "type:"},
		"a certificate of its own": {func(o *corev1.Secret) { o.Namespace, o.Name, o.Labels = "berth-system", "berth-webhook-certs", nil }, "metadata.labels:"},
	} {
		owned[0].APIVersion = "berth.dev/v1alpha1"
		t.Run(name, func(t *testing.T) {
			s.judge(t, s.environments.Create(s.Ctx, secret(tc.change), client.DryRunAll), tc.want)
		})
	}

	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string][]byte{"a": []byte("b")}}
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Labels: ofEnvironment}}
	s.Create(theirs, mine)
	for _, o := range []*corev1.Secret{theirs, mine} {
		want := ""
		if o == theirs {
			want = "metadata.labels:"
		}
		s.judge(t, patch(s, s.environments, o, func(o *corev1.Secret) {
			o.Labels, o.Data = ofEnvironment, map[string][]byte{"a": []byte("c")}
		}), want)
		s.judge(t, s.environments.Delete(s.Ctx, o, client.DryRunAll), want)
	}
	certs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-webhook-certs"}}
	require.NoError(t, client.IgnoreAlreadyExists(s.Client.Create(s.Ctx, certs)))
	require.NoError(t, s.Client.Get(s.Ctx, client.ObjectKeyFromObject(certs), certs))
	certs.Data = map[string][]byte{"tls.key": []byte("x")}
	require.NoError(t, s.controller.Update(s.Ctx, certs, client.DryRunAll), "its own certificates")
}

func TestEnvironmentsWritesOnlyItsNamespaces(t *testing.T) {
	s := start(t)
	create := func(name string, labels map[string]string) error {
		return s.environments.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, client.DryRunAll)
	}
	baseline := map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
	maps.Copy(baseline, ofEnvironment)
	s.judge(t, create("env-shop", baseline), "")
	s.judge(t, create("env-shop", map[string]string{v1alpha1.EnvironmentLabel: "shop"}), "metadata.labels:")
	s.judge(t, create("kube-shop", ofEnvironment), "metadata.name:")

	mine := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "env-", Labels: ofEnvironment}}
	s.CreateForTest(mine)
	for name, want := range map[string]string{
		mine.Name: "", s.Namespace: "metadata.labels:", "kube-system": "metadata.labels:", "default": "metadata.labels:", "kube-node-lease": "metadata.labels:",
	} {
		ns := testenv.ReadIn(s.World, "", name, &corev1.Namespace{})
		s.judge(t, patch(s, s.environments, ns, func(ns *corev1.Namespace) {
			maps.Copy(ns.Labels, ofEnvironment)
			ns.Labels[v1alpha1.RetainedLabel] = "true"
		}), want)
		if name != "default" && name != "kube-system" { // no user may delete these
			s.judge(t, s.environments.Delete(s.Ctx, ns, client.DryRunAll), want)
		}
	}
}

func TestProgramsWriteOnlyWorkloadsOfTheirProduct(t *testing.T) {
	s := start(t)
	deployment := func(namespace string, labels map[string]string) *appsv1.Deployment {
		d := builders.Deployment("stolen", 1)
		d.Namespace, d.Labels = namespace, labels
		return d
	}
	ofRecord := map[string]string{v1alpha1.OwnerLabel: "cart"}
	for name, tc := range map[string]struct {
		by     client.Client
		object client.Object
		want   string
	}{
		"of a record":            {s.records, deployment(s.Namespace, ofRecord), ""},
		"of an environment":      {s.environments, deployment(s.Namespace, ofEnvironment), ""},
		"of the other product":   {s.records, deployment(s.Namespace, ofEnvironment), "metadata.labels: berth-records"},
		"of the other, too":      {s.environments, deployment(s.Namespace, ofRecord), "metadata.labels: berth-environments"},
		"theirs in kube-public":  {s.environments, deployment("kube-public", ofEnvironment), "metadata.namespace: berth-environments"},
		"without a label":        {s.records, deployment(s.Namespace, nil), "metadata.labels:"},
		"in kube-system":         {s.records, deployment("kube-system", ofRecord), "metadata.namespace:"},
		"in Berth's namespace":   {s.records, deployment("berth-system", ofRecord), "metadata.namespace:"},
		"a Service":              {s.records, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "x"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, "metadata.labels:"},
		"a Service of a record":  {s.records, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "x", Labels: ofRecord}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, ""},
		"a ConfigMap in kube-*":  {s.records, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "x", Labels: ofRecord}}, "metadata.namespace:"},
		"a ConfigMap without":    {s.records, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "x"}}, "metadata.labels:"},
		"a ConfigMap of records": {s.records, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "x", Labels: ofRecord}}, ""},
	} {
		t.Run(name, func(t *testing.T) { s.judge(t, tc.by.Create(s.Ctx, tc.object, client.DryRunAll), tc.want) })
	}
	theirs := builders.Deployment("theirs", 0)
	s.Create(theirs)
	s.judge(t, patch(s, s.records, theirs, func(d *appsv1.Deployment) { d.Labels = ofRecord }), "metadata.labels:")
	s.judge(t, s.records.Delete(s.Ctx, theirs, client.DryRunAll), "metadata.labels:")
}

// grant gives a user rights in the test's namespace.
func (s *scene) grant(user string, rules ...rbacv1.PolicyRule) {
	s.T.Helper()
	s.Create(builders.Grant("of-"+user, builders.User(user), rules...)...)
}

// A user who may write Environments must not read Secrets by them.
func TestAnEnvironmentNamesOnlySecretsThatItsAuthorMayRead(t *testing.T) {
	s := start(t)
	environments := builders.Rule("berth.dev", []string{"environments"}, "create", "update", "patch", "get")
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get"}}
	s.grant("tenant", environments)
	s.grant("reader", environments, secrets)
	env := func(database, backend string) *v1alpha1.Environment {
		e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "shop"}}
		e.Spec.Stack = v1alpha1.ApplicationStack{
			Name: "shop", Version: "1",
			Database: &v1alpha1.DatabaseComponent{Container: v1alpha1.EnvironmentContainer{Image: "postgres:17"}, DatabaseName: "shop", Username: "shop"},
			Backend:  &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{Image: "node:22"}},
		}
		if database != "" {
			e.Spec.Stack.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: database}
		}
		if backend != "" {
			e.Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: backend}
		}
		return e
	}
	s.waitRefused("spec.stack.backend.secretRef.name:", func() error {
		return s.as("tenant").Create(s.Ctx, env("", "victim-credentials"), client.DryRunAll)
	})
	for name, tc := range map[string]struct {
		user              string
		database, backend string
		want              string
	}{
		"none":                       {"tenant", "", "", ""},
		"one that may not be read":   {"tenant", "", "victim-credentials", "spec.stack.backend.secretRef.name: tenant may not get Secret victim-credentials"},
		"a database's":               {"tenant", "victim-credentials", "", "spec.stack.database.secretRef.name: tenant may not get"},
		"one of the name of its own": {"tenant", "", "shop-credentials", "spec.stack.backend.secretRef.name:"},
		"one that may be read":       {"reader", "own", "own", ""},
		"one that may, one that not": {"reader", "own", "victim-credentials", "spec.stack.backend.secretRef.name: reader may not get"},
		"the other way":              {"reader", "victim-credentials", "own", "spec.stack.database.secretRef.name: reader may not get"},
	} {
		t.Run(name, func(t *testing.T) {
			s.judge(t, s.as(tc.user).Create(s.Ctx, env(tc.database, tc.backend), client.DryRunAll), tc.want)
		})
	}

	// A user who changes what runs gets the Secret, so they need the right to it, whoever has named it.
	e := env("", "own")
	require.NoError(t, s.Client.Create(s.Ctx, e))
	change := func(user string, what func(*v1alpha1.Environment)) error { return patch(s, s.as(user), e, what) }
	const refused = "spec.stack.backend.secretRef.name: tenant may not get Secret own"
	for name, tc := range map[string]struct {
		what func(*v1alpha1.Environment)
		want string
	}{
		"the image":    {func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.Container.Image = "node:23" }, refused},
		"the command":  {func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.Container.Command = []string{"env"} }, refused},
		"the version":  {func(e *v1alpha1.Environment) { e.Spec.Stack.Version = "2" }, refused},
		"another part": {func(e *v1alpha1.Environment) { e.Spec.Stack.Database.Container.Image = "postgres:18" }, refused},
		"the network":  {func(e *v1alpha1.Environment) { e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true} }, refused},
		"labels":       {func(e *v1alpha1.Environment) { e.Labels = map[string]string{"team": "shop"} }, ""},
		"a finalizer":  {func(e *v1alpha1.Environment) { e.Finalizers = []string{"example.com/x"} }, ""},
		"nothing":      {func(*v1alpha1.Environment) {}, ""},
		"a stop":       {func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyStopped }, ""},
		"a restart":    {func(e *v1alpha1.Environment) { e.Spec.RestartedAt = new(metav1.Now()) }, ""},
		"a removal":    {func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.SecretRef = nil }, ""},
		"another":      {func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.SecretRef.Name = "another" }, "spec.stack.backend.secretRef.name:"},
		"one more":     {func(e *v1alpha1.Environment) { e.Spec.Stack.Database.SecretRef = e.Spec.Stack.Backend.SecretRef }, "spec.stack.database.secretRef.name:"},
	} {
		t.Run("a change of "+name, func(t *testing.T) {
			s.judge(t, change("tenant", tc.what), tc.want)
			if name != "another" {
				s.judge(t, change("reader", tc.what), "")
			}
		})
	}
	applied := &unstructured.Unstructured{}
	var err error
	applied.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(env("", "own"))
	require.NoError(t, err)
	applied.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Environment"))
	unstructured.RemoveNestedField(applied.Object, "status")
	require.NoError(t, s.as("tenant").Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("gitops"), client.ForceOwnership),
		"an unchanged specification")
	s.judge(t, patch(s, s.environments, e, func(e *v1alpha1.Environment) { e.Finalizers = []string{v1alpha1.EnvironmentFinalizer} }), "")
}

// The key of a Secret reaches a Job of the author of a backup.
func TestABackupNamesOnlySecretsThatItsAuthorMayRead(t *testing.T) {
	s := start(t)
	backups := builders.Rule("berth.dev", []string{"databasebackups", "databaserestores", "databasebackupschedules"}, "create", "update", "patch", "get")
	s.grant("tenant", backups)
	s.grant("reader", backups, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get"}})
	settings := func(secret string) (d v1alpha1.DatabaseBackupSettings) {
		d.Method = v1alpha1.DatabaseBackupDump
		if secret != "" {
			d.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: secret}
		}
		return d
	}
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: "shop"}
	backup := func(secret string) client.Object {
		return &v1alpha1.DatabaseBackup{ObjectMeta: meta, Spec: v1alpha1.DatabaseBackupSpec{Environment: "shop", DatabaseBackupSettings: settings(secret)}}
	}
	schedule := func(secret string) client.Object {
		return &v1alpha1.DatabaseBackupSchedule{ObjectMeta: meta, Spec: v1alpha1.DatabaseBackupScheduleSpec{
			Environment: "shop", Schedule: "@daily", DatabaseBackupSettings: settings(secret),
		}}
	}
	restore := func(secret string) client.Object {
		x := &v1alpha1.DatabaseRestore{ObjectMeta: meta, Spec: v1alpha1.DatabaseRestoreSpec{Environment: "other", Backup: "shop"}}
		x.Spec.EncryptionSecretRef = settings(secret).EncryptionSecretRef
		return x
	}
	imaged := func() client.Object {
		b := backup("own").(*v1alpha1.DatabaseBackup)
		b.Spec.Image = "mine"
		return b
	}
	s.waitRefused("spec.encryptionSecretRef.name:", func() error {
		return s.as("tenant").Create(s.Ctx, backup("victim-credentials"), client.DryRunAll)
	})
	for name, tc := range map[string]struct {
		user   string
		object client.Object
		want   string
	}{
		"none":                      {"tenant", backup(""), ""},
		"one that may not be read":  {"tenant", backup("victim-credentials"), "spec.encryptionSecretRef.name: tenant may not get Secret victim-credentials"},
		"by a schedule":             {"tenant", schedule("victim-credentials"), "spec.encryptionSecretRef.name: tenant may not get"},
		"one that may be read":      {"reader", backup("own"), ""},
		"another":                   {"reader", schedule("victim-credentials"), "spec.encryptionSecretRef.name: reader may not get"},
		"by a restore":              {"tenant", restore("victim-credentials"), "spec.encryptionSecretRef.name: tenant may not get"},
		"by a restore of one's own": {"reader", restore("own"), ""},
		"an image":                  {"reader", imaged(), "spec.image: only berth-environments"},
	} {
		t.Run(name, func(t *testing.T) { s.judge(t, s.as(tc.user).Create(s.Ctx, tc.object, client.DryRunAll), tc.want) })
	}
	s.judge(t, s.environments.Create(s.Ctx, imaged(), client.DryRunAll), "")

	daily := schedule("own").(*v1alpha1.DatabaseBackupSchedule)
	require.NoError(t, s.Client.Create(s.Ctx, daily))
	for user, want := range map[string]string{"tenant": "spec.encryptionSecretRef.name: tenant may not get Secret own", "reader": ""} {
		s.judge(t, patch(s, s.as(user), daily, func(d *v1alpha1.DatabaseBackupSchedule) { d.Spec.Environment = "theirs" }), want)
		s.judge(t, patch(s, s.as(user), daily, func(d *v1alpha1.DatabaseBackupSchedule) { d.Spec.Keep = 3 }), want)
		s.judge(t, patch(s, s.as(user), daily, func(d *v1alpha1.DatabaseBackupSchedule) { d.Labels = map[string]string{"team": "shop"} }), "")
	}
}

// The history has who changed an Environment, whatever client it was, and no user can write another's name there.
func TestAnEnvironmentRecordsTheUserWhoChangedIt(t *testing.T) {
	s := start(t)
	s.ApplyFiles("manifests/rbac/environments/actor")
	environments := builders.Rule("berth.dev", []string{"environments"}, "create", "update", "patch", "get")
	s.grant("alice", environments)
	s.grant("bob", environments)
	actor := func(e *v1alpha1.Environment) string {
		_, by := render.LastWriter(e)
		return by
	}
	probe := builders.Environment("probe")
	probe.Namespace = s.Namespace
	s.Eventually("the policy is in force", func() (bool, string) {
		e := probe.DeepCopy()
		err := s.as("alice").Create(s.Ctx, e, client.DryRunAll)
		return err == nil && actor(e) == "alice", fmt.Sprint(err, e.Annotations)
	})

	e := builders.Environment("shop")
	e.Namespace, e.Annotations = s.Namespace, map[string]string{v1alpha1.ActorAnnotation: "mallory", "team": "shop"}
	require.NoError(t, s.as("alice").Create(s.Ctx, e))
	assert.Equal(t, "alice", actor(e))
	assert.Equal(t, "shop", e.Annotations["team"])
	change := func(user string, what func(*v1alpha1.Environment)) {
		t.Helper()
		after := e.DeepCopy()
		what(after)
		require.NoError(t, s.as(user).Patch(s.Ctx, after, client.MergeFrom(e)))
		e = after
	}
	change("bob", func(e *v1alpha1.Environment) { e.Spec.Stack.Version = "2" })
	assert.Equal(t, "bob", actor(e))
	change("alice", func(e *v1alpha1.Environment) { e.Annotations["team"] = "another" })
	assert.Equal(t, "bob", actor(e), "annotations are no change of the spec")
	change("alice", func(e *v1alpha1.Environment) { e.Annotations[v1alpha1.ActorAnnotation] = "mallory" })
	assert.Equal(t, "bob", actor(e), "no user writes it by hand")
	change("alice", func(e *v1alpha1.Environment) { e.Annotations = nil })
	assert.Equal(t, "bob", actor(e), "nor removes it")
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "berth.dev/v1alpha1", "kind": "Environment", "metadata": map[string]any{"namespace": s.Namespace, "name": "shop"},
		"spec": map[string]any{"description": "of the team"},
	}}
	require.NoError(t, s.as("alice").Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("kubectl"), client.ForceOwnership))
	require.NoError(t, s.Client.Get(s.Ctx, client.ObjectKeyFromObject(e), e))
	assert.Equal(t, "alice", actor(e), "by server-side apply")

	// The gRPC service records its callers, who are no users of the API server.
	before := e.DeepCopy()
	e.Spec.Stack.Version = "3"
	e.Annotations[v1alpha1.ActorAnnotation] = "caller"
	require.NoError(t, s.environments.Patch(s.Ctx, e, client.MergeFrom(before), client.FieldOwner(v1alpha1.ServiceFieldManager)))
	assert.Equal(t, "caller", e.Annotations[v1alpha1.ActorAnnotation])
	assert.NotEqual(t, fmt.Sprint(e.Generation), e.Annotations[v1alpha1.ActorGenerationAnnotation], "and the client must be the service for it to count")
}

// The example of docs/security.md keeps tolerations out of mixes that an admission policy keeps out of pods.
func TestTheDocumentedPolicyLimitsTheTolerationsOfMixes(t *testing.T) {
	s := start(t)
	_, text, found := strings.Cut(testenv.ReadFile(t, testenv.Path("docs/security.md")), "## Tolerations of a mix")
	require.True(t, found)
	_, text, found = strings.Cut(text, "```yaml\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	for part := range strings.SplitSeq(text, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(part), &o.Object))
		s.CreateForTest(o)
	}
	mix := func(key string) *v1alpha1.CapacityMix {
		m := builders.CapacityMix("web", 50, 1)
		m.Namespace = s.Namespace
		m.Spec.Tolerations = &v1alpha1.TolerationsByType{OnDemand: []v1alpha1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}}
		return m
	}
	s.waitRefused("only example.com/spot may be tolerated", func() error {
		return s.Client.Create(s.Ctx, mix("node-role.kubernetes.io/control-plane"), client.DryRunAll)
	})
	require.NoError(t, s.Client.Create(s.Ctx, mix("example.com/spot"), client.DryRunAll))
	m := mix("")
	m.Spec.Tolerations = nil
	require.NoError(t, s.Client.Create(s.Ctx, m, client.DryRunAll))
}

// A client with the token of berth-environments could run privileged pods in a namespace that it creates.
func TestNamespacesOfEnvironmentsHaveAPodSecurityLevel(t *testing.T) {
	const enforce = "pod-security.kubernetes.io/enforce"
	s := start(t)
	namespace := func(name, level string) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(ofEnvironment)}}
		if level != "" {
			ns.Labels[enforce] = level
		}
		return ns
	}
	create := func(level string) error {
		return s.environments.Create(s.Ctx, namespace("env-new", level), client.DryRunAll)
	}
	const refused = `metadata.labels[pod-security.kubernetes.io/enforce]: Unsupported value: "privileged"`
	s.judge(t, create("baseline"), "")
	s.judge(t, create("restricted"), "")
	s.judge(t, create("privileged"), refused)
	s.judge(t, create(""), `metadata.labels[pod-security.kubernetes.io/enforce]: Unsupported value: ""`)

	ns := namespace(s.Namespace+"-shop", "baseline")
	s.CreateForTest(ns)
	set := func(level string) error {
		return patch(s, s.environments, ns, func(n *corev1.Namespace) { n.Labels[enforce] = level })
	}
	s.judge(t, set("restricted"), "")
	s.judge(t, set("privileged"), refused)
	s.judge(t, patch(s, s.environments, ns, func(n *corev1.Namespace) { delete(n.Labels, enforce) }), "metadata.labels[pod-security")

	testenv.Patch(s.World, ns, func(n *corev1.Namespace) { n.Labels[enforce] = "privileged" })
	s.judge(t, patch(s, s.environments, ns, func(n *corev1.Namespace) { n.Labels["team"] = "shop" }), "")

	s.ApplyFiles("manifests/rbac/environments/privileged")
	t.Cleanup(func() {
		s.Delete(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "berth-environments-privileged"}})
	})
	s.Succeeds("the permission is in force", func() error { return create("privileged") })
	s.judge(t, create(""), "")
}
