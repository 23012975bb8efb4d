// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
)

// published are the ten calls of the published smoke client, as it sends them. ID is replaced by what the creation returns.
//
//go:embed testdata/scheduler-v1-smoke.json
var published []byte

// publishedPassword is the password that they have, as a field and as a variable.
const publishedPassword = "secure_password_123"

type publishedCall struct {
	Call    string
	Request json.RawMessage
}

func publishedCalls() (calls []publishedCall) {
	for d := json.NewDecoder(bytes.NewReader(published)); ; {
		var c publishedCall
		switch err := d.Decode(&c); {
		case errors.Is(err, io.EOF):
			return calls
		case err != nil:
			panic(err)
		}
		calls = append(calls, c)
	}
}

// read reads the request of a call about the environment of an id.
func (c *publishedCall) read(id string, into proto.Message) {
	text := bytes.ReplaceAll(c.Request, []byte(`"ID"`), []byte(`"`+id+`"`))
	if err := protojson.Unmarshal(text, into); err != nil {
		panic(err) // a field that the proto does not have
	}
}

// golden is the environment that the published smoke client creates.
func golden() *schedulerv1.EnvironmentSpecification {
	var r schedulerv1.CreateEnvironmentRequest
	publishedCalls()[0].read("", &r)
	return r.GetSpec()
}

// publishedUpdate is what it makes of it: of the backend it sends name, image and resources only.
func publishedUpdate(id string) *schedulerv1.UpdateEnvironmentRequest {
	var r schedulerv1.UpdateEnvironmentRequest
	publishedCalls()[7].read(id, &r)
	return &r
}

// called returns the error of a call and, of the creation, the id.
func (w *wired) called(ctx context.Context, conn grpc.ClientConnInterface, c *publishedCall, id string) (string, error) {
	var request proto.Message
	var answer proto.Message = &schedulerv1.GetEnvironmentResponse{} // of the answers only that to the creation is read
	switch c.Call {
	case "CreateEnvironment":
		request, answer = &schedulerv1.CreateEnvironmentRequest{}, &schedulerv1.CreateEnvironmentResponse{}
	case "ListEnvironments":
		request, answer = &schedulerv1.ListEnvironmentsRequest{}, &schedulerv1.ListEnvironmentsResponse{}
	case "GetEnvironment":
		request = &schedulerv1.GetEnvironmentRequest{}
	case "StartEnvironment":
		request = &schedulerv1.StartEnvironmentRequest{}
	case "StopEnvironment":
		request = &schedulerv1.StopEnvironmentRequest{}
	case "RestartEnvironment":
		request = &schedulerv1.RestartEnvironmentRequest{}
	case "GetEnvironmentStatus":
		request, answer = &schedulerv1.GetEnvironmentStatusRequest{}, &schedulerv1.GetEnvironmentStatusResponse{}
	case "UpdateEnvironment":
		request = &schedulerv1.UpdateEnvironmentRequest{}
	case "GetEnvironmentLogs":
		var r schedulerv1.GetEnvironmentLogsRequest
		c.read(id, &r)
		return id, w.readsLogs(ctx, conn, &r)
	case "DeleteEnvironment":
		request, answer = &schedulerv1.DeleteEnvironmentRequest{}, &schedulerv1.DeleteEnvironmentResponse{}
	}
	c.read(id, request)
	err := conn.Invoke(ctx, "/scheduler.v1.SchedulerService/"+c.Call, request, answer)
	text, marshalled := protojson.Marshal(answer)
	require.NoError(w.T, marshalled)
	assert.NotContains(w.T, string(text), publishedPassword, c.Call)
	if created, is := answer.(*schedulerv1.CreateEnvironmentResponse); is {
		id = created.GetEnvironment().GetId()
	}
	return id, err
}

// readsLogs reads logs to their end. KWOK has no kubelet that serves them, which is no error here; the suite on kind
// reads lines.
func (w *wired) readsLogs(ctx context.Context, conn grpc.ClientConnInterface, r *schedulerv1.GetEnvironmentLogsRequest) error {
	r.Since = timestamppb.New(time.Now().Add(-time.Hour))
	logs, err := schedulerv1.NewSchedulerServiceClient(conn).GetEnvironmentLogs(ctx, r)
	if err != nil {
		return err
	}
	switch _, err = logs.Recv(); {
	case err == nil, errors.Is(err, io.EOF):
	default:
		servicetest.Refused(w.T, err, codes.Unavailable, "", "the log of backend cannot be read now")
	}
	return nil
}

