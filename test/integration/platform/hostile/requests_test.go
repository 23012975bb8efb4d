// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/generators/messages"
	"berth.dev/berth/test/servicetest"
)

// requestBases are requests that the methods which create something accept, in JSON. Requests of the others begin empty.
var requestBases = map[string]string{
	"Deploy": `{"deploymentUnit": {"id": "hostile", "functions": [{"functionKey": "f", "image": "registry.example/f:1"}]}}`,
	"CreateEnvironment": `{"spec": {"name": "hostile", "applicationStack": {"name": "s", "version": "1",
		"backend": {"container": {"image": "registry.example/b:1"}}}}}`,
}

// answerWithin bounds the time until a request is answered beside the others: a busy machine needs some of it.
const answerWithin = 30 * time.Second

// unanswered are the codes of a server that did not come to an answer, or has a defect.
var unanswered = []codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled}

// unary are the methods of a server that have one answer.
func unary(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface) (list []protoreflect.MethodDescriptor) {
	t.Helper()
	r := servicetest.Reflect(ctx, t, conn)
	all := map[string]*descriptorpb.FileDescriptorProto{}
	names := r.Services()
	for _, name := range names {
		for _, f := range r.Files(name) {
			all[f.GetName()] = f
		}
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range all {
		set.File = append(set.File, f)
	}
	files, err := protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(set)
	require.NoError(t, err)
	for _, name := range names {
		d, err := files.FindDescriptorByName(protoreflect.FullName(name))
		require.NoError(t, err)
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			if m := methods.Get(i); !m.IsStreamingServer() && !m.IsStreamingClient() {
				list = append(list, m)
			}
		}
	}
	return list
}

// attackMethod sends the requests of a method, with a token, and bounds what they cost the program.
func attackMethod(t *testing.T, s *servicetest.Served, conn grpc.ClientConnInterface, token string, m protoreflect.MethodDescriptor) {
	t.Helper()
	base := dynamicpb.NewMessage(m.Input())
	if text, has := requestBases[string(m.Name())]; has {
		require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(text), base))
	}
	list := messages.Of(base)
	if len(list) == 0 {
		return
	}
	allowed, faults, mu := time.Duration(0), []string{}, sync.Mutex{}
	resetPeak(t, s.Process)
	before, rss := processorTime(t, s.Process), peak(t, s.Process)
	parallel(len(list), func(i int) {
		ctx, cancel := context.WithTimeout(s.As(token), answerWithin)
		defer cancel()
		err := conn.Invoke(ctx, "/"+string(m.Parent().FullName())+"/"+string(m.Name()), list[i].Message, dynamicpb.NewMessage(m.Output()))
		mu.Lock()
		defer mu.Unlock()
		allowed += timeEach * time.Duration(2+proto.Size(list[i].Message)/unit)
		if code := status.Code(err); slices.Contains(unanswered, code) {
			faults = append(faults, list[i].Field+": "+err.Error())
		}
	})
	used, growth := processorTime(t, s.Process)-before, peak(t, s.Process)-rss
	assert.Empty(t, faults)
	assert.Less(t, used, allowed, "processor time of %d requests", len(list))
	assert.Less(t, growth, mostGrowth, "memory at its peak")
	t.Logf("%d requests: %s of %s, %+d MB", len(list), used, allowed, growth>>20)
}

// What a caller writes is bounded before a program works on it, also before the caller is authorized.
func TestARequestOfAnyMethodCostsLittle(t *testing.T) {
	s := servicetest.New(t, "*", "manifests/rbac/environments", "manifests/rbac/environments/services")
	secrets := builders.Grant("secrets", builders.ServiceAccount(s.Namespace, "editor"), builders.Rule("", []string{"secrets"}, "get"))
	s.Create(secrets...)
	for name, controllers := range map[string][]string{"berth-records": {}, "berth-environments": {controller.ControllerEnvironments}} {
		s.Start(name, func(c *controller.Configuration) {
			c.Controllers = controllers
			c.Records.ODGMImage = "registry.example/odgm:1"
			c.Services.Environments.Namespace, c.Services.Records.Namespace, c.Services.Limits.Namespace = s.Namespace, s.Namespace, s.Namespace
			c.Services.RequestLimits.Calls, c.Services.RequestLimits.CallsPerCaller = 100, 100
		})
		conn := s.Dial(nil)
		methods := unary(s.As(s.Editor), t, conn)
		require.NotEmpty(t, methods)
		for _, m := range methods {
			for who, token := range map[string]string{"no one": s.Nobody, "an editor": s.Editor} {
				t.Run(string(m.FullName())+" by "+who, func(t *testing.T) { attackMethod(t, s, conn, token, m) })
			}
		}
	}
}
