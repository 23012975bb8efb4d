// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"os"
	shell "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

const theBackup = "shop-20261122-080507"

func someBackup() *v1alpha1.DatabaseBackup {
	return &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: theBackup}}
}

func someRestore() *v1alpha1.DatabaseRestore {
	return &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-20261123-090000"}}
}

// someBackups are all objects that are made to back up the database of an environment, or to restore it, and the Jobs.
func someBackups(e *v1alpha1.Environment) (list []runtime.Object, jobs []*batchv1.Job) {
	b := someBackup()
	jobs = []*batchv1.Job{DumpJob(e, b), RestoreJob(e, e, someRestore(), b), DeleteDumpJob(e, b)}
	claim := ClaimOfBackups(e, &v1alpha1.DatabaseBackupStorage{StorageClassName: "fast"})
	return []runtime.Object{claim, Snapshot(e, b, "database-data", "fast"), jobs[0], jobs[1], jobs[2]}, jobs
}

// withDatabase draws an environment that has a database.
func withDatabase(t *rapid.T) *Input {
	in := drawInput(t)
	if in.Environment.Spec.Stack.Database == nil {
		t.Skip("no database")
	}
	in.Environment.Status.Namespace = in.Namespace
	return in
}

// Whatever the environment is, a dump requests of the server that is rendered the database that is rendered, as its user,
// with the tools of its image, and reaches it; the password is nowhere but in the Secret that is rendered.
func TestADumpIsOfTheDatabaseThatIsRendered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := withDatabase(t)
		rendered := Render(in)
		server := &one[*appsv1.StatefulSet](t, rendered, stack.Database).Spec.Template.Spec.Containers[0]
		ready := server.ReadinessProbe.Exec.Command // with the names that the server is rendered with
		list, jobs := someBackups(in.Environment)
		for _, job := range jobs[:2] {
			tool := &job.Spec.Template.Spec.Containers[0]
			plain, secret := envOf(tool)
			require.Equal(t, server.Image, tool.Image)
			require.Equal(t, []string{"pg_isready", "-U", plain["PGUSER"], "-d", plain["PGDATABASE"], "-h", "localhost", "-p", plain["PGPORT"]}, ready)
			variables, _ := envOf(server)
			require.Equal(t, variables[postgresUser], plain["PGUSER"])
			if name := variables[postgresDB]; name != "" {
				require.Equal(t, name, plain["PGDATABASE"])
			}
			require.Equal(t, one[*corev1.Service](t, rendered, stack.Database).Name, plain["PGHOST"])
			require.Equal(t, map[string]string{"PGPASSWORD": stack.Database + "/" + PostgresPassword}, secret)
			require.Contains(t, one[*corev1.Secret](t, rendered, stack.Database).Data, PostgresPassword)
		}
		require.NotContains(t, text(t, list), thePassword)
		require.NotContains(t, text(t, list), `"PGPASSWORD","value"`)
	})
}

// The controller deletes what has both labels of an environment and is not rendered; Services, mixes and the pods of a
// component are selected by one of them.
func TestBackupsAreNotTakenForWhatIsRendered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := withDatabase(t)
		names := map[string]bool{}
		for _, r := range Render(in) {
			names[fmt.Sprintf("%T %s", r, r.(object).GetName())] = true
		}
		list, jobs := someBackups(in.Environment)
		var pods []map[string]string
		for _, job := range jobs {
			pods = append(pods, job.Spec.Template.Labels)
		}
		all := slices.Clone(pods)
		for _, r := range list {
			o := r.(object)
			all = append(all, o.GetLabels())
			require.Empty(t, validation.IsDNS1123Label(o.GetName()))
			require.Equal(t, in.Namespace, o.GetNamespace())
			require.False(t, names[fmt.Sprintf("%T %s", r, o.GetName())], "%s is rendered", o.GetName())
			require.NotEmpty(t, r.GetObjectKind().GroupVersionKind().Kind)
		}
		for _, l := range pods {
			require.NotContains(t, l, v1alpha1.EnvironmentLabel, "mixes select by it")
			require.NotContains(t, l, v1alpha1.ComponentLabel)
		}
		for _, l := range all {
			require.Equal(t, in.Environment.Name, l[BackupOfLabel])
			require.NotContains(t, l, v1alpha1.EnvironmentNamespaceLabel)
			require.NotContains(t, l, v1alpha1.EnvironmentComponentLabel)
			for key, value := range l {
				require.Empty(t, validation.IsQualifiedName(key))
				require.Empty(t, validation.IsValidLabelValue(value), "%s", key)
			}
		}
	})
}

