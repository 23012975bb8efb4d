// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/clitest"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

const theSnapshot = "database-20260701-100000"

func restoringFrom(from string) *restoreDatabaseFlags {
	return &restoreDatabaseFlags{
		from: from, confirm: true, replacePoll: time.Millisecond, waitFlags: waitFlags{timeout: time.Minute, poll: time.Millisecond},
	}
}

// putBack restores a backup of the store, and returns what is said.
func putBack(t *testing.T, c client.Client, f *restoreDatabaseFlags) (string, string, error) {
	t.Helper()
	o, out, errOut := clitest.Screen("")
	err := restoreDatabase(t.Context(), o, c, reread(t, c), f)
	return out.String(), errOut.String(), err
}

// stopped is the store while it is stopped, with its database's volume and a snapshot of it that stands so.
func stopped(t *testing.T, status map[string]any) (objects []client.Object) {
	t.Helper()
	e := store()
	e.Spec.RunPolicy, e.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopped
	return append(databaseOfStore(t), e, snapshotOf(theSnapshot, status))
}

func readyOf(size string) map[string]any {
	return map[string]any{"readyToUse": true, "restoreSize": size}
}

func dataOf(t *testing.T, c client.Client) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	require.True(t, there(t, c, claim, "database-data"))
	return claim
}

// A dump is put back by a Job that reads it from the claim, and is waited for.
func TestADumpIsPutBack(t *testing.T) {
	for name, tc := range map[string]struct {
		end batchv1.JobConditionType
		err string
	}{
		"done":   {batchv1.JobComplete, ""},
		"failed": {batchv1.JobFailed, "wait for job.batch/database-restore-20260701-120000: it failed: cannot drop table"},
	} {
		t.Run(name, func(t *testing.T) {
			funcs := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				err := c.Get(ctx, key, obj, opts...)
				if job, is := obj.(*batchv1.Job); is && err == nil {
					job.Status.Conditions = []batchv1.JobCondition{{Type: tc.end, Status: corev1.ConditionTrue, Message: "cannot drop table"}}
				}
				return err
			}}
			c := envCluster(t, funcs, append(dumpOf("database-1", batchv1.JobComplete, "1"), store())...)
			f := restoringFrom("job.batch/database-1")
			f.wait = true
			out, _, err := putBack(t, c, f)
			job := &batchv1.Job{}
			require.True(t, there(t, c, job, "database-restore-20260701-120000"))
			assert.Equal(t, "database-1", job.Spec.Template.Spec.Containers[0].Env[0].Value)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "job.batch/database-restore-20260701-120000 created\njob.batch/database-restore-20260701-120000 completed\n", out)
			o, _, _ := clitest.Screen("table")
			list, err := readBackups(t.Context(), databaseOf(o, c, store(), command.DryRunNone))
			require.NoError(t, err)
			assert.Len(t, list.Backups, 1, "a restore is no backup")
		})
	}
}

// A snapshot is put back as the claim of the same name, labels and size, though the controller makes an empty one as
// soon as the old one is gone.
func TestASnapshotIsPutBack(t *testing.T) {
	for name, empties := range map[string]int{"at once": 0, "after the controller": 2} {
		t.Run(name, func(t *testing.T) {
			deleted, left := 0, empties
			c := envCluster(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				options := &client.DeleteOptions{}
				options.ApplyOptions(opts)
				require.NotNil(t, options.Preconditions)
				require.Equal(t, obj.GetUID(), *options.Preconditions.UID, "no other than the one that was looked at")
				deleted++
				if err := c.Delete(ctx, obj, opts...); err != nil || left == 0 {
					return err
				}
				left--
				empty := one[*corev1.PersistentVolumeClaim](databaseOfStore(t))
				empty.UID = types.UID(name + string(rune('0'+left)))
				return c.Create(ctx, empty)
			}}, stopped(t, readyOf("1Gi"))...)
			old := dataOf(t, c)
			out, errOut, err := putBack(t, c, restoringFrom(theSnapshot))
			require.NoError(t, err)
			assert.Equal(t, "persistentvolumeclaim/database-data recreated from volumesnapshot.snapshot.storage.k8s.io/"+theSnapshot+"\n", out)
			assert.Equal(t, "Start the environment with: kubectl berth env start store-1a2b -n shop --wait\n", errOut)
			assert.Equal(t, empties+1, deleted)
			claim := dataOf(t, c)
			assert.True(t, render.MadeFrom(claim, theSnapshot))
			assert.Equal(t, old.Labels, claim.Labels)
			assert.Equal(t, map[string]string{v1alpha1.RenderedAnnotation: "x"}, claim.Annotations)
			assert.Equal(t, old.Spec.Resources, claim.Spec.Resources)
			assert.Empty(t, claim.Spec.VolumeName)
		})
	}
}

