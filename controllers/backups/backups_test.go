// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/schedule"
	"berth.dev/berth/internal/environments/stack"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// options are those of a controller of a cluster that has some objects, at noon. Conflicts and server-side apply are tested on a real
// API server, in test/integration/environments/lifecycle.
func options(t *testing.T, objects ...client.Object) Options {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.DatabaseBackup{}, &v1alpha1.DatabaseRestore{}, &v1alpha1.DatabaseBackupSchedule{}).Build()
	return Options{
		Client: c, Live: c, Recorder: record.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(noon), serial: &sync.Mutex{},
	}
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func shop() *v1alpha1.Environment {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
	e.Spec.Stack.Database = &v1alpha1.DatabaseComponent{Container: v1alpha1.EnvironmentContainer{Image: "postgres:17"}}
	e.Status.Namespace = "env-shop"
	e.Status.Components = []v1alpha1.EnvironmentComponentStatus{{Name: stack.Database, Ready: true}}
	return e
}

func aBackup(name string, phase v1alpha1.DatabaseBackupPhase) *v1alpha1.DatabaseBackup {
	b := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: "1", CreationTimestamp: ago(time.Minute), Finalizers: []string{v1alpha1.DatabaseBackupFinalizer},
	}}
	b.Spec.Environment, b.Spec.Method = "shop", v1alpha1.DatabaseBackupDump
	if phase != "" {
		b.Status.Phase, b.Status.Method, b.Status.Namespace = phase, v1alpha1.DatabaseBackupDump, "env-shop"
		b.Status.StartedAt = new(ago(time.Minute))
	}
	return b
}

func TestAnErrorDecidesThePhaseOfAnOperation(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", errors.New("exceeded quota"))
	for name, c := range map[string]struct {
		err              error
		created, started time.Duration
		phase            v1alpha1.DatabaseBackupPhase
		message          string
		next             time.Duration
		returned         bool
	}{
		"waits":             {waits("no room"), time.Minute, 0, v1alpha1.DatabaseBackupPending, "no room", retryInterval, false},
		"waits too long":    {waits("no room"), 61 * time.Minute, 0, v1alpha1.DatabaseBackupFailed, "not started within 1h0m0s: no room", resyncInterval, false},
		"a quota":           {forbidden, time.Minute, time.Second, v1alpha1.DatabaseBackupRunning, forbidden.Error(), busyInterval, false},
		"runs":              {nil, time.Hour, time.Hour, v1alpha1.DatabaseBackupRunning, "", busyInterval, false},
		"runs too long":     {nil, 9 * time.Hour, 9 * time.Hour, v1alpha1.DatabaseBackupFailed, "not completed within 6h10m0s", resyncInterval, false},
		"can never succeed": {fails("no"), time.Minute, time.Second, v1alpha1.DatabaseBackupFailed, "no", resyncInterval, false},
		"the API server":    {errors.New("timeout"), time.Minute, time.Second, v1alpha1.DatabaseBackupRunning, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBackup("b", "")
			b.CreationTimestamp = ago(c.created)
			if c.started > 0 {
				b.Status.Phase, b.Status.StartedAt = v1alpha1.DatabaseBackupRunning, new(ago(c.started))
			}
			op := &operation{b, &b.Status.DatabaseOperationStatus, noon}
			next, err := op.conclude(c.err)
			require.Equal(t, c.returned, err != nil)
			assert.Equal(t, c.phase, b.Status.Phase)
			assert.Equal(t, c.message, b.Status.Message)
			assert.Equal(t, c.next, next.RequeueAfter)
			if !c.returned {
				assert.True(t, meta.IsStatusConditionFalse(b.Status.Conditions, v1alpha1.ConditionCompleted))
			}
		})
	}
}

// What was written since is not lost a second time because someone deletes the Job.
func TestARestoreIsNotRepeated(t *testing.T) {
	b := aBackup("b", v1alpha1.DatabaseBackupCompleted)
	for started, want := range map[time.Duration]v1alpha1.DatabaseBackupPhase{
		time.Second: v1alpha1.DatabaseBackupRunning, 2 * time.Minute: v1alpha1.DatabaseBackupFailed,
	} {
		x := aRestore(started, v1alpha1.DatabaseBackupRunning)
		r := &restores{Options: options(t, shop(), b)}
		op := &operation{x, &x.Status.DatabaseOperationStatus, noon}
		_, err := r.step(t.Context(), op, x)
		_, err = op.conclude(err)
		require.NoError(t, err)
		assert.Equal(t, want, x.Status.Phase, x.Status.Message)
		err = r.Client.Get(t.Context(), client.ObjectKey{Namespace: "env-shop", Name: "r"}, &batchv1.Job{})
		assert.Equal(t, want == v1alpha1.DatabaseBackupRunning, err == nil)
	}
}