// The ten calls succeed in their order, with the id from the creation, however far the environment has come in between.
func TestThePublishedCallsSucceedAsTheyAreSent(t *testing.T) {
	w := serve(t)
	conn, ctx := w.served.Dial(nil), w.served.As(w.served.Editor)
	calls := publishedCalls()
	require.Len(t, calls, 10)
	for name, wait := range map[string]bool{"one after another": false, "the logs of what runs": true} {
		id := ""
		for i := range calls {
			c := &calls[i]
			if wait && c.Call == "GetEnvironmentLogs" {
				w.comes(id, v1alpha1.EnvironmentRunning)
			}
			var err error
			id, err = w.called(ctx, conn, c, id)
			require.NoError(t, err, "%s: %s", name, c.Call)
		}
		gone, secret := &v1alpha1.Environment{}, &corev1.Secret{}
		gone.Namespace, gone.Name = w.Namespace, id
		secret.Namespace, secret.Name = w.Namespace, id+"-credentials"
		w.WaitDeleted(gone)
		w.waitEverything(gone, 0, "nothing is left")
		w.WaitDeleted(secret)
	}
}

// What the published client sends is stored as it means it.
func TestThePublishedEnvironmentIsStoredCompletely(t *testing.T) {
	w := serve(t)
	c, ctx := w.client(), w.served.As(w.served.Editor)
	created, err := c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: golden()})
	require.NoError(t, err)
	id := created.GetEnvironment().GetId()
	e := w.comes(id, v1alpha1.EnvironmentRunning)

	want := golden()
	want.ApplicationStack.Database.Password = ""
	want.ApplicationStack.Backend.DatabaseConnectionString, want.ApplicationStack.Backend.ApiKeys = "", nil
	delete(want.GetApplicationStack().GetDatabase().GetContainer().GetEnvironmentVariables(), "POSTGRES_PASSWORD")
	got, err := c.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id})
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(want, got.GetEnvironment().GetSpec(), protocmp.Transform()))

	// The password is in Secrets, and nowhere else.
	text, err := json.Marshal(e)
	require.NoError(t, err)
	assert.NotContains(t, string(text), publishedPassword)
	credentials := testenv.Read(w.World, id+"-credentials", &corev1.Secret{})
	assert.Equal(t, publishedPassword, string(credentials.Data["databasePassword"]))
	assert.Equal(t, publishedPassword, w.password(e))
	pod := w.pods(e, "database")[0].Spec
	text, err = json.Marshal(pod)
	require.NoError(t, err)
	assert.NotContains(t, string(text), publishedPassword)

	// The storage path is the directory of the node that the volume of the data has, of the size of the disk.
	assert.Equal(t, []string{"database-postgres-data"}, w.names(e, &corev1.PersistentVolumeClaimList{}))
	claim := in(w.scene, e, "database-postgres-data", &corev1.PersistentVolumeClaim{})
	assert.Equal(t, "10Gi", claim.Spec.Resources.Requests.Storage().String())
	assert.Equal(t, []corev1.VolumeMount{{Name: "postgres-data", MountPath: "/var/lib/postgresql/data"}}, pod.Containers[0].VolumeMounts)
	assert.Contains(t, pod.Containers[0].Env, corev1.EnvVar{Name: "PGDATA", Value: "/var/lib/postgresql/data/pgdata"})

	// No empty claim hides what the image of the backend has, and the condition reports that.
	assert.Empty(t, w.pods(e, "backend")[0].Spec.Volumes)
	provisioned := condition(e, v1alpha1.ConditionVolumesProvisioned)
	assert.Equal(t, "HostPathNotAllowed", provisioned.Reason)
	assert.Contains(t, provisioned.Message, "claims take the place of database /opt/webapp/postgres-data")
	assert.Contains(t, provisioned.Message, "not mounted: backend /opt/webapp/backend (at /usr/src/app)")
}
