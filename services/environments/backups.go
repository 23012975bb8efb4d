// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "berth.dev/berth/apis/proto/berth/backup/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/schedule"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

const (
	backupsResource, restoresResource = "databasebackups", "databaserestores"
	// maxBackups is how many backups a call returns.
	maxBackups = 1000
	// maxOperation is how long the name of a backup or a restore may be.
	maxOperation = 52
)

// backups is the gRPC side of DatabaseBackups and DatabaseRestores.
type backups struct {
	service *service
	// namespace is where environments are unless a call names another.
	namespace string
}

func backupsDescription() *grpc.ServiceDesc {
	own := &backupv1.BackupService_ServiceDesc
	return &grpc.ServiceDesc{
		ServiceName: own.ServiceName, HandlerType: (*any)(nil), Metadata: own.Metadata,
		Methods: []grpc.MethodDesc{
			server.Unary("CreateBackup", (*backups).create),
			server.Unary("GetBackup", (*backups).get),
			server.Unary("ListBackups", (*backups).list),
			server.Unary("DeleteBackup", (*backups).remove),
			server.Unary("RestoreBackup", (*backups).restore),
			server.Unary("GetRestore", (*backups).getRestore),
		},
	}
}

// authorize returns the namespace of a call, if the caller has the verb there.
func (b *backups) authorize(ctx context.Context, verb, resource, name string) (namespace string, err error) {
	namespace, err = server.Namespace(ctx, b.namespace)
	if err != nil {
		return "", err
	}
	return namespace, server.AuthorizeResource(ctx, b.service.access, server.Access{
		Verb: verb, Resource: resource, Namespace: namespace, Name: name,
	})
}

// operation is the metadata of a new backup or restore of an environment, if the caller may create one.
func (b *backups) operation(ctx context.Context, resource, environment, name string) (meta metav1.ObjectMeta, err error) {
	namespace, err := b.authorize(ctx, "create", resource, "")
	if err != nil {
		return meta, err
	}
	if environment == "" {
		return meta, server.InvalidField("environment_id", "is missing")
	}
	if name != "" && (len(name) > maxOperation || len(validation.IsDNS1123Label(name)) > 0) {
		return meta, server.InvalidField("name", fmt.Sprintf("is %q, and must be a DNS label of at most %d characters", name, maxOperation))
	}
	name = cmp.Or(name, render.OperationName(environment, b.service.now()))
	return metav1.ObjectMeta{Namespace: namespace, Name: name}, nil
}

// audited logs the caller and the result of a call that changes something of an environment, or of a backup of one.
func audited[T any](ctx context.Context, b *backups, verb, id string, do func() (*T, error)) (out *T, err error) {
	namespace, _ := server.Namespace(ctx, b.namespace) // do has its error
	_, err = b.service.audited(ctx, verb, namespace, id, func() (*environment, error) {
		out, err = do()
		return nil, err
	})
	return out, err
}

func (b *backups) create(ctx context.Context, req *backupv1.CreateBackupRequest) (*backupv1.CreateBackupResponse, error) {
	return audited(ctx, b, "backup database", req.GetEnvironmentId(), func() (*backupv1.CreateBackupResponse, error) {
		return b.createBackup(ctx, req)
	})
}

func (b *backups) createBackup(ctx context.Context, req *backupv1.CreateBackupRequest) (*backupv1.CreateBackupResponse, error) {
	meta, err := b.operation(ctx, backupsResource, req.GetEnvironmentId(), req.GetName())
	if err != nil {
		return nil, err
	}
	o := &v1alpha1.DatabaseBackup{ObjectMeta: meta}
	o.Spec.Environment, o.Spec.Verify = req.GetEnvironmentId(), req.GetVerify()
	switch req.GetMethod() {
	case backupv1.Method_METHOD_UNSPECIFIED:
		o.Spec.Method = v1alpha1.DatabaseBackupAuto
	case backupv1.Method_METHOD_SNAPSHOT:
		o.Spec.Method = v1alpha1.DatabaseBackupSnapshot
	case backupv1.Method_METHOD_DUMP:
		o.Spec.Method = v1alpha1.DatabaseBackupDump
	default:
		return nil, server.InvalidField("method",
			fmt.Sprintf("is %d, and must be 0 (unspecified), 1 (snapshot) or 2 (dump)", req.GetMethod()))
	}
	if name := req.GetEncryptionSecret(); name != "" {
		if err := b.service.mayGetSecret(ctx, meta.Namespace, name); err != nil {
			return nil, err
		}
		o.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: name}
	}
	if err := b.store(ctx, req.GetEnvironmentId(), o); err != nil {
		return nil, err
	}
	return &backupv1.CreateBackupResponse{Backup: backupToWire(o)}, nil
}