func aRestore(started time.Duration, phase v1alpha1.DatabaseBackupPhase) *v1alpha1.DatabaseRestore {
	x := &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "r", UID: "2", CreationTimestamp: ago(started), Finalizers: []string{v1alpha1.DatabaseRestoreFinalizer},
	}}
	x.Spec = v1alpha1.DatabaseRestoreSpec{Environment: "shop", Backup: "b"}
	x.Status.Phase, x.Status.StartedAt, x.Status.Namespace = phase, new(ago(started)), "env-shop"
	return x
}

// A user deletes a restore that runs so that it stops. One that replaces a volume is completed: half of it is an empty database.
func TestTheDeletionOfARestoreCancelsIt(t *testing.T) {
	running, completed := v1alpha1.DatabaseBackupRunning, v1alpha1.DatabaseBackupCompleted
	for name, c := range map[string]struct {
		phase          v1alpha1.DatabaseBackupPhase
		method         v1alpha1.DatabaseBackupMethod
		foreign        bool
		released, kept bool
	}{
		"a dump":            {running, v1alpha1.DatabaseBackupDump, false, true, false},
		"ended":             {completed, v1alpha1.DatabaseBackupDump, false, true, true},
		"a Job of others":   {running, v1alpha1.DatabaseBackupDump, true, true, true},
		"a snapshot":        {running, v1alpha1.DatabaseBackupSnapshot, false, false, true},
		"an ended snapshot": {completed, v1alpha1.DatabaseBackupSnapshot, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, x := aBackup("b", completed), aRestore(time.Minute, c.phase)
			b.Status.Method = c.method
			x.DeletionTimestamp = new(ago(time.Second))
			env := shop()
			env.Spec.RunPolicy, env.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopped
			job := render.RestoreJob(env, env, x, b)
			if c.foreign {
				job.Labels[render.OperationNamespaceLabel] = "another-team"
			}
			r := &restores{Options: options(t, env, b, x, job)}
			r.deleted.Store(x.UID, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "env-shop", Name: "data"}})
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(x)})
			require.NoError(t, err)
			err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(x), x)
			assert.Equal(t, c.released, apierrors.IsNotFound(err), "%v %v", err, x.Finalizers)
			err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job)
			assert.Equal(t, c.kept, err == nil, "the Job: %v", err)
		})
	}
}

// What a status calls Failed does not go on.
func TestAFailedOperationHasNoRunningJob(t *testing.T) {
	x, b := aRestore(time.Minute, v1alpha1.DatabaseBackupRunning), aBackup("other", v1alpha1.DatabaseBackupRunning)
	b.Status.StartedAt = new(ago(7 * time.Hour))
	completed := aBackup("b", v1alpha1.DatabaseBackupCompleted)
	restore, dump := render.RestoreJob(shop(), shop(), x, completed), render.DumpJob(shop(), b)
	o := options(t, shop(), x, b, restore, dump) // the backup of the restore was deleted
	for _, c := range []struct {
		r      reconcile.Reconciler
		o      client.Object
		status *v1alpha1.DatabaseOperationStatus
		job    *batchv1.Job
		why    string
	}{
		{&restores{Options: o}, x, &x.Status.DatabaseOperationStatus, restore, "DatabaseBackup b was deleted"},
		{&backups{o}, b, &b.Status.DatabaseOperationStatus, dump, "not completed within"},
	} {
		_, err := c.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.o)})
		require.NoError(t, err)
		require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(c.o), c.o))
		assert.Equal(t, v1alpha1.DatabaseBackupFailed, c.status.Phase)
		assert.Contains(t, c.status.Message, c.why)
		assert.True(t, apierrors.IsNotFound(o.Client.Get(t.Context(), client.ObjectKeyFromObject(c.job), c.job)))
	}
}

// A controller that was killed between the two writes creates the Secret of the Job that waits for it.
func TestTheSecretOfAJobIsCreatedAgain(t *testing.T) {
	b := aBackup("b", v1alpha1.DatabaseBackupRunning)
	b.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: "k"}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "k"}, Data: map[string][]byte{"key": []byte("0123456789abcdef")}}
	job := render.DumpJob(shop(), b)
	job.UID = "3"
	o := options(t, shop(), b, key, job)
	_, err := (&backups{o}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	require.NoError(t, err)
	secret := &corev1.Secret{}
	require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(job), secret))
	assert.Equal(t, "0123456789abcdef", string(secret.Data["key"]))
	assert.Equal(t, job.UID, secret.OwnerReferences[0].UID)
}