// What runs for a backup may do no more than it has to, and its pods fit in a namespace with a quota.
func TestABackupRunsWithFewRights(t *testing.T) {
	in := input(t)
	in.Environment.Status.Namespace = in.Namespace
	_, jobs := someBackups(in.Environment)
	for i, job := range jobs {
		pod, c := &job.Spec.Template.Spec, &job.Spec.Template.Spec.Containers[0]
		assert.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
		assert.Empty(t, pod.SchedulerName, "the cluster's own")
		assert.Empty(t, pod.ServiceAccountName)
		assert.False(t, *pod.AutomountServiceAccountToken)
		assert.True(t, *pod.SecurityContext.RunAsNonRoot)
		assert.NotZero(t, *pod.SecurityContext.RunAsUser)
		assert.Equal(t, *pod.SecurityContext.RunAsGroup, *pod.SecurityContext.FSGroup)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		assert.Equal(t, c.Resources.Requests, c.Resources.Limits)
		assert.Len(t, c.Resources.Limits, 2)
		assert.Equal(t, BackupsClaim, pod.Volumes[0].PersistentVolumeClaim.ClaimName)
		assert.Equal(t, []corev1.VolumeMount{{Name: pod.Volumes[0].Name, MountPath: "/backups", ReadOnly: i == 1}}, c.VolumeMounts)
		assert.EqualValues(t, []int32{2, 0, 2}[i], *job.Spec.BackoffLimit)
		assert.Positive(t, *job.Spec.ActiveDeadlineSeconds)
		assert.EqualValues(t, 7*24*60*60, *job.Spec.TTLSecondsAfterFinished, "its Secret is deleted with it")
		assert.Equal(t, theBackup, c.Env[0].Value)
		assert.Equal(t, []string{theBackup, "", theBackup}[i], job.Labels[BackupLabel])
		assert.Equal(t, []string{"", "shop-20261123-090000", ""}[i], job.Labels[RestoreLabel])
		assert.Equal(t, "team", job.Labels[OperationNamespaceLabel])
	}
	assert.Len(t, jobs[2].Spec.Template.Spec.Containers[0].Env, 1, "it does not connect")
}

// The dump of another environment is restored from where the dump is, with the password of the target in a Secret of the restore.
func TestADumpIsRestoredIntoAnotherEnvironment(t *testing.T) {
	source := input(t).Environment
	source.Status.Namespace = "env-source"
	target := source.DeepCopy()
	target.Name, target.Status.Namespace = "copy", "env-copy"
	target.Spec.Stack.Database.Container.Image = "of-another-author"
	b := someBackup()
	b.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: "author-key"}
	job := RestoreJob(source, target, someRestore(), b)
	assert.Equal(t, "env-source", job.Namespace)
	assert.Equal(t, source.Name, job.Labels[v1alpha1.EnvironmentLabel])
	assert.Equal(t, "copy", job.Spec.Template.Labels[BackupOfLabel])
	pod := &job.Spec.Template.Spec
	assert.Equal(t, source.Spec.Stack.Database.Container.Image, pod.Containers[0].Image, "the target's gets no key of the source")
	b.Status.Image, source.Spec.Stack.Database.Container.Image = "as-it-began", "changed-since"
	for _, job := range []*batchv1.Job{DumpJob(source, b), RestoreJob(source, target, someRestore(), b)} {
		assert.Equal(t, "as-it-began", job.Spec.Template.Spec.Containers[0].Image)
	}
	plain, secret := envOf(&pod.Containers[0])
	assert.Equal(t, "database.env-copy.svc", plain["PGHOST"])
	assert.Equal(t, map[string]string{"PGPASSWORD": job.Name + "/" + TargetPasswordKey}, secret)
	assert.Equal(t, job.Name, pod.Volumes[1].Secret.SecretName)
	s := OperationSecret(job, map[string][]byte{v1alpha1.DatabaseEncryptionKey: []byte("k")})
	assert.Equal(t, []string{"env-source", job.Name}, []string{s.Namespace, s.Name})
	assert.Equal(t, source.Name, s.Labels[v1alpha1.EnvironmentLabel], "the policy about Secrets requires it")
}

