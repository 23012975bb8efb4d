// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/anyform"
	"berth.dev/berth/test/wire/mapform"
)

func affinityOf(text string) func(*anyform.CreateResourceLimitRequest) {
	return func(r *anyform.CreateResourceLimitRequest) {
		r.Limits.NodeAffinity = &anypb.Any{TypeUrl: "kubernetes.io/Affinity", Value: []byte(text)}
	}
}

func selectorOf(text string) func(*anyform.CreateResourceLimitRequest) {
	return func(r *anyform.CreateResourceLimitRequest) {
		r.Limits.NodeSelector = &anypb.Any{TypeUrl: "kubernetes.io/NodeSelector", Value: []byte(text)}
	}
}

func term(expressions string) func(*anyform.CreateResourceLimitRequest) {
	return affinityOf(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{` + expressions + `}]}}}`)
}

func expression(text string) func(*anyform.CreateResourceLimitRequest) {
	return term(`"matchExpressions":[` + text + `]`)
}

func preferred(weight string) func(*anyform.CreateResourceLimitRequest) {
	return affinityOf(`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":` + weight +
		`,"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}]}}`)
}

const (
	required0   = "limits.node_affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
	expression0 = required0 + ".matchExpressions[0]"
	weight0     = "limits.node_affinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"
)