// A claim that a pod still uses does not go, and what was begun can be gone on with.
func TestAClaimThatDoesNotGoIsWaitedForNoLongerThanAsked(t *testing.T) {
	objects := stopped(t, readyOf("1Gi"))
	one[*corev1.PersistentVolumeClaim](objects).Finalizers = []string{"kubernetes.io/pvc-protection"}
	looks, ends := 0, 0
	c := envCluster(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, obj, opts...)
		if claim, is := obj.(*corev1.PersistentVolumeClaim); is && err == nil {
			if looks++; looks == ends {
				gone := claim.DeepCopy()
				gone.Finalizers = nil
				return c.Update(ctx, gone)
			}
		}
		return err
	}}, objects...)
	f := restoringFrom(theSnapshot)
	f.timeout = 20 * time.Millisecond
	_, _, err := putBack(t, c, f)
	require.EqualError(t, err, "PersistentVolumeClaim env-store/database-data is not recreated after 20ms: run the command again to continue")
	assert.False(t, render.MadeFrom(dataOf(t, c), theSnapshot))

	f.timeout, ends = time.Minute, looks+5
	_, _, err = putBack(t, c, f)
	require.NoError(t, err)
	assert.True(t, render.MadeFrom(dataOf(t, c), theSnapshot))
}

// A snapshot can be put back twice, and the controller may be quicker between two looks.
func TestAClaimOfTheSameSnapshotIsMadeAnewToo(t *testing.T) {
	objects := stopped(t, readyOf("1Gi"))
	claim := one[*corev1.PersistentVolumeClaim](objects)
	*claim = *render.ClaimFrom(claim, theSnapshot)
	claim.UID = "old"
	deleted, made := 0, 0
	c := envCluster(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deleted++
			return c.Delete(ctx, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if made++; made == 1 {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "persistentvolumeclaims"}, obj.GetName())
			}
			return c.Create(ctx, obj, opts...)
		},
	}, objects...)
	_, _, err := putBack(t, c, restoringFrom(theSnapshot))
	require.NoError(t, err)
	assert.Equal(t, 1, deleted)
	assert.Equal(t, 2, made)
	assert.NotEqual(t, types.UID("old"), dataOf(t, c).UID)
}

func TestARestoreThatTheClusterRefusesIsTold(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "database-data", errors.New("exceeded quota"))
	}}, stopped(t, readyOf("1Gi"))...)
	_, _, err := putBack(t, c, restoringFrom(theSnapshot))
	require.ErrorContains(t, err, "recreate PersistentVolumeClaim env-store/database-data from VolumeSnapshot "+theSnapshot+": ")
	require.ErrorContains(t, err, "exceeded quota")
}