// store creates a backup or a restore of an environment that exists. In errors, fields are named as in the proto.
func (b *backups) store(ctx context.Context, environment string, o ctrlclient.Object) error {
	if _, err := b.service.find(ctx, o.GetNamespace(), environment); err != nil {
		return err
	}
	err := b.service.store.client.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		return server.Refuse(codes.AlreadyExists, fmt.Sprintf("%q already exists", o.GetName()))
	}
	return server.Rename(err, func(field string) string {
		names := map[string]string{
			"spec.verify": "verify", "spec.encryptionSecretRef": "encryption_secret", "spec.method": "method", "metadata.name": "name",
		}
		return cmp.Or(names[field], field)
	})
}

// read reads an object that a call names.
func (b *backups) read(ctx context.Context, verb, resource, name string, into ctrlclient.Object) error {
	if name == "" {
		return server.InvalidField("name", "is missing")
	}
	namespace, err := b.authorize(ctx, verb, resource, name)
	if err != nil {
		return err
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return server.Refuse(codes.NotFound, fmt.Sprintf("there is no %q", name))
	}
	err = b.service.store.client.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, into)
	if server.NotFound(err) {
		return server.Refuse(codes.NotFound, fmt.Sprintf("there is no %q", name))
	}
	return err
}

func (b *backups) get(ctx context.Context, req *backupv1.GetBackupRequest) (*backupv1.GetBackupResponse, error) {
	o := &v1alpha1.DatabaseBackup{}
	if err := b.read(ctx, "get", backupsResource, req.GetName(), o); err != nil {
		return nil, err
	}
	return &backupv1.GetBackupResponse{Backup: backupToWire(o)}, nil
}

func (b *backups) list(ctx context.Context, req *backupv1.ListBackupsRequest) (*backupv1.ListBackupsResponse, error) {
	if req.GetEnvironmentId() == "" {
		return nil, server.InvalidField("environment_id", "is missing")
	}
	namespace, err := b.authorize(ctx, "list", backupsResource, "")
	if err != nil {
		return nil, err
	}
	var all []v1alpha1.DatabaseBackup
	err = uncached.EachItem(ctx, b.service.store.client, &v1alpha1.DatabaseBackupList{}, namespace, func(o *v1alpha1.DatabaseBackup) {
		if o.Spec.Environment != req.GetEnvironmentId() {
			return
		}
		if all = append(all, *o); len(all) >= 2*maxBackups { // a tenant may create any number
			schedule.Sort(all)
			all = all[:maxBackups]
		}
	})
	if err != nil {
		return nil, err
	}
	schedule.Sort(all)
	out := &backupv1.ListBackupsResponse{}
	for i := range all[:min(len(all), maxBackups)] {
		out.Backups = append(out.Backups, backupToWire(&all[i]))
	}
	return out, nil
}

func (b *backups) remove(ctx context.Context, req *backupv1.DeleteBackupRequest) (*backupv1.DeleteBackupResponse, error) {
	return audited(ctx, b, "delete backup", req.GetName(), func() (*backupv1.DeleteBackupResponse, error) {
		o := &v1alpha1.DatabaseBackup{}
		if err := b.read(ctx, "delete", backupsResource, req.GetName(), o); err != nil {
			return nil, err
		}
		err := b.service.store.client.Delete(ctx, o, ctrlclient.Preconditions{UID: &o.UID})
		return &backupv1.DeleteBackupResponse{}, ctrlclient.IgnoreNotFound(err)
	})
}

func (b *backups) restore(ctx context.Context, req *backupv1.RestoreBackupRequest) (*backupv1.RestoreBackupResponse, error) {
	return audited(ctx, b, "restore database", req.GetEnvironmentId(), func() (*backupv1.RestoreBackupResponse, error) {
		return b.createRestore(ctx, req)
	})
}