// scripted runs a script with stand-ins for the tools, and returns what it prints, its error and what is in the claim then.
func scripted(t *testing.T, script, tools string) (said, files string, err error) {
	t.Helper()
	sh, lookErr := shell.LookPath("sh")
	if lookErr != nil {
		t.Skip("there is no sh")
	}
	require.NoError(t, shell.CommandContext(t.Context(), sh, "-n", "-c", script).Run())
	assert.NotRegexp(t, `\$[$(]`, script, "Kubernetes would make something else of it")
	directory := t.TempDir()
	script = strings.NewReplacer(backupsPath+"/", directory+"/", "/dev/termination-log", directory+"/said").Replace(script)
	cmd := shell.CommandContext(t.Context(), sh, "-c", tools+script)
	cmd.Env = []string{"PATH=/usr/bin:/bin", backupEnv + "=b", "PGAPPNAME=x", "DIRECTORY=" + directory}
	out, err := cmd.CombinedOutput()
	list, listErr := shell.CommandContext(t.Context(), sh, "-c", `cd "$1" && for f in *; do [ -e "$f" ] && echo "$f: $(cat "$f")"; done; true`, "sh", directory).Output()
	require.NoError(t, listErr)
	return strings.TrimSpace(strings.ReplaceAll(string(out), directory, "/backups")), string(list), err
}

const (
	dumpWrites  = `pg_dump() { out=; for a; do case "$a" in --file=*) out="${a#--file=}";; esac; done; if [ "$out" ]; then echo half >"$out"; else echo half; fi; %s; }` + "\n"
	restoreSays = `pg_restore() { for f; do :; done; if [ -f "$f" ]; then cat "$f" >/dev/null; else cat >"$DIRECTORY/../read"; fi; echo "$*"; %s; }` + "\n"
	databases   = `createdb() { echo "create $*"; }; dropdb() { echo "drop $*"; }; psql() { echo 3; }` + "\n"
)

// withKey has the scripts find a key, and openssl.
func withKey(t *testing.T, script string) string {
	t.Helper()
	if _, err := shell.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("0123456789abcdef"), 0o600))
	return strings.ReplaceAll(script, keyPath+"/"+keyVolume, key)
}

// Half a dump has never the name of one, and does not stay.
func TestADumpHasItsNameOnceItIsWhole(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("encrypted ", encrypted), func(t *testing.T) {
			script := dumpScript(encrypted, false)
			if encrypted {
				script = withKey(t, script)
			}
			out, files, err := scripted(t, script, fmt.Sprintf(dumpWrites+restoreSays, "true", "true"))
			require.NoError(t, err, out)
			if encrypted {
				assert.Contains(t, files, "b.dump: Salted__")
				assert.NotContains(t, files, "half")
			} else {
				assert.Equal(t, "b.dump: half\nsaid: 5\n", files)
			}
			assert.NotContains(t, files, "partial")
			for name, tools := range map[string]string{
				"pg_dump fails":    fmt.Sprintf(dumpWrites+restoreSays, "false", "true"),
				"it is unreadable": fmt.Sprintf(dumpWrites+restoreSays, "true", "false"),
			} {
				_, files, err = scripted(t, script, tools)
				require.Error(t, err, name)
				assert.Empty(t, files, name)
			}
		})
	}
}