// Two verifications would use the same scratch database. One that has begun has no Job until its next step.
func TestOneOperationOfAnEnvironmentAtATime(t *testing.T) {
	other := aBackup("elsewhere", v1alpha1.DatabaseBackupRunning)
	other.UID, other.Status.Namespace = "9", "env-other"
	objects := []client.Object{shop(), aBackup("done", v1alpha1.DatabaseBackupCompleted), other}
	var pending []*v1alpha1.DatabaseBackup
	for i := range 3 {
		b := aBackup(fmt.Sprint("b", i), "")
		b.UID = types.UID(fmt.Sprint("b", i))
		pending = append(pending, b)
		objects = append(objects, b)
	}
	x := aRestore(time.Minute, "")
	x.Spec.Backup, x.Status = "done", v1alpha1.DatabaseRestoreStatus{}
	o := options(t, append(objects, x)...)
	var wg sync.WaitGroup
	reconciled := func(r reconcile.Reconciler, object client.Object) {
		wg.Go(func() {
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			assert.NoError(t, err)
		})
	}
	for _, b := range pending {
		reconciled(&backups{o}, b)
	}
	reconciled(&restores{Options: o}, x)
	wg.Wait()
	var began, waiting []string
	for _, b := range pending {
		require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
		if b.Status.StartedAt != nil {
			began = append(began, b.Name)
		} else {
			waiting = append(waiting, b.Status.Message)
		}
	}
	require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(x), x))
	if x.Status.StartedAt != nil {
		began = append(began, x.Name)
	} else {
		waiting = append(waiting, x.Status.Message)
	}
	require.Len(t, began, 1)
	require.Len(t, waiting, 3)
	for _, message := range waiting {
		assert.Regexp(t, "Database(Backup|Restore) "+began[0]+" is running", message)
	}
}

// The policies of an isolated environment would drop the connection without an answer.
func TestADumpIsNotRestoredIntoAnIsolatedEnvironment(t *testing.T) {
	target := shop()
	target.Name, target.Status.Namespace, target.Spec.Network = "copy", "env-copy", &v1alpha1.EnvironmentNetwork{Isolated: true}
	x := &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r", UID: "2", CreationTimestamp: ago(time.Second)}}
	x.Spec = v1alpha1.DatabaseRestoreSpec{Environment: "copy", Backup: "b"}
	r := &restores{Options: options(t, shop(), target, aBackup("b", v1alpha1.DatabaseBackupCompleted))}
	_, err := r.step(t.Context(), &operation{x, &x.Status.DatabaseOperationStatus, noon}, x)
	var fail failError
	require.ErrorAs(t, err, &fail)
}

// A name may be taken by something of another owner, which stays as it is.
func TestObjectsOfOthersAreNotTaken(t *testing.T) {
	b := aBackup("b", v1alpha1.DatabaseBackupRunning)
	job := render.DumpJob(shop(), b)
	job.Labels[render.OperationNamespaceLabel] = "another-team"
	secret := render.OperationSecret(job, map[string][]byte{"key": []byte("theirs")})
	r := &backups{options(t, shop(), job, secret)}
	op := &operation{b, &b.Status.DatabaseOperationStatus, noon}
	var fail failError
	require.ErrorAs(t, r.dump(t.Context(), op, b, shop()), &fail)
	require.NoError(t, r.deleteOurs(t.Context(), render.DumpJob(shop(), b), &corev1.Secret{}))
	require.NoError(t, r.deleteOurs(t.Context(), render.DumpJob(shop(), b), &batchv1.Job{}))
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
}

// The dump of an environment that no longer exists stays on the claim that was retained, and the deletion ends.
func TestTheDeletionOfABackupEndsWithoutItsEnvironment(t *testing.T) {
	claim := render.ClaimOfBackups(shop(), nil)
	for name, objects := range map[string][]client.Object{"retained": {claim}, "gone": nil} {
		t.Run(name, func(t *testing.T) {
			b := aBackup("b", v1alpha1.DatabaseBackupCompleted)
			b.DeletionTimestamp = new(ago(time.Second))
			o := options(t, append(objects, b)...)
			_, err := (&backups{o}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b)))
			events := o.Recorder.(*record.FakeRecorder).Events
			if name == "gone" {
				assert.Empty(t, events)
			} else {
				assert.Contains(t, <-events, "BackupLeft Environment shop does not exist: the file b.dump stays on claim database-backups of namespace env-shop")
			}
		})
	}
}