func (b *backups) createRestore(ctx context.Context, req *backupv1.RestoreBackupRequest) (*backupv1.RestoreBackupResponse, error) {
	meta, err := b.operation(ctx, restoresResource, req.GetEnvironmentId(), req.GetName())
	if err != nil {
		return nil, err
	}
	if req.GetBackup() == "" {
		return nil, server.InvalidField("backup", "is missing")
	}
	o := &v1alpha1.DatabaseRestore{ObjectMeta: meta}
	o.Spec = v1alpha1.DatabaseRestoreSpec{Environment: req.GetEnvironmentId(), Backup: req.GetBackup()}
	if o.Spec.EncryptionSecretRef, err = b.keyOf(ctx, meta.Namespace, req.GetBackup()); err != nil {
		return nil, err
	}
	if err := b.store(ctx, req.GetEnvironmentId(), o); err != nil {
		return nil, err
	}
	return &backupv1.RestoreBackupResponse{Restore: restoreToWire(o)}, nil
}

// keyOf returns the Secret that a backup is encrypted with, nil if there is none, to a caller who may get it. A backup that does not exist
// yet has none, and the restore of an encrypted one then fails.
func (b *backups) keyOf(ctx context.Context, namespace, name string) (*v1alpha1.EnvironmentSecret, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil
	}
	o := &v1alpha1.DatabaseBackup{}
	err := b.service.store.client.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil || o.Spec.EncryptionSecretRef == nil {
		return nil, ctrlclient.IgnoreNotFound(err)
	}
	return o.Spec.EncryptionSecretRef, b.service.mayGetSecret(ctx, namespace, o.Spec.EncryptionSecretRef.Name)
}

func (b *backups) getRestore(ctx context.Context, req *backupv1.GetRestoreRequest) (*backupv1.GetRestoreResponse, error) {
	o := &v1alpha1.DatabaseRestore{}
	if err := b.read(ctx, "get", restoresResource, req.GetName(), o); err != nil {
		return nil, err
	}
	return &backupv1.GetRestoreResponse{Restore: restoreToWire(o)}, nil
}

func backupToWire(o *v1alpha1.DatabaseBackup) *backupv1.Backup {
	return &backupv1.Backup{
		Name: o.Name, EnvironmentId: o.Spec.Environment, Method: wireMethods[cmp.Or(o.Status.Method, o.Spec.Method)],
		Phase: phaseToWire(o.Status.Phase), Message: o.Status.Message, Size: o.Status.Size, Verified: o.Status.Verified,
		Encrypted: o.Status.Encrypted, Schedule: o.Labels[v1alpha1.DatabaseScheduleLabel],
		CreatedAt: timestamppb.New(o.CreationTimestamp.Time), CompletedAt: timeToWire(o.Status.CompletedAt),
	}
}

func restoreToWire(o *v1alpha1.DatabaseRestore) *backupv1.Restore {
	return &backupv1.Restore{
		Name: o.Name, EnvironmentId: o.Spec.Environment, Backup: o.Spec.Backup, Phase: phaseToWire(o.Status.Phase),
		Message: o.Status.Message, CreatedAt: timestamppb.New(o.CreationTimestamp.Time), CompletedAt: timeToWire(o.Status.CompletedAt),
	}
}

var wireMethods = map[v1alpha1.DatabaseBackupMethod]backupv1.Method{
	v1alpha1.DatabaseBackupSnapshot: backupv1.Method_METHOD_SNAPSHOT, v1alpha1.DatabaseBackupDump: backupv1.Method_METHOD_DUMP,
}

// phaseToWire returns a phase as on the wire. What no controller has seen is Pending.
func phaseToWire(p v1alpha1.DatabaseBackupPhase) backupv1.Phase {
	switch p {
	case v1alpha1.DatabaseBackupRunning:
		return backupv1.Phase_PHASE_RUNNING
	case v1alpha1.DatabaseBackupCompleted:
		return backupv1.Phase_PHASE_COMPLETED
	case v1alpha1.DatabaseBackupFailed:
		return backupv1.Phase_PHASE_FAILED
	}
	return backupv1.Phase_PHASE_PENDING
}
