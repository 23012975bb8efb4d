// SPDX-License-Identifier: Apache-2.0

// Package servicetest runs a controller that serves gRPC and REST on loopback, and calls it as clients do.
package servicetest

import (
	"context"
	"crypto/tls"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire"
)

// Served is a running controller that serves, and a namespace with users of it.
type Served struct {
	*testenv.World
	Process *cluster.Controller
	// Address is that of the last controller that was started; TLS is nil if it serves plaintext.
	Address string
	TLS     *tls.Config
	// Editor may do everything with objects of a kind, Viewer may read them, Nobody may do nothing. These are their tokens.
	Editor, Viewer, Nobody string
	resource               string
}

// New makes the namespace and the users of a resource of Berth's group. No controller runs yet.
func New(t *testing.T, resource string, manifests ...string) *Served {
	t.Helper()
	s := &Served{World: testenv.New(t), resource: resource}
	s.ApplyFiles(append(manifests, "manifests/rbac/records", "manifests/rbac/records/services")...)
	s.Editor = s.User("editor", "*")
	s.Viewer = s.User("viewer", "get", "list")
	s.Nobody = s.User("nobody")
	return s
}

// Start starts a controller, and waits until it is ready: then it serves.
func (s *Served) Start(name string, changes ...func(*controller.Configuration)) {
	s.T.Helper()
	s.StartWith(cluster.ProgramOptions{Name: name}, changes...)
}

// StartWith is Start of a controller with options, such as another way to the API server.
func (s *Served) StartWith(o cluster.ProgramOptions, changes ...func(*controller.Configuration)) {
	s.T.Helper()
	s.Address = s.FreeAddress()
	s.Process = s.StartControllerWith(o, testenv.Impatient, func(c *controller.Configuration) {
		// An API server that is held up for some seconds costs no lease: a controller that lost it would end.
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 60, 50
		c.Services.BindAddress = s.Address
		for _, change := range changes {
			change(c)
		}
		if c.Services.CertFile != "" {
			s.TLS = &tls.Config{InsecureSkipVerify: true}
		}
	})
	r, err := healthpb.NewHealthClient(s.Dial(nil)).Check(s.Ctx, &healthpb.HealthCheckRequest{})
	require.NoError(s.T, err, "the controller is ready and does not serve")
	require.Equal(s.T, healthpb.HealthCheckResponse_SERVING, r.Status)
}

// User makes a service account that may do something with the objects of the namespace, and returns a token of it.
func (s *Served) User(name string, verbs ...string) string {
	s.T.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if len(verbs) > 0 {
		account := builders.ServiceAccount(s.Namespace, name)
		s.Create(builders.Grant(name, account, builders.Rule("berth.dev", []string{s.resource}, verbs...))...)
	}
	return s.Token(name)
}

// As is the context of a call with a token, "" for none, and more metadata, as pairs of key and value.
func (s *Served) As(token string, more ...string) context.Context {
	md := metadata.Pairs(more...)
	if token != "" {
		md.Set("authorization", "Bearer "+token)
	}
	return metadata.NewOutgoingContext(s.Ctx, md)
}

// Dial connects: with a configuration of TLS, else with that which the server has.
func (s *Served) Dial(config *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	s.T.Helper()
	if config == nil {
		config = s.TLS
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.Address, append(options, grpc.WithTransportCredentials(transport))...)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Conn connects for clients of one of the published revisions.
func (s *Served) Conn() wire.Conn { return wire.Conn{ClientConnInterface: s.Dial(nil)} }

// Err is the error of a call whose answer does not matter.
func Err(_ any, err error) error { return err }

// WaitCode waits until a call is answered with a code.
func (s *Served) WaitCode(what string, want codes.Code, call func() error) {
	s.T.Helper()
	s.Fails(what, func(err error) bool { return status.Code(err) == want }, call)
}

// Raw is sent as it is, by RawCodec: bytes that are no message of the rpc.
type Raw []byte

// RawCodec takes the place of protobuf for Raw.
type RawCodec struct{}

// Marshal returns the bytes.
func (RawCodec) Marshal(v any) ([]byte, error) { return v.(Raw), nil }

// Unmarshal drops an answer.
func (RawCodec) Unmarshal([]byte, any) error { return nil }

// Name is that of what it replaces.
func (RawCodec) Name() string { return "proto" }

// Unreadable is what only the authors of a program understand.
var Unreadable = regexp.MustCompile(`<nil>|map\[|\[\](string|int)|v1alpha1\.|Go (value|struct)|unmarshal`)

// Refused demands a code, and that the error names a field, as a google.rpc.BadRequest does, and has the words.
func Refused(t *testing.T, err error, code codes.Code, field string, words ...string) {
	t.Helper()
	require.Error(t, err)
	s := status.Convert(err)
	require.Equal(t, code, s.Code(), "%v", err)
	require.NotRegexp(t, Unreadable, s.Message(), "callers know no types of a program")
	for _, w := range words {
		require.Contains(t, s.Message(), w)
	}
	if field == "" {
		return
	}
	require.Contains(t, s.Message(), field)
	var fields []string
	for _, d := range s.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.FieldViolations {
				fields = append(fields, v.Field)
				require.NotEmpty(t, v.Description)
			}
		}
	}
	require.Contains(t, fields, field, "%v", err)
}

// Reflection queries a server's reflection service.
type Reflection struct {
	t      *testing.T
	stream reflectionv1.ServerReflection_ServerReflectionInfoClient
}

// Reflect opens a stream of questions.
func Reflect(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface) *Reflection {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	return &Reflection{t, stream}
}

func (r *Reflection) ask(q *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
	r.t.Helper()
	require.NoError(r.t, r.stream.Send(q))
	answer, err := r.stream.Recv()
	require.NoError(r.t, err)
	return answer
}

// Services are the names of all services.
func (r *Reflection) Services() (names []string) {
	r.t.Helper()
	q := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	for _, service := range r.ask(q).GetListServicesResponse().GetService() {
		names = append(names, service.Name)
	}
	return names
}

// Files are the file that has a symbol, last, and what it needs of others that were not sent before.
func (r *Reflection) Files(symbol string) (files []*descriptorpb.FileDescriptorProto) {
	r.t.Helper()
	request := &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}
	q := &reflectionv1.ServerReflectionRequest{MessageRequest: request}
	for _, b := range r.ask(q).GetFileDescriptorResponse().GetFileDescriptorProto() {
		var f descriptorpb.FileDescriptorProto
		require.NoError(r.t, proto.Unmarshal(b, &f))
		files = append([]*descriptorpb.FileDescriptorProto{&f}, files...)
	}
	return files
}
