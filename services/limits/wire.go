// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"k8s.io/apimachinery/pkg/util/validation"

	tolerantv1 "berth.dev/berth/apis/proto/berth/mcp/v1"
	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/services/server"
)

// Type URLs of the two rules, of either pair.
var (
	selectorURLs = map[form]string{formAny: "kubernetes.io/NodeSelector", formGoogle: "type.googleapis.com/mcp.orchestrator.NodeSelector"}
	affinityURLs = map[form]string{formAny: "kubernetes.io/Affinity", formGoogle: "type.googleapis.com/mcp.orchestrator.NodeAffinity"}
)

func formOf(urls map[form]string, url string) (form, bool) {
	for f, known := range urls {
		if url == known {
			return f, true
		}
	}
	return "", false
}

func unknownURL(field, url string, urls map[form]string) error {
	return server.InvalidField(field, fmt.Sprintf("has the type URL %q, and must have %s or %s", url, urls[formAny], urls[formGoogle]))
}

// fromWire reads a limit that is to be written.
func fromWire(req *tolerantv1.WriteResourceLimitRequest) (*Limit, error) {
	in := req.GetLimits()
	if in == nil {
		return nil, server.InvalidField("spec", "is missing")
	}
	l := &Limit{Name: req.GetName(), Labels: req.GetLabels(), Spec: spec{
		Description: req.GetDescription(),
		CPU:         text(in.GetCpu()), Memory: text(in.GetMemory()),
		CPULimit: text(in.GetCpuLimit()), MemoryLimit: text(in.GetMemoryLimit()), EphemeralStorage: text(in.GetEphemeralStorage()),
	}}
	for name, v := range in.GetVolumes() {
		if l.Spec.Volumes == nil {
			l.Spec.Volumes = map[string]volume{}
		}
		l.Spec.Volumes[name] = volume{Size: text(v.GetSize()), StorageClass: v.StorageClass}
	}
	var err error
	if l.Spec.NodeSelector, l.form, err = decodeSelector(in.GetNodeSelector()); err != nil {
		return nil, err
	}
	if in.NodeAffinity != nil {
		var second form
		if l.Spec.NodeAffinity, second, err = decodeAffinity(in.NodeAffinity); err != nil {
			return nil, err
		}
		l.form = cmp.Or(l.form, second)
	}
	return l, nil
}

// decodeSelector reads field 7: an Any, or the entries of a map. One entry can be either: it is an Any if its key is a type
// URL that is known, or its value is nothing that a label can have.
func decodeSelector(entries []*tolerantv1.Entry) (map[string]string, form, error) {
	if len(entries) == 0 {
		return nil, "", nil
	}
	if len(entries) == 1 {
		e := entries[0]
		if f, known := formOf(selectorURLs, e.GetKey()); known {
			m, err := parseSelector(e.GetValue())
			return m, f, err
		}
		if !looksLikeLabel(e) {
			return nil, "", unknownURL(selectorField, e.GetKey(), selectorURLs)
		}
	}
	m := make(map[string]string, len(entries))
	for _, e := range entries {
		if !utf8.Valid(e.GetValue()) {
			return nil, "", server.InvalidField(selectorField, fmt.Sprintf("the value of %q is not UTF-8", e.GetKey()))
		}
		m[e.GetKey()] = string(e.GetValue())
	}
	return m, formMap, nil
}

func looksLikeLabel(e *tolerantv1.Entry) bool {
	value := bytes.TrimSpace(e.GetValue())
	text := utf8.Valid(value) && !bytes.ContainsFunc(value, unicode.IsControl)
	return text && !bytes.HasPrefix(value, []byte("{")) && !strings.HasPrefix(e.GetKey(), "type.googleapis.com/") &&
		len(validation.IsQualifiedName(e.GetKey())) == 0
}

// decodeAffinity reads field 8: JSON text, or a serialized Any that holds it.
func decodeAffinity(b []byte) (*affinityRules, form, error) {
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		a, err := parseAffinity(trimmed)
		return a, formMap, err
	}
	var wrapped anypb.Any
	if err := server.Decode(b, &wrapped); err != nil || len(b) == 0 {
		return nil, "", server.InvalidField(affinityField, "is neither JSON text nor a google.protobuf.Any")
	}
	f, known := formOf(affinityURLs, wrapped.GetTypeUrl())
	if !known {
		return nil, "", unknownURL(affinityField, wrapped.GetTypeUrl(), affinityURLs)
	}
	a, err := parseAffinity(wrapped.GetValue())
	return a, f, err
}

// toWire writes a limit in a form.
func toWire(l *Limit, f form) (*tolerantv1.ResourceLimitResponse, error) {
	s := &l.Spec
	limits := &tolerantv1.ResourceLimit{
		Cpu: string(s.CPU), Memory: string(s.Memory),
		CpuLimit: optional(s.CPULimit), MemoryLimit: optional(s.MemoryLimit), EphemeralStorage: optional(s.EphemeralStorage),
	}
	for name, v := range s.Volumes {
		if limits.Volumes == nil {
			limits.Volumes = map[string]*orchestratorv1.VolumeLimit{}
		}
		limits.Volumes[name] = &orchestratorv1.VolumeLimit{Size: string(v.Size), StorageClass: v.StorageClass}
	}
	if err := encodeRules(limits, s, f); err != nil {
		return nil, err
	}
	out := &tolerantv1.ResourceLimitResponse{
		Name: l.Name, Description: s.Description, Labels: l.Labels, Limits: limits, CreatedAt: l.Created,
	}
	if l.Deleted != "" {
		out.DeletedAt = &l.Deleted
	}
	return out, nil
}

// encodeRules writes fields 7 and 8, if there is anything to write.
func encodeRules(limits *tolerantv1.ResourceLimit, s *spec, f form) error {
	if len(s.NodeSelector) > 0 {
		if f == formMap {
			for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
				limits.NodeSelector = append(limits.NodeSelector, &tolerantv1.Entry{Key: key, Value: []byte(s.NodeSelector[key])})
			}
		} else {
			text, err := json.Marshal(s.NodeSelector) // in the order of the keys
			if err != nil {
				return fmt.Errorf("encode a selector: %w", err)
			}
			limits.NodeSelector = []*tolerantv1.Entry{{Key: selectorURLs[f], Value: text}}
		}
	}
	if s.NodeAffinity == nil {
		return nil
	}
	text, err := affinityJSON(s.NodeAffinity)
	if err == nil && f != formMap {
		text, err = proto.MarshalOptions{Deterministic: true}.Marshal(&anypb.Any{TypeUrl: affinityURLs[f], Value: text})
	}
	if err != nil {
		return fmt.Errorf("encode an affinity: %w", err)
	}
	limits.NodeAffinity = text
	return nil
}

func optional(t text) *string {
	if t == "" {
		return nil
	}
	return (*string)(&t)
}