// A dump that cannot be restored is no backup, and the scratch database does not stay.
func TestADumpIsVerified(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		script := dumpScript(encrypted, true)
		if encrypted {
			script = withKey(t, script)
		}
		said, files, err := scripted(t, script, databases+fmt.Sprintf(dumpWrites+restoreSays, "true", "true"))
		require.NoError(t, err, said)
		assert.Contains(t, files, "\n3\n", "the number of tables")
		assert.Regexp(t, `(?s)drop .*berth_verify.*create .*berth_verify.*--exit-on-error --no-password --dbname=berth_verify.*drop .*berth_verify`, said)
		said, files, err = scripted(t, script, databases+fmt.Sprintf(dumpWrites+restoreSays, "true", `case "$*" in *--list*) ;; *) false;; esac`))
		require.Error(t, err)
		assert.Empty(t, files)
		assert.True(t, strings.HasSuffix(said, "drop --if-exists --no-password berth_verify"), said)
	}
}

// What was encrypted is restored by the same key, and by no other.
func TestAnEncryptedDumpIsRead(t *testing.T) {
	write, read := withKey(t, encryptedFunctions+`dump "$DIRECTORY/d"`), encryptedFunctions+`load "$DIRECTORY/d"; cat "$DIRECTORY/../read"`
	_, body, _ := strings.Cut(write, "file:")
	key, _, _ := strings.Cut(body, `"`)
	tools := fmt.Sprintf(dumpWrites+`pg_restore() { cat >"$DIRECTORY/../read"; grep -q half "$DIRECTORY/../read"; }`+"\n", "true")
	said, _, err := scripted(t, "set -eu\n"+write+"\n"+strings.ReplaceAll(read, keyPath+"/"+keyVolume, key), tools)
	require.NoError(t, err, said)
	assert.Equal(t, "half", said)
	_, _, err = scripted(t, "set -eu\n"+write+"\necho another-key-of-16 >"+key+"\n"+strings.ReplaceAll(read, keyPath+"/"+keyVolume, key), tools)
	require.Error(t, err)
}

func TestARestoreReportsAMissingDump(t *testing.T) {
	said, _, err := scripted(t, restoreScript(false), fmt.Sprintf(restoreSays, "true"))
	require.Error(t, err)
	assert.Equal(t, "there is no /backups/b.dump in the claim database-backups", said)
	said, _, err = scripted(t, restoreScript(false), `: >"$DIRECTORY/b.dump"`+"\n"+fmt.Sprintf(restoreSays, "true"))
	require.NoError(t, err)
	assert.Equal(t, "--no-owner --exit-on-error --no-password --clean --if-exists --single-transaction --dbname=application_name=x /backups/b.dump", said)
	_, _, err = scripted(t, restoreScript(false), `: >"$DIRECTORY/b.dump"`+"\n"+fmt.Sprintf(restoreSays, "false"))
	require.Error(t, err)
	said, files, err := scripted(t, deleteScript, `: >"$DIRECTORY/b.dump"; : >"$DIRECTORY/other.dump"`+"\n")
	require.NoError(t, err, said)
	assert.Equal(t, "other.dump: \n", files)
}

// The Jobs reach the database of an isolated environment, and nothing else of it.
func TestBackupsReachAnIsolatedDatabase(t *testing.T) {
	in := input(t)
	in.Environment.Status.Namespace = in.Namespace
	assert.Empty(t, in.backupPolicies(), "a policy isolates what it selects")
	in.Environment.Spec.Network = &v1alpha1.EnvironmentNetwork{}
	assert.Empty(t, in.backupPolicies(), "a policy isolates what it selects")
	in.Environment.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	policy := one[*networkingv1.NetworkPolicy](t, in.backupPolicies(), "isolated-backups")
	labelled(t, in, policy.Labels)
	assert.Equal(t, in.selects(stack.Database), policy.Spec.PodSelector.MatchLabels)
	rule := policy.Spec.Ingress[0]
	assert.EqualValues(t, 5432, rule.Ports[0].Port.IntVal)
	_, jobs := someBackups(in.Environment)
	for _, job := range jobs {
		for _, peer := range rule.From {
			selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
			require.NoError(t, err)
			assert.True(t, selector.Matches(labels.Set(job.Spec.Template.Labels)))
			assert.False(t, selector.Matches(labels.Set(in.selects(stack.Backend))))
			assert.Nil(t, peer.NamespaceSelector)
		}
	}
	in.Environment.Spec.Stack.Database = nil
	assert.Empty(t, in.backupPolicies())
}