// A backup that can still be restored outlives its environment; one without data does not, though there may be another environment of
// that name.
// stale is a client whose cache has an object as it was.
type stale struct {
	client.Client
	cached *v1alpha1.DatabaseBackup
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if b, ok := o.(*v1alpha1.DatabaseBackup); ok {
		s.cached.DeepCopyInto(b)
		return nil
	}
	return s.Client.Get(ctx, key, o, options...)
}

// The deletion of a Job has a backup reconciled again, and the cache may still have the backup.
func TestABackupThatIsGoneGetsNoJob(t *testing.T) {
	b := aBackup("b", v1alpha1.DatabaseBackupCompleted)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "env-shop", Name: render.BackupsClaim}}
	o := options(t, shop(), b, claim)
	require.NoError(t, o.Client.Delete(t.Context(), b))
	require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)}
	cached := b.DeepCopy()

	b.Finalizers = nil
	require.NoError(t, o.Client.Update(t.Context(), b))
	o.Client = stale{o.Client, cached}
	_, err := (&backups{o}).Reconcile(t.Context(), request)
	require.NoError(t, err)
	var jobs batchv1.JobList
	require.NoError(t, o.Client.List(t.Context(), &jobs))
	assert.Empty(t, jobs.Items)
}

func TestABackupWithoutItsDataIsDeleted(t *testing.T) {
	claim := render.ClaimOfBackups(shop(), nil)
	for name, c := range map[string]struct {
		phase   v1alpha1.DatabaseBackupPhase
		objects []client.Object
		kept    bool
	}{
		"nothing is left":                {v1alpha1.DatabaseBackupCompleted, nil, false},
		"it was retained":                {v1alpha1.DatabaseBackupCompleted, []client.Object{claim}, true},
		"all is there":                   {v1alpha1.DatabaseBackupCompleted, []client.Object{claim, shop()}, true},
		"the environment is new":         {v1alpha1.DatabaseBackupCompleted, []client.Object{shop()}, false},
		"it failed":                      {v1alpha1.DatabaseBackupFailed, []client.Object{shop()}, true},
		"it failed, and nothing is left": {v1alpha1.DatabaseBackupFailed, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBackup("b", c.phase)
			o := options(t, append(c.objects, b)...)
			next, err := (&backups{o}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			require.NoError(t, err)
			require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
			assert.Equal(t, c.kept, b.DeletionTimestamp == nil)
			if c.kept {
				assert.Equal(t, resyncInterval, next.RequeueAfter, "there may be many, and they stay")
			}
		})
	}
}

func TestTheStateOfASchedule(t *testing.T) {
	for name, c := range map[string]struct {
		created, last time.Duration
		suspend       bool
		maxAgeHours   int32
		status        metav1.ConditionStatus
		reason        string
	}{
		"new":                           {time.Hour, 0, false, 0, metav1.ConditionTrue, v1alpha1.ReasonBackupNotDue},
		"current":                       {999 * time.Hour, 9 * time.Hour, false, 0, metav1.ConditionTrue, v1alpha1.ReasonBackupCompleted},
		"one was missed":                {999 * time.Hour, 33 * time.Hour, false, 0, metav1.ConditionTrue, v1alpha1.ReasonBackupCompleted},
		"two were missed":               {999 * time.Hour, 57 * time.Hour, false, 0, metav1.ConditionFalse, v1alpha1.ReasonBackupTooOld},
		"none was ever made":            {57 * time.Hour, 0, false, 0, metav1.ConditionFalse, v1alpha1.ReasonBackupTooOld},
		"suspended":                     {999 * time.Hour, 99 * time.Hour, true, 0, metav1.ConditionTrue, v1alpha1.ReasonBackupCompleted},
		"suspended, with a maximum age": {999 * time.Hour, 99 * time.Hour, true, 24, metav1.ConditionFalse, v1alpha1.ReasonBackupTooOld},
		"a low maximum age":             {999 * time.Hour, 9 * time.Hour, false, 8, metav1.ConditionFalse, v1alpha1.ReasonBackupTooOld},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.DatabaseBackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", CreationTimestamp: ago(c.created)}}
			s.Spec = v1alpha1.DatabaseBackupScheduleSpec{Environment: "shop", Schedule: "0 3 * * *", Suspend: c.suspend, Keep: 7}
			if c.maxAgeHours > 0 {
				s.Spec.MaxAgeHours = &c.maxAgeHours
			}
			var all []v1alpha1.DatabaseBackup
			if c.last > 0 {
				failed, b := aBackup("later", v1alpha1.DatabaseBackupFailed), aBackup("b", v1alpha1.DatabaseBackupCompleted)
				b.Status.StartedAt = new(ago(c.last))
				all = append(all, *failed, *b)
			}
			times, err := schedule.Parse(&s.Spec)
			require.NoError(t, err)
			next := (&schedules{options(t)}).report(s, times, all, noon)
			is := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionBackupCurrent)
			assert.Equal(t, c.status, is.Status, is.Message)
			assert.Equal(t, c.reason, is.Reason)
			assert.Positive(t, next.RequeueAfter)
			assert.LessOrEqual(t, next.RequeueAfter, resyncInterval)
		})
	}
}