// Every row of the validation table of the contract, and what the decisions add to it.
func TestEveryRuleAcceptsAndRefusesByTheFieldsPath(t *testing.T) {
	s := serve(t)
	c := s.any()
	type change = func(*anyform.CreateResourceLimitRequest)
	n := 0
	for name, tc := range map[string]struct {
		change change
		field  string // empty: accepted
	}{
		"limits missing": {func(r *anyform.CreateResourceLimitRequest) { r.Limits = nil }, "limits"},
		"limits empty":   {func(r *anyform.CreateResourceLimitRequest) { r.Limits = &anyform.ResourceLimit{} }, ""},

		"selector key":                          {selectorOf(`{"a":"b"}`), ""},
		"selector key with a prefix":            {selectorOf(`{"example.com/a.b_c-d":"b"}`), ""},
		"selector key of 63":                    {selectorOf(`{"` + strings.Repeat("a", 63) + `":"b"}`), ""},
		"selector key of 64":                    {selectorOf(`{"` + strings.Repeat("a", 64) + `":"b"}`), "limits.node_selector"},
		"selector key with two slashes":         {selectorOf(`{"a/b/c":"d"}`), "limits.node_selector"},
		"selector key that ends in a dash":      {selectorOf(`{"a-":"b"}`), "limits.node_selector"},
		"selector key with a prefix in upper":   {selectorOf(`{"Example.com/a":"b"}`), "limits.node_selector"},
		"selector key with a prefix too long":   {selectorOf(`{"` + strings.Repeat("a", 254) + `/a":"b"}`), "limits.node_selector"},
		"selector key that is empty":            {selectorOf(`{"":"b"}`), "limits.node_selector"},
		"selector value of 63":                  {selectorOf(`{"a":"` + strings.Repeat("b", 63) + `"}`), ""},
		"selector value of 64":                  {selectorOf(`{"a":"` + strings.Repeat("b", 64) + `"}`), "limits.node_selector.a"},
		"selector value that is empty":          {selectorOf(`{"a":""}`), ""},
		"selector value that begins with a dot": {selectorOf(`{"a":".b"}`), "limits.node_selector[a]"},
		"selector value that is a number":       {selectorOf(`{"a":1}`), "limits.node_selector"},
		"selector that is empty":                {selectorOf(`{}`), ""},
		"selector that is no JSON":              {selectorOf(`{"a":`), "limits.node_selector"},

		"affinity":                   {affinityOf(affinityText), ""},
		"affinity that is no JSON":   {affinityOf(`{"nodeAffinity":`), "limits.node_affinity"},
		"affinity that is empty":     {affinityOf(`{}`), ""},
		"affinity that is no object": {affinityOf(`[]`), "limits.node_affinity"},
		"affinity without wrapper":   {affinityOf(strings.TrimSuffix(strings.TrimPrefix(affinityText, `{"nodeAffinity":`), "}")), ""},
		"affinity with an unknown member": {
			affinityOf(`{"nodeAffinity":{},"gpuAffinity":{}}`), "limits.node_affinity.gpuAffinity",
		},
		"affinity between pods":      {affinityOf(`{"podAffinity":{}}`), "limits.node_affinity.podAffinity"},
		"anti-affinity between pods": {affinityOf(`{"nodeAffinity":{},"podAntiAffinity":{}}`), "limits.node_affinity.podAntiAffinity"},

		"required with no term": {
			affinityOf(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}`),
			"limits.node_affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
		},
		"required with no terms at all": {
			affinityOf(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}`),
			"limits.node_affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
		},
		"weight 1":              {preferred("1"), ""},
		"weight 100":            {preferred("100"), ""},
		"weight 0":              {preferred("0"), weight0},
		"weight 101":            {preferred("101"), weight0},
		"weight as a string":    {preferred(`"1"`), "limits.node_affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.weight"},
		"a term with nothing":   {term(``), required0 + ".matchExpressions"},
		"a term with fields":    {term(`"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]`), ""},
		"operator In":           {expression(`{"key":"a","operator":"In","values":["b"]}`), ""},
		"operator NotIn":        {expression(`{"key":"a","operator":"NotIn","values":["b"]}`), ""},
		"operator Exists":       {expression(`{"key":"a","operator":"Exists"}`), ""},
		"operator DoesNotExist": {expression(`{"key":"a","operator":"DoesNotExist"}`), ""},
		"operator Gt":           {expression(`{"key":"a","operator":"Gt","values":["1"]}`), ""},
		"operator Lt":           {expression(`{"key":"a","operator":"Lt","values":["1"]}`), ""},
		"operator unknown":      {expression(`{"key":"a","operator":"Equals","values":["b"]}`), expression0 + ".operator"},
		"In without values":     {expression(`{"key":"a","operator":"In"}`), expression0 + ".values"},
		"NotIn without values":  {expression(`{"key":"a","operator":"NotIn"}`), expression0 + ".values"},
		"Gt without values":     {expression(`{"key":"a","operator":"Gt"}`), expression0 + ".values"},
		"Gt of a word":          {expression(`{"key":"a","operator":"Gt","values":["x"]}`), expression0 + ".values"},
		"Lt of two":             {expression(`{"key":"a","operator":"Lt","values":["1","2"]}`), expression0 + ".values"},
		"a value that is none":  {expression(`{"key":"a","operator":"In","values":["b!"]}`), expression0 + ".values[0]"},
		"Exists with values":    {expression(`{"key":"a","operator":"Exists","values":["b"]}`), expression0 + ".values"},
		"DoesNotExist with values": {
			expression(`{"key":"a","operator":"DoesNotExist","values":["b"]}`), expression0 + ".values",
		},

		"cpu that is no quantity":   {func(r *anyform.CreateResourceLimitRequest) { r.Limits.Cpu = "much" }, "limits.cpu"},
		"memory that is negative":   {func(r *anyform.CreateResourceLimitRequest) { r.Limits.Memory = "-1Gi" }, "limits.memory"},
		"storage that is 0":         {func(r *anyform.CreateResourceLimitRequest) { r.Limits.EphemeralStorage = new("0") }, "limits.ephemeral_storage"},
		"cpu_limit the same as cpu": {func(r *anyform.CreateResourceLimitRequest) { r.Limits.CpuLimit = new("1000m") }, ""},
		"cpu_limit below cpu":       {func(r *anyform.CreateResourceLimitRequest) { r.Limits.CpuLimit = new("999m") }, "limits.cpu_limit"},
		"memory_limit below memory": {func(r *anyform.CreateResourceLimitRequest) { r.Limits.MemoryLimit = new("1") }, "limits.memory_limit"},
		"a name that is too long":   {func(r *anyform.CreateResourceLimitRequest) { r.Name = strings.Repeat("n", 64) }, ""},
		"a name in upper case":      {func(r *anyform.CreateResourceLimitRequest) { r.Name = "Name" }, "name"},
		"no name":                   {func(r *anyform.CreateResourceLimitRequest) { r.Name = "" }, "name"},
		"a description too long":    {func(r *anyform.CreateResourceLimitRequest) { r.Description = strings.Repeat("d", 1025) }, "description"},
		"a label that cannot be":    {func(r *anyform.CreateResourceLimitRequest) { r.Labels = map[string]string{"a": "b!"} }, "labels"},
		"a label of Berth's":        {func(r *anyform.CreateResourceLimitRequest) { r.Labels = map[string]string{"berth.dev/a": "b"} }, "labels"},
		"a volume without a size": {func(r *anyform.CreateResourceLimitRequest) {
			r.Limits.Volumes = map[string]*anyform.VolumeLimit{"v": {}}
		}, "limits.volumes.v.size"},
		"a volume's class not given": {func(r *anyform.CreateResourceLimitRequest) {
			r.Limits.Volumes = map[string]*anyform.VolumeLimit{"v": {Size: "1Gi"}}
		}, ""},
		"a volume's class wrong": {func(r *anyform.CreateResourceLimitRequest) {
			r.Limits.Volumes = map[string]*anyform.VolumeLimit{"v": {Size: "1Gi", StorageClass: new("No")}}
		}, "limits.volumes[v].storage_class"},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			req := &anyform.CreateResourceLimitRequest{
				Name: fmt.Sprintf("limit-%d", n), Limits: &anyform.ResourceLimit{Cpu: "1", Memory: "1Gi"},
			}
			tc.change(req)
			if len(req.Name) > 63 {
				servicetest.Refused(t, servicetest.Err(c.CreateResourceLimit(s.as(s.Editor), req)), codes.InvalidArgument, "name", "name: must be at most 63 characters")
				return
			}
			before := s.count()
			_, err := c.CreateResourceLimit(s.as(s.Editor), req)
			if tc.field == "" {
				require.NoError(t, err)
				return
			}
			servicetest.Refused(t, err, codes.InvalidArgument, tc.field)
			assert.Equal(t, before, s.count())
		})
	}
	// The same rules for the other form.
	for field, limits := range map[string]*mapform.ResourceLimit{
		"limits.node_selector":             {NodeSelector: map[string]string{"a/b/c": "d", "e": "f"}},
		"limits.node_selector[a]":          {NodeSelector: map[string]string{"a": "b!", "e": "f"}},
		"limits.node_affinity":             {NodeAffinity: new(`{"nodeAffinity":`)},
		"limits.node_affinity.podAffinity": {NodeAffinity: new(`{"podAffinity":{}}`)},
	} {
		_, err := s.mapped().CreateResourceLimit(s.as(s.Editor), &mapform.CreateResourceLimitRequest{Name: "mapped", Limits: limits})
		servicetest.Refused(t, err, codes.InvalidArgument, field)
	}
}
