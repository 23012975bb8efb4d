// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	tolerantv1 "berth.dev/berth/apis/proto/berth/mcp/v1"
	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/apis/v1alpha1"
)

func TestOneEntryIsAnAnyOrALabel(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value string
		want       map[string]string
		form       form
		refused    bool
	}{
		"an Any of the plan":              {"kubernetes.io/NodeSelector", `{"a":"b"}`, map[string]string{"a": "b"}, formAny, false},
		"an Any of the data model":        {"type.googleapis.com/mcp.orchestrator.NodeSelector", ` {"a":"b"}`, map[string]string{"a": "b"}, formGoogle, false},
		"an Any without rules":            {"kubernetes.io/NodeSelector", `{}`, nil, formAny, false},
		"an Any without JSON":             {"kubernetes.io/NodeSelector", ``, nil, "", true},
		"an Any that is unknown":          {"example.com/NodeSelector", `{"a":"b"}`, nil, "", true},
		"an Any of a message":             {"type.googleapis.com/x.Y", "", nil, "", true},
		"an Any of another message":       {"example.com/x.Y", "\n\x01x", nil, "", true},
		"an Any without a type URL":       {"", "", nil, "", true},
		"a label":                         {"disktype", "ssd", map[string]string{"disktype": "ssd"}, formMap, false},
		"a label without a value":         {"node-role.kubernetes.io/worker", "", map[string]string{"node-role.kubernetes.io/worker": ""}, formMap, false},
		"a label, for the CRD to look at": {"a", "b!", map[string]string{"a": "b!"}, formMap, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, f, err := decodeSelector([]*tolerantv1.Entry{{Key: tc.key, Value: []byte(tc.value)}})
			if tc.refused {
				requireInvalid(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.form, f)
		})
	}
}

// Every value is an object of the selector that is made from a query, before the caller is authorized.
func TestAQueryWithTooManyConditionsIsRefused(t *testing.T) {
	query := func(values int) *orchestratorv1.LabelQuery {
		return &orchestratorv1.LabelQuery{In: []*orchestratorv1.LabelKeyValues{{Key: "a", Values: make([]string, values)}}}
	}
	_, err := selector(query(maxConditions - 1))
	require.NoError(t, err)
	_, err = selector(query(maxConditions))
	requireInvalid(t, err)
	assert.ErrorContains(t, err, "1001")
}

func TestFieldsHaveTheNamesOfTheirFront(t *testing.T) {
	for field, want := range map[string][2]string{
		"metadata.name":                {"name", "name"},
		"metadata.labels":              {"labels", "labels"},
		"spec":                         {"limits", "limits"},
		"spec.description":             {"description", "description"},
		"spec.cpu":                     {"limits.cpu", "limits.cpu"},
		"spec.cpuLimit":                {"limits.cpu_limit", "limits.cpuLimit"},
		"spec.ephemeralStorage":        {"limits.ephemeral_storage", "limits.ephemeralStorage"},
		"spec.nodeSelector[cpuLimit]":  {"limits.node_selector[cpuLimit]", "limits.nodeSelector[cpuLimit]"},
		"spec.volumes[v].storageClass": {"limits.volumes[v].storage_class", "limits.volumes[v].storageClass"},
		"spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]": {
			"limits.node_affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
			"limits.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
		},
		"first": {"first", "first"},
	} {
		assert.Equal(t, want[0], wireField(field))
		assert.Equal(t, want[1], restField(field))
	}
}

// The tolerant messages are the published ones but for 7 and 8: same numbers, same names, same presence.
func TestTheTolerantMessagesAreThePublishedOnes(t *testing.T) {
	for tolerant, published := range map[proto.Message][]proto.Message{
		&tolerantv1.WriteResourceLimitRequest{}: {&orchestratorv1.CreateResourceLimitRequest{}, &orchestratorv1.UpdateResourceLimitRequest{}},
		&tolerantv1.ResourceLimit{}:             {&orchestratorv1.ResourceLimit{}},
		&tolerantv1.ResourceLimitResponse{}:     {&orchestratorv1.ResourceLimitResponse{}},
		&tolerantv1.ListResourceLimitsResponse{}: {
			&orchestratorv1.ListResourceLimitsResponse{},
		},
	} {
		for _, m := range published {
			assert.Equal(t, shape(m), shape(tolerant), "%T", m)
		}
	}
}

func shape(m proto.Message) map[protoreflect.FieldNumber]string {
	out := map[protoreflect.FieldNumber]string{}
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		out[f.Number()] = fmt.Sprintf("%s %s %s optional=%t", f.Name(), f.Kind(), f.Cardinality(), f.HasOptionalKeyword())
		if n := f.Name(); n == "node_selector" || n == "node_affinity" {
			out[f.Number()] = string(n)
		}
	}
	return out
}

// Whatever a limit has, each form reads back, and REST too.
func TestEveryFormReadsBackWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`([a-z]{1,5}\.[a-z]{1,3}/)?[a-zA-Z]{1,8}`)
		value := rapid.StringMatching(`([a-zA-Z0-9]{0,8})?`)
		quantity := rapid.StringMatching(`[1-9][0-9]{0,3}(m|Mi|Gi)?`)
		l := &Limit{Name: "x", Labels: rapid.MapOfN(key, value, 0, 3).Draw(t, "labels"), Spec: spec{
			Description: rapid.String().Draw(t, "description"), CPU: text(quantity.Draw(t, "cpu")),
			CPULimit: text(rapid.OneOf(quantity, rapid.Just("")).Draw(t, "cpuLimit")),
		}}
		if m := rapid.MapOfN(key, value, 0, 4).Draw(t, "selector"); len(m) > 0 {
			l.Spec.NodeSelector = m
		}
		if rapid.Bool().Draw(t, "affinity") {
			l.Spec.NodeAffinity = &v1alpha1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{{
				Weight: rapid.Int32Range(1, 100).Draw(t, "weight"),
				Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{{
					Key: key.Draw(t, "key"), Operator: v1alpha1.NodeOpIn, Values: rapid.SliceOfN(value, 1, 30).Draw(t, "values"),
				}}},
			}}}
		}
		for _, f := range []form{formAny, formGoogle, formMap} {
			out, err := toWire(l, f)
			require.NoError(t, err)
			b, err := proto.Marshal(&tolerantv1.WriteResourceLimitRequest{Name: l.Name, Labels: out.Labels, Description: out.Description, Limits: out.Limits})
			require.NoError(t, err)
			var req tolerantv1.WriteResourceLimitRequest
			require.NoError(t, proto.Unmarshal(b, &req))
			again, err := fromWire(&req)
			require.NoError(t, err)
			require.Equal(t, l.Spec, again.Spec, f)
			if l.Spec.NodeSelector != nil || l.Spec.NodeAffinity != nil {
				require.Equal(t, f, again.form)
			}
		}
		b, err := json.Marshal(toBody(l))
		require.NoError(t, err)
		var req request
		require.NoError(t, json.Unmarshal(b, &req))
		again, err := fromBody(&req, "")
		require.NoError(t, err)
		require.Equal(t, l.Spec, again.Spec)
	})
}
