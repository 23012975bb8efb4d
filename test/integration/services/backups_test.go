// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "berth.dev/berth/apis/proto/berth/backup/v1"
	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/servicetest"
)

// operator is the account that may back up and restore databases.
const operator = "operator"

// backups are the methods about the database of one environment. A backup names its request as the Secret of its key, and a restore as
// its backup.
func (s *scene) backups() []method {
	id := render.ID(s.Namespace, name)
	conn := s.Dial(nil)
	c, token := backupv1.NewBackupServiceClient(conn), s.Token(operator)
	environment := func(t *testing.T) {
		if !s.find(t, id, &v1alpha1.Environment{}) {
			s.settled(t, func() error {
				r := &schedulerv1.CreateEnvironmentRequest{Spec: specification(name, before)}
				return servicetest.Err(schedulerv1.NewSchedulerServiceClient(conn).CreateEnvironment(s.As(s.Editor), r))
			})
		}
	}
	create := func(request string) error {
		return servicetest.Err(c.CreateBackup(s.As(token), &backupv1.CreateBackupRequest{
			EnvironmentId: id, Name: name, Method: backupv1.Method_METHOD_DUMP, EncryptionSecret: request,
		}))
	}
	gone := func(t *testing.T) {
		environment(t)
		s.absent(t, &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.absent(t, &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	stored := func(t *testing.T) []string {
		b := &v1alpha1.DatabaseBackup{}
		if !s.find(t, name, b) || b.DeletionTimestamp != nil {
			return nil
		}
		require.Equal(t, id, b.Spec.Environment)
		return []string{b.Spec.EncryptionSecretRef.Name}
	}
	return []method{
		{name: "CreateBackup", before: gone, call: create, refusals: []codes.Code{codes.AlreadyExists}, stored: stored, once: true},
		{name: "DeleteBackup", before: func(t *testing.T) {
			gone(t)
			s.settled(t, func() error { return create(before) })
		}, refusals: []codes.Code{codes.NotFound}, gone: true, stored: stored, call: func(string) error {
			return servicetest.Err(c.DeleteBackup(s.As(token), &backupv1.DeleteBackupRequest{Name: name}))
		}},
		{name: "RestoreBackup", before: gone, refusals: []codes.Code{codes.AlreadyExists}, once: true, call: func(request string) error {
			return servicetest.Err(c.RestoreBackup(s.As(token), &backupv1.RestoreBackupRequest{
				EnvironmentId: id, Name: name, Backup: request,
			}))
		}, stored: func(t *testing.T) []string {
			x := &v1alpha1.DatabaseRestore{}
			if !s.find(t, name, x) {
				return nil
			}
			require.Equal(t, id, x.Spec.Environment)
			return []string{x.Spec.Backup}
		}},
	}
}