// Nothing is written where a restore is refused, and nothing without the flag.
func TestARestoreIsRefusedBeforeAnythingIsLost(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "env-store", Name: "look"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "database-data"}}}}
	broken := store()
	broken.Status.Components[0].Ready, broken.Status.Components[0].Reason = false, "Waiting"
	halted := store()
	halted.Spec.RunPolicy = v1alpha1.RunPolicyStopped
	bare := store()
	bare.Spec.Stack.Database = nil
	onItsWay := stopped(t, readyOf("1Gi"))
	one[*v1alpha1.Environment](onItsWay).Generation = 5
	dumped := func(end batchv1.JobConditionType, e *v1alpha1.Environment) []client.Object {
		return append(dumpOf("database-1", end, "refused"), e)
	}
	asleep := "status.phase is Running: a snapshot can be restored only while the environment is Stopped (kubectl berth env stop store-1a2b --wait)"
	for name, tc := range map[string]struct {
		objects []client.Object
		from    string
		yes     bool
		err     string
	}{
		"no database":       {[]client.Object{bare}, "database-1", true, "environment.berth.dev/store-1a2b: no database: spec.stack.database is not set"},
		"no backup at all":  {[]client.Object{store()}, "database-1", true, `environment.berth.dev/store-1a2b has no backup "database-1": it has no backups (kubectl berth env backup-database store-1a2b)`},
		"another backup":    {dumped(batchv1.JobComplete, store()), "database-2", true, `environment.berth.dev/store-1a2b has no backup "database-2": it has database-1`},
		"a dump that fails": {dumped(batchv1.JobFailed, store()), "database-1", true, "backup database-1 is Failed, not Ready: it was tried 3 times: refused"},
		"a dump that runs":  {dumped("", store()), "database-1", true, "backup database-1 is Running, not Ready: refused"},
		"not ready":         {dumped(batchv1.JobComplete, broken), "database-1", true, "environment.berth.dev/store-1a2b: a dump requires a database that is ready, and component database is not: Waiting"},
		"a dump, stopped":   {dumped(batchv1.JobComplete, halted), "database-1", true, "environment.berth.dev/store-1a2b: a dump requires a running database, and spec.runPolicy is Stopped (kubectl berth env start store-1a2b --wait)"},
		"a dump, no flag": {
			dumped(batchv1.JobComplete, store()), "database-1", false,
			`--confirm is required: database "app" of environment.berth.dev/store-1a2b would be replaced by database-1 of 2026-07-01T11:00:00Z, and what was written since then would be lost`,
		},
		"a snapshot, no flag": {
			stopped(t, readyOf("1Gi")), theSnapshot, false,
			"--confirm is required: claim database-data with all databases of environment.berth.dev/store-1a2b would be replaced by " + theSnapshot + " of 2026-07-01T10:00:00Z, and what was written since then would be lost",
		},
		"a snapshot, runs":      {append(databaseOfStore(t), store(), snapshotOf(theSnapshot, readyOf("1Gi"))), theSnapshot, true, "environment.berth.dev/store-1a2b: " + asleep},
		"a snapshot, stops":     {append(databaseOfStore(t), halted, snapshotOf(theSnapshot, readyOf("1Gi"))), theSnapshot, true, "environment.berth.dev/store-1a2b: " + asleep},
		"a snapshot, changes":   {onItsWay, theSnapshot, true, "environment.berth.dev/store-1a2b: status.phase is Stopped: a snapshot can be restored only while"},
		"a snapshot, not ready": {stopped(t, map[string]any{"error": map[string]any{"message": "no room"}}), theSnapshot, true, "backup " + theSnapshot + " is Failed, not Ready: no room"},
		"a snapshot, larger": {
			stopped(t, readyOf("11Gi")), theSnapshot, true,
			"environment.berth.dev/store-1a2b: claim database-data requests 10Gi, and snapshot " + theSnapshot + " needs 11Gi: set spec.stack.database.container.resources.disk",
		},
		"a snapshot, in use":   {append(stopped(t, readyOf("1Gi")), pod), theSnapshot, true, "environment.berth.dev/store-1a2b: pod look uses claim database-data"},
		"a snapshot, no claim": {withoutClaims(stopped(t, readyOf("1Gi"))), theSnapshot, true, "environment.berth.dev/store-1a2b: no volume can be replaced: PersistentVolumeClaim env-store/database-data does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			c := envCluster(t, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					writes++
					return nil
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					writes++
					return nil
				},
			}, tc.objects...)
			f := restoringFrom(tc.from)
			f.confirm = tc.yes
			out, _, err := putBack(t, c, f)
			require.ErrorContains(t, err, tc.err)
			assert.Empty(t, out)
			assert.Zero(t, writes)
		})
	}
}
