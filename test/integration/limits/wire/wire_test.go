// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/mcpimport"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/anyform"
	"berth.dev/berth/test/wire/mapform"
)

const (
	selectorJSON = `{"disktype":"ssd","topology.kubernetes.io/zone":"a"}`
	// affinityText is longer than 127 bytes, from where on the length of an Any is no UTF-8.
	affinityText = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[` +
		`{"key":"gpu","operator":"In","values":["a100","h100"]},{"key":"cores","operator":"Gt","values":["8"]}]}]},` +
		`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"spot","operator":"DoesNotExist"}]}}]}}`
)

func anyLimit(name, selectorURL, affinityURL string) *anyform.CreateResourceLimitRequest {
	return &anyform.CreateResourceLimitRequest{
		Name: name, Description: "for models", Labels: map[string]string{"team": "ml"},
		Limits: &anyform.ResourceLimit{
			Cpu: "500m", Memory: "1Gi", CpuLimit: new("2"), MemoryLimit: new("2Gi"), EphemeralStorage: new("10Gi"),
			Volumes:      map[string]*anyform.VolumeLimit{"data": {Size: "5Gi", StorageClass: new("fast")}, "tmp": {Size: "1Gi"}},
			NodeSelector: &anypb.Any{TypeUrl: selectorURL, Value: []byte(selectorJSON)},
			NodeAffinity: &anypb.Any{TypeUrl: affinityURL, Value: []byte(affinityText)},
		},
	}
}

func TestTheAnyFormIsReadAsItWasWritten(t *testing.T) {
	s := serve(t)
	for name, urls := range map[string][2]string{
		"of-the-plan": {"kubernetes.io/NodeSelector", "kubernetes.io/Affinity"},
		"of-the-data-model": {
			"type.googleapis.com/mcp.orchestrator.NodeSelector",
			"type.googleapis.com/mcp.orchestrator.NodeAffinity",
		},
	} {
		req := anyLimit(name, urls[0], urls[1])
		created, err := s.any().CreateResourceLimit(s.as(s.Editor), req)
		require.NoError(t, err)
		got, err := s.any().GetResourceLimit(s.as(s.Viewer), named(name))
		require.NoError(t, err)
		assert.True(t, proto.Equal(created, got), "what a create answers is what a get does")
		assert.Equal(t, name, got.Name)
		assert.Equal(t, req.Description, got.Description)
		assert.Equal(t, req.Labels, got.Labels)
		assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, got.CreatedAt)
		assert.Nil(t, got.DeletedAt)
		assert.Equal(t, urls[0], got.Limits.NodeSelector.TypeUrl)
		assert.Equal(t, urls[1], got.Limits.NodeAffinity.TypeUrl)
		assert.JSONEq(t, selectorJSON, string(got.Limits.NodeSelector.Value))
		assert.JSONEq(t, affinityText, string(got.Limits.NodeAffinity.Value))
		want := proto.Clone(req.Limits).(*anyform.ResourceLimit)
		want.NodeSelector, want.NodeAffinity = got.Limits.NodeSelector, got.Limits.NodeAffinity
		assert.True(t, proto.Equal(want, got.Limits), "%v", got.Limits)

		stored := s.stored(name)
		assert.Equal(t, "ssd", stored.Spec.NodeSelector["disktype"])
		assert.Len(t, stored.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions, 2)
		assert.Equal(t, map[string]string{"team": "ml"}, stored.Labels)
	}
}

func TestAnUnknownTypeURLIsRefusedByItsField(t *testing.T) {
	s := serve(t)
	for field, change := range map[string]func(*anyform.ResourceLimit){
		"limits.node_selector": func(l *anyform.ResourceLimit) { l.NodeSelector.TypeUrl = "example.com/NodeSelector" },
		"limits.node_affinity": func(l *anyform.ResourceLimit) { l.NodeAffinity.TypeUrl = "kubernetes.io/NodeSelector" },
	} {
		req := anyLimit("x", "kubernetes.io/NodeSelector", "kubernetes.io/Affinity")
		change(req.Limits)
		servicetest.Refused(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor), req)), codes.InvalidArgument, field, "type URL")
	}
	assert.Zero(t, s.count())
}

func TestTheMapFormLosesNothing(t *testing.T) {
	s := serve(t)
	require.Greater(t, len(affinityText), 127)
	req := &mapform.CreateResourceLimitRequest{Name: "mapped", Limits: &mapform.ResourceLimit{
		Cpu: "1", Memory: "1Gi", NodeSelector: map[string]string{"disktype": "ssd", "node-role.kubernetes.io/worker": "", "zone": "a"},
		NodeAffinity: new(affinityText),
	}}
	require.NoError(t, servicetest.Err(s.mapped().CreateResourceLimit(s.as(s.Editor), req)))
	got, err := s.mapped().GetResourceLimit(s.as(s.Viewer), &mapform.GetResourceLimitRequest{Name: "mapped"})
	require.NoError(t, err)
	assert.Equal(t, req.Limits.NodeSelector, got.Limits.NodeSelector)
	assert.JSONEq(t, affinityText, got.Limits.GetNodeAffinity())

	// One selector key, and an empty value: it is a map, and no Any with an unknown type URL.
	one := &mapform.CreateResourceLimitRequest{Name: "one", Limits: &mapform.ResourceLimit{
		Cpu: "1", Memory: "1Gi", NodeSelector: map[string]string{"node-role.kubernetes.io/worker": ""},
	}}
	require.NoError(t, servicetest.Err(s.mapped().CreateResourceLimit(s.as(s.Editor), one)))
	assert.Equal(t, map[string]string{"node-role.kubernetes.io/worker": ""}, s.stored("one").Spec.NodeSelector)

	// A client that requests another form gets it, whatever the name of the service is.
	asAny := &anyform.ResourceLimitResponse{}
	err = s.Dial(nil).Invoke(s.as(s.Viewer, "berth-wire-form", "any"), "/"+upstreamName+"/GetResourceLimit", named("mapped"), asAny)
	require.NoError(t, err)
	assert.Equal(t, "kubernetes.io/NodeSelector", asAny.Limits.NodeSelector.TypeUrl)
	assert.JSONEq(t, affinityText, string(asAny.Limits.NodeAffinity.Value))
	back := &mapform.ResourceLimitResponse{}
	err = s.Dial(nil).Invoke(s.as(s.Viewer, "berth-wire-form", "map"), "/"+contractName+"/GetResourceLimit", named("mapped"), back)
	require.NoError(t, err)
	assert.Equal(t, req.Limits.NodeSelector, back.Limits.NodeSelector)
	assert.JSONEq(t, affinityText, back.Limits.GetNodeAffinity())

	for _, form := range []string{"xml", ""} {
		_, err = s.any().GetResourceLimit(s.as(s.Viewer, "berth-wire-form", form), named("mapped"))
		servicetest.Refused(t, err, codes.InvalidArgument, "berth-wire-form", "any or map")
	}
}

// A client of each form decodes every limit, whoever wrote it and with whatever: the name of its service selects its form.
func TestTheNameOfTheServiceSelectsTheForm(t *testing.T) {
	s := serve(t)
	selector := map[string]string{"disktype": "ssd", "topology.kubernetes.io/zone": "a"}
	require.NoError(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor),
		anyLimit("by-any", "kubernetes.io/NodeSelector", "kubernetes.io/Affinity"))))
	require.NoError(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor), anyLimit("by-any-of-the-data-model",
		"type.googleapis.com/mcp.orchestrator.NodeSelector", "type.googleapis.com/mcp.orchestrator.NodeAffinity"))))
	require.NoError(t, servicetest.Err(s.mapped().CreateResourceLimit(s.as(s.Editor), &mapform.CreateResourceLimitRequest{
		Name: "by-map", Limits: &mapform.ResourceLimit{Cpu: "1", Memory: "1Gi", NodeSelector: selector, NodeAffinity: new(affinityText)},
	})))
	body := fmt.Sprintf(`{"name":"by-rest","limits":{"cpu":"1","memory":"1Gi","nodeSelector":%s,"nodeAffinity":%s}}`, selectorJSON, affinityText)
	require.Equal(t, 201, s.rest(s.Editor, "POST", "", body).status)
	imported, _, err := mcpimport.Parse(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "resource-limit-rl-by-import"},
		Data:       map[string]string{"cpu": "1", "memory": "1Gi", "node_selector": selectorJSON, "node_affinity": affinityText},
	})
	require.NoError(t, err)
	byKubectl := s.stored("by-map")
	byKubectl.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: "by-kubectl"}
	s.CreateAsIs(imported, byKubectl)

	names := s.Names(&v1alpha1.ResourceLimitList{})
	require.Len(t, names, 6)
	mapped, err := s.mapped().ListResourceLimits(s.as(s.Viewer), &mapform.ListResourceLimitsRequest{})
	require.NoError(t, err)
	require.Len(t, mapped.Data, len(names))
	asAny, err := s.any().ListResourceLimits(s.as(s.Viewer), &anyform.ListResourceLimitsRequest{})
	require.NoError(t, err)
	require.Len(t, asAny.Data, len(names))
	for i, name := range names {
		one, err := s.mapped().GetResourceLimit(s.as(s.Viewer), &mapform.GetResourceLimitRequest{Name: name})
		require.NoError(t, err, name)
		for _, l := range []*mapform.ResourceLimitResponse{one, mapped.Data[i]} {
			assert.Equal(t, name, l.Name)
			assert.Equal(t, selector, l.Limits.NodeSelector, name)
			assert.JSONEq(t, affinityText, l.Limits.GetNodeAffinity(), name)
		}
		other, err := s.any().GetResourceLimit(s.as(s.Viewer), named(name))
		require.NoError(t, err, name)
		prefix := "kubernetes.io/"
		if name == "by-any-of-the-data-model" {
			prefix = "type.googleapis.com/mcp.orchestrator."
		}
		for _, l := range []*anyform.ResourceLimitResponse{other, asAny.Data[i]} {
			assert.Equal(t, name, l.Name)
			assert.Equal(t, prefix+"NodeSelector", l.Limits.NodeSelector.GetTypeUrl(), name)
			assert.JSONEq(t, selectorJSON, string(l.Limits.NodeSelector.GetValue()), name)
			assert.JSONEq(t, affinityText, string(l.Limits.NodeAffinity.GetValue()), name)
		}
	}
}

// The half that Get shows, and that later pods use the new rules.
func TestALimitWithoutSchedulingHasNone(t *testing.T) {
	s := serve(t)
	_, err := s.any().CreateResourceLimit(s.as(s.Editor), anyLimit("x", "kubernetes.io/NodeSelector", "kubernetes.io/Affinity"))
	require.NoError(t, err)
	got, err := s.any().UpdateResourceLimit(s.as(s.Editor), &anyform.UpdateResourceLimitRequest{
		Name: "x", Limits: &anyform.ResourceLimit{Cpu: "1", Memory: "1Gi"},
	})
	require.NoError(t, err)
	assert.Nil(t, got.Limits.NodeSelector)
	assert.Nil(t, got.Limits.NodeAffinity)
	assert.Nil(t, got.Limits.CpuLimit)
	assert.Empty(t, got.Limits.Volumes)
	assert.Empty(t, got.Labels, "a full replacement")
	assert.Empty(t, got.Description)
	stored := s.stored("x").Spec
	assert.Nil(t, stored.NodeSelector)
	assert.Nil(t, stored.NodeAffinity)
}

// Stable bytes: equal rules written in another order are equal when read.
func TestTheOrderOfASelectorDoesNotMatter(t *testing.T) {
	s := serve(t)
	ctx := s.as(s.Editor)
	read := func() string {
		got, err := s.any().GetResourceLimit(ctx, named("x"))
		require.NoError(t, err)
		return string(got.Limits.NodeSelector.Value) + string(got.Limits.NodeAffinity.Value)
	}
	req := anyLimit("x", "kubernetes.io/NodeSelector", "kubernetes.io/Affinity")
	req.Limits.NodeSelector.Value = []byte(`{"c":"3","a":"1","b":"2"}`)
	require.NoError(t, servicetest.Err(s.any().CreateResourceLimit(ctx, req)))
	first := read()
	assert.True(t, strings.HasPrefix(first, `{"a":"1","b":"2","c":"3"}{"nodeAffinity":{"required`), first)
	generation := s.stored("x").Generation
	for _, text := range []string{`{"b":"2","c":"3","a":"1"}`, ` { "a" : "1" , "c":"3", "b":"2" } `} {
		req.Limits.NodeSelector.Value = []byte(text)
		_, err := s.any().UpdateResourceLimit(ctx, &anyform.UpdateResourceLimitRequest{
			Name: "x", Description: req.Description, Labels: req.Labels, Limits: req.Limits,
		})
		require.NoError(t, err)
		assert.Equal(t, first, read())
	}
	assert.Equal(t, generation, s.stored("x").Generation, "no spurious change")
	rest := s.rest(s.Editor, "GET", "/x", "").body
	assert.Equal(t, rest, s.rest(s.Editor, "GET", "/x", "").body)
	assert.Contains(t, rest, `"nodeSelector":{"a":"1","b":"2","c":"3"}`)
}
