// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/services/server"
)

// requireInvalid demands that an error is the caller's, and names a field of the request.
func requireInvalid(t *testing.T, err error) {
	t.Helper()
	e := server.AsError(err)
	require.Equal(t, codes.InvalidArgument, e.Code, "%v", err)
	require.NotEmpty(t, e.Violations)
	for _, v := range e.Violations {
		require.NotEmpty(t, v.Field)
		require.NotEmpty(t, v.Description)
	}
	require.NotNil(t, e.GRPCStatus())
}

// Any bytes are a specification that is read, and read back, or one that is refused by the name of a field.
func FuzzSpecification(f *testing.F) {
	good, err := proto.Marshal(&schedulerv1.CreateEnvironmentRequest{Spec: smoke()})
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req schedulerv1.CreateEnvironmentRequest
		if err := server.Decode(b, &req); err != nil {
			requireInvalid(t, err)
			return
		}
		a, err := fromWire(req.GetSpec())
		if err == nil {
			err = check(&a.spec)
		}
		if err != nil {
			requireInvalid(t, err)
			return
		}
		once := specToWire(&a.spec)
		again, err := fromWire(once)
		require.NoError(t, err)
		require.True(t, sameSpec(&a.spec, &again.spec), "%s", cmp.Diff(a.spec, again.spec))
		require.Empty(t, cmp.Diff(once, specToWire(&again.spec), protocmp.Transform()))
		require.True(t, again.credentials.empty())
	})
}

// A token that was not written is refused, whatever it is.
func FuzzPageTokens(f *testing.F) {
	filter, err := hashOf("ns", nil)
	require.NoError(f, err)
	good, err := testKey.write("shop-1", filter)
	require.NoError(f, err)
	f.Add(good)
	f.Add(good + "=")
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		after, err := testKey.read(text, filter)
		if err != nil {
			requireInvalid(t, err)
			return
		}
		require.Equal(t, "shop-1", after, "only one was written")
	})
}

func FuzzLevelOf(f *testing.F) {
	for _, line := range []string{"", "ERROR x", `{"level":1e999}`, "level=", "I0102", "[warn", "\xff\xfe[error]", "{\"level\":{}}"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		require.Contains(t, []string{levelInfo, levelWarn, levelError, levelDebug}, LevelOf(line))
	})
}
