// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	tolerantv1 "berth.dev/berth/apis/proto/berth/mcp/v1"
	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/services/server"
	"berth.dev/berth/test/servertest"
)

// requireInvalid demands that an error is the caller's, and names a field, also as the caller names it.
func requireInvalid(t *testing.T, err error) {
	t.Helper()
	require.NotNil(t, servertest.RequireInvalid(t, err).Renamed(wireField).GRPCStatus())
}

// requireSame compares as JSON, to which a list without elements is the same as none.
func requireSame(t *testing.T, want, got spec) {
	t.Helper()
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
}

// What fields 7 and 8 are read as, they are written as, in either form.
func FuzzRules(f *testing.F) {
	wrap := func(url, text string) []byte {
		b, err := proto.Marshal(&anypb.Any{TypeUrl: url, Value: []byte(text)})
		require.NoError(f, err)
		return b
	}
	const rules = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}}}`
	f.Add("kubernetes.io/NodeSelector", []byte(`{"a":"b"}`), wrap("kubernetes.io/Affinity", rules))
	f.Add("a", []byte("b"), []byte(rules))
	f.Add("example.com/X", []byte(`{}`), wrap("type.googleapis.com/mcp.orchestrator.NodeAffinity", `{"podAffinity":{}}`))
	f.Add("", []byte{0xff}, []byte("\n {"))
	f.Fuzz(func(t *testing.T, key string, value, affinity []byte) {
		in := &tolerantv1.WriteResourceLimitRequest{Limits: &tolerantv1.ResourceLimit{
			NodeSelector: []*tolerantv1.Entry{{Key: key, Value: value}}, NodeAffinity: affinity,
		}}
		if affinity == nil {
			in.Limits.NodeAffinity = []byte{}
		}
		l, err := fromWire(in)
		if err != nil {
			requireInvalid(t, err)
			return
		}
		for _, form := range []form{formAny, formGoogle, formMap} {
			out, err := toWire(l, form)
			require.NoError(t, err)
			again, err := fromWire(&tolerantv1.WriteResourceLimitRequest{Limits: out.GetLimits()})
			if form == formMap && err != nil || form == formMap && !looksLikeLabel(&tolerantv1.Entry{Key: key, Value: value}) {
				continue // no label, which the API server refuses: as a map it may look like an Any
			}
			require.NoError(t, err)
			requireSame(t, l.Spec, again.Spec)
			twice, err := toWire(again, form)
			require.NoError(t, err)
			require.True(t, proto.Equal(out, twice))
		}
	})
}

// Any bytes are a request that is read, or one that is refused by the name of a field.
func FuzzMessages(f *testing.F) {
	good, err := proto.Marshal(&tolerantv1.WriteResourceLimitRequest{Name: "x", Labels: map[string]string{"a": "b"}, Limits: &tolerantv1.ResourceLimit{
		Cpu: "1", Volumes: map[string]*orchestratorv1.VolumeLimit{"v": {Size: "1Gi"}},
		NodeSelector: []*tolerantv1.Entry{{Key: "a", Value: []byte("b")}},
	}})
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{0x08, 0x01})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req tolerantv1.WriteResourceLimitRequest
		if err := server.Decode(b, &req); err != nil {
			requireInvalid(t, err)
			return
		}
		var other tolerantv1.WriteResourceLimitRequest
		require.NoError(t, proto.Unmarshal(b, &other), "the library reads what is not refused")
		if l, err := fromWire(&req); err != nil {
			requireInvalid(t, err)
		} else {
			_, err := toWire(l, formAny)
			require.NoError(t, err)
		}
	})
}

// What a REST body is read as, it is written as.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"name":"x","limits":{"cpu":"1","nodeAffinity":{"nodeAffinity":{}}}}`))
	f.Add([]byte(`{"name":"x","labels":{"a":"b"},"limits":{"volumes":{"v":{"size":"1","storageClass":null}},"nodeSelector":{"a":"b"}}}`))
	f.Add([]byte(`{"limits":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchFields":[{}]}}]}}}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(b))
		r.Header.Set("Content-Type", "application/json")
		l, err := read(r, "")
		if err != nil {
			requireInvalid(t, err)
			return
		}
		written, err := json.Marshal(toBody(l))
		require.NoError(t, err)
		var again request
		require.NoError(t, server.Unmarshal("", written, &again))
		same, err := fromBody(&again, "")
		require.NoError(t, err)
		twice, err := json.Marshal(toBody(same))
		require.NoError(t, err)
		require.Equal(t, string(written), string(twice))
	})
}

// Label queries and the queries of REST lists, cursors among them.
func FuzzQueries(f *testing.F) {
	f.Add("first=5&after=abc&labelSelector=a%3Db", "a", "b")
	f.Add("first=99999999999", "a/b/c", "")
	f.Add("%zz", "", "!")
	f.Add("=", "0", "0")
	f.Fuzz(func(t *testing.T, raw, key, value string) {
		if _, err := parseList(raw); err != nil {
			requireInvalid(t, err)
		}
		kv := []*orchestratorv1.LabelKeyValue{{Key: key, Value: value}}
		kvs := []*orchestratorv1.LabelKeyValues{{Key: key, Values: []string{value, ""}}}
		s, err := selector(&orchestratorv1.LabelQuery{
			Equal: kv, NotEqual: kv, In: kvs, NotIn: kvs, ContainKey: []string{key}, NotContainKey: []string{value},
		})
		if err != nil {
			requireInvalid(t, err)
			return
		}
		// It goes to the API server as text.
		parsed, err := parseList("labelSelector=" + url.QueryEscape(s.String()))
		require.NoError(t, err)
		require.Equal(t, s.String(), parsed.selector.String())
	})
}