// A schedule creates what is due, once, and nothing while a backup is running.
func TestAScheduleCreatesWhatIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		suspend bool
		running bool
		want    int
	}{
		"due": {false, false, 1}, "suspended": {true, false, 0}, "another is running": {false, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.DatabaseBackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", CreationTimestamp: ago(72 * time.Hour)}}
			s.Spec = v1alpha1.DatabaseBackupScheduleSpec{Environment: "shop", Schedule: "0 3 * * *", Keep: 7, Suspend: c.suspend}
			var objects []client.Object
			if c.running {
				b := aBackup("s-earlier", v1alpha1.DatabaseBackupRunning)
				b.Labels = map[string]string{v1alpha1.DatabaseScheduleLabel: "s"}
				objects = append(objects, b)
			}
			r := &schedules{options(t, objects...)}
			times, err := schedule.Parse(&s.Spec)
			require.NoError(t, err)
			for range 2 {
				_, err = r.run(t.Context(), s, times)
				require.NoError(t, err)
			}
			list := &v1alpha1.DatabaseBackupList{}
			require.NoError(t, r.Client.List(t.Context(), list))
			require.Len(t, list.Items, c.want)
			if c.want == 1 && !c.running {
				assert.Equal(t, "s-20261126-030000", list.Items[0].Name, "the last of three times that were missed")
				assert.Equal(t, "s", list.Items[0].Labels[v1alpha1.DatabaseScheduleLabel])
			}
		})
	}
}

// The key is passed whole, or not at all.
func TestTheKeyIsOneLine(t *testing.T) {
	for key, want := range map[string]string{
		"0123456789abcdef": "", "0123456789abcdef\n": "", "short": "has 5 bytes", "0123456789\nabcdef": "is not one line", "": "has 0 bytes",
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "k"}, Data: map[string][]byte{"key": []byte(key)}}
		got, err := options(t, secret).encryptionKey(t.Context(), "team", &v1alpha1.EnvironmentSecret{Name: "k"})
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, "0123456789abcdef", string(got))
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// The cluster may have no default scheduler; that of the environments runs.
func TestAJobHasTheSchedulerOfEnvironments(t *testing.T) {
	for name, configured := range map[string]string{"configured": "berth-scheduler", "that of the cluster": ""} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.SchedulerName = configured
			b := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
			_, err := o.job(t.Context(), render.DumpJob(shop(), b), nil, nil)
			require.NoError(t, err)
			var jobs batchv1.JobList
			require.NoError(t, o.Client.List(t.Context(), &jobs))
			require.Len(t, jobs.Items, 1)
			assert.Equal(t, configured, jobs.Items[0].Spec.Template.Spec.SchedulerName)
		})
	}
}

// A user who may restore a backup into an environment of their own may not be allowed to get its key.
func TestARestoreNamesTheKeyOfAnEncryptedDump(t *testing.T) {
	b := aBackup("b", v1alpha1.DatabaseBackupCompleted)
	b.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: "backup-key"}
	x := aRestore(time.Second, "")
	x.Status = v1alpha1.DatabaseRestoreStatus{}
	step := func(x *v1alpha1.DatabaseRestore) error {
		r := &restores{Options: options(t, shop(), b)}
		_, err := r.step(t.Context(), &operation{x, &x.Status.DatabaseOperationStatus, noon}, x)
		return err
	}
	for _, ref := range []*v1alpha1.EnvironmentSecret{nil, {Name: "mine"}} {
		x := x.DeepCopy()
		x.Spec.EncryptionSecretRef = ref
		var fail failError
		require.ErrorAs(t, step(x), &fail)
		assert.ErrorContains(t, fail, "spec.encryptionSecretRef")
		assert.ErrorContains(t, fail, "backup-key")
	}
	x.Spec.EncryptionSecretRef = b.Spec.EncryptionSecretRef
	require.NoError(t, step(x))
	assert.Equal(t, v1alpha1.DatabaseBackupRunning, x.Status.Phase)
}
