// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "berth.dev/berth/apis/proto/berth/backup/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
)

// By gRPC, a database is backed up and restored by callers who may, and its backup deleted with the data.
func TestADatabaseIsBackedUpByGRPC(t *testing.T) {
	w := serve(t)
	e := w.runs(stored("shop"))
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}})
	w.Create(builders.Grant("operator", builders.ServiceAccount(w.Namespace, "operator"),
		builders.Rule("berth.dev", []string{"databasebackups"}, "create", "delete", "get", "list"),
		builders.Rule("berth.dev", []string{"databaserestores"}, "create", "get"))...)
	c, ctx := backupv1.NewBackupServiceClient(w.served.Dial(nil)), w.served.As(w.Token("operator"))
	request := func(change func(r *backupv1.CreateBackupRequest)) *backupv1.CreateBackupRequest {
		r := &backupv1.CreateBackupRequest{EnvironmentId: "shop", Name: "first", Method: backupv1.Method_METHOD_DUMP}
		change(r)
		return r
	}
	for field, tc := range map[string]struct {
		code   codes.Code
		change func(r *backupv1.CreateBackupRequest)
	}{
		"environment_id": {codes.InvalidArgument, func(r *backupv1.CreateBackupRequest) { r.EnvironmentId = "" }},
		"name":           {codes.InvalidArgument, func(r *backupv1.CreateBackupRequest) { r.Name = "No Name" }},
		"method":         {codes.InvalidArgument, func(r *backupv1.CreateBackupRequest) { r.Method = 7 }},
		"verify":         {codes.InvalidArgument, func(r *backupv1.CreateBackupRequest) { r.Verify, r.Method = true, backupv1.Method_METHOD_SNAPSHOT }},
	} {
		_, err := c.CreateBackup(ctx, request(tc.change))
		servicetest.Refused(t, err, tc.code, field)
	}
	_, err := c.CreateBackup(ctx, request(func(r *backupv1.CreateBackupRequest) { r.EnvironmentId = "unknown" }))
	servicetest.Refused(t, err, codes.NotFound, "", "unknown")
	_, err = c.CreateBackup(ctx, request(func(r *backupv1.CreateBackupRequest) { r.EncryptionSecret = "others" }))
	servicetest.Refused(t, err, codes.PermissionDenied, "", "get secrets")
	_, err = c.CreateBackup(w.served.As(w.served.Editor), request(func(*backupv1.CreateBackupRequest) {}))
	servicetest.Refused(t, err, codes.PermissionDenied, "", "create databasebackups.berth.dev")

	require.NoError(t, servicetest.Err(c.CreateBackup(ctx, request(func(*backupv1.CreateBackupRequest) {}))))
	_, err = c.CreateBackup(ctx, request(func(*backupv1.CreateBackupRequest) {}))
	servicetest.Refused(t, err, codes.AlreadyExists, "", "first")
	b := testenv.Read(w.World, "first", &v1alpha1.DatabaseBackup{})
	w.ends(e.Status.Namespace, b, &b.Status.DatabaseOperationStatus)
	got, err := c.GetBackup(ctx, &backupv1.GetBackupRequest{Name: "first"})
	require.NoError(t, err)
	assert.Equal(t, backupv1.Phase_PHASE_COMPLETED, got.GetBackup().GetPhase())
	assert.Equal(t, "4000Ki", got.GetBackup().GetSize())
	assert.NotNil(t, got.GetBackup().GetCompletedAt())
	list, err := c.ListBackups(ctx, &backupv1.ListBackupsRequest{EnvironmentId: "shop"})
	require.NoError(t, err)
	require.Len(t, list.GetBackups(), 1)

	restore, err := c.RestoreBackup(ctx, &backupv1.RestoreBackupRequest{EnvironmentId: "shop", Backup: "first"})
	require.NoError(t, err)
	r := testenv.Read(w.World, restore.GetRestore().GetName(), &v1alpha1.DatabaseRestore{})
	w.ends(e.Status.Namespace, r, &r.Status.DatabaseOperationStatus)
	ended, err := c.GetRestore(ctx, &backupv1.GetRestoreRequest{Name: r.Name})
	require.NoError(t, err)
	assert.Equal(t, backupv1.Phase_PHASE_COMPLETED, ended.GetRestore().GetPhase())

	log := testenv.ReadFile(t, w.process.LogPath())
	for _, verb := range []string{"backup database", "restore database"} {
		assert.Regexp(t, `"Audit".* verb="`+verb+`" environment="shop" .*operator.* code="OK"`, log)
	}
	require.NoError(t, servicetest.Err(c.DeleteBackup(ctx, &backupv1.DeleteBackupRequest{Name: "first"})))
	w.Eventually("the backup is deleted with its data", func() (bool, string) {
		w.endJobs(e.Status.Namespace, "", "")
		_, err := c.GetBackup(ctx, &backupv1.GetBackupRequest{Name: "first"})
		return status.Code(err) == codes.NotFound, "it is there"
	})
}