// What the database writes to is the volume that is snapshotted, wherever its data is.
func TestTheClaimOfADatabasesData(t *testing.T) {
	type (
		component = v1alpha1.DatabaseComponent
		volume    = v1alpha1.EnvironmentVolume
	)
	volumes := func(list ...volume) func(*component) { return func(d *component) { d.Container.Volumes = list } }
	pgdata := func(path string, list ...volume) func(*component) {
		return func(d *component) {
			d.Container.Env, d.Container.Volumes = map[string]v1alpha1.ConfigValue{pgData: v1alpha1.ConfigValue(path)}, list
		}
	}
	for name, c := range map[string]struct {
		change func(*component)
		want   string
	}{
		"as usual":       {func(*component) {}, "database-data"},
		"does not last":  {func(d *component) { d.PersistentStorage = false }, ""},
		"another volume": {volumes(volume{Name: "mine", MountPath: stack.DefaultDataPath}), "database-mine"},
		"a volume in it": {
			volumes(volume{Name: "inner", MountPath: stack.DefaultDataPath + "/pgdata"}, volume{Name: "log", MountPath: "/var/log"}), "database-inner",
		},
		"set by PGDATA": {pgdata("/elsewhere/x/", volume{Name: "mine", MountPath: "/elsewhere"}), "database-mine"},
		"in no volume":  {pgdata("/var/lib/postgresql/data2"), ""},
		"on the node":   {volumes(volume{Name: "mine", MountPath: stack.DefaultDataPath, HostPath: "/srv/allowed/x"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, database(c.change), func(in *Input) { in.Settings.HostPaths = []string{"/srv/allowed"} })
			assert.Equal(t, c.want, DataClaim(one[*appsv1.StatefulSet](t, Render(in), stack.Database)))
		})
	}
	assert.Empty(t, DataClaim(&appsv1.StatefulSet{}))
}

func snapshotClass(name, driver string, isDefault bool) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{"driver": driver}}
	u.SetName(name)
	if isDefault {
		u.SetAnnotations(map[string]string{defaultSnapshotClass: "true"})
	}
	return u
}

func TestTheClassOfASnapshotIsOfTheDriver(t *testing.T) {
	list := []unstructured.Unstructured{
		snapshotClass("b", "disk", false), snapshotClass("a", "disk", false), snapshotClass("0", "other", true), snapshotClass("z", "disk", true),
	}
	assert.Equal(t, "z", SnapshotClass(list, "disk"))
	assert.Equal(t, "a", SnapshotClass(list[:3], "disk"))
	assert.Empty(t, SnapshotClass(list, "none"))
}

// The claim that is recreated has all that the controller has rendered, and nothing of how the old one was bound.
func TestAClaimIsRecreatedFromASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := withDatabase(t)
		in.Environment.Spec.Stack.Database.PersistentStorage = true
		claims := of[*corev1.PersistentVolumeClaim](Render(in))
		if len(claims) == 0 {
			t.Skip("no claim")
		}
		old := claims[0].DeepCopy()
		old.UID, old.ResourceVersion, old.Spec.VolumeName, old.Status.Phase = "old", "7", "pv-1", corev1.ClaimBound
		old.Finalizers, old.DeletionTimestamp = []string{"kubernetes.io/pvc-protection"}, new(metav1.Now())
		old.Annotations = map[string]string{
			v1alpha1.RenderedAnnotation: "x", "note": "y", "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1",
			"volume.kubernetes.io/storage-provisioner": "disk", "volume.beta.kubernetes.io/storage-provisioner": "disk",
		}
		before := text(t, old)
		claim := ClaimFrom(old, "database-1")
		require.Equal(t, before, text(t, old))
		require.True(t, MadeFrom(claim, "database-1"))
		require.False(t, MadeFrom(claim, "database-2"))
		require.False(t, MadeFrom(old, "database-1"))
		require.Equal(t, map[string]string{v1alpha1.RenderedAnnotation: "x", "note": "y"}, claim.Annotations)
		claim.Spec.DataSource, claim.Annotations = nil, nil
		require.Equal(t, text(t, claims[0]), text(t, claim))
	})
}
