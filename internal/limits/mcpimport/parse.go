// SPDX-License-Identifier: Apache-2.0

package mcpimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/jsonerr"
)

// Parse reads a resource limit from a ConfigMap of either form; the values themselves show which it is. The result has the
// namespace of the ConfigMap. notes are what of it a ResourceLimit cannot hold and is left out.
//
// An error names the ConfigMap, every key that cannot be read, and its value. What can be read is not validated further:
// that is the API server's to do.
func Parse(cm *corev1.ConfigMap) (limit *v1alpha1.ResourceLimit, notes []string, err error) {
	p := &parser{data: cm.Data}
	limit = &v1alpha1.ResourceLimit{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimit"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: p.name(cm.Name), Labels: userLabels(cm.Labels)},
		Spec: v1alpha1.ResourceLimitSpec{
			Description: cm.Annotations[annotationDescription],
			CPU:         p.quantity(keyCPU), CPULimit: p.quantity(keyCPULimit),
			Memory: p.quantity(keyMemory), MemoryLimit: p.quantity(keyMemoryLimit),
			EphemeralStorage: p.quantity(keyEphemeralStorage),
			Volumes:          p.volumes(),
			NodeSelector:     p.nodeSelector(),
			NodeAffinity:     p.nodeAffinity(),
		},
	}
	p.unknownKeys()
	if len(p.errs) > 0 {
		return nil, nil, fmt.Errorf("ConfigMap %s/%s: %w", cm.Namespace, cm.Name, errors.Join(p.errs...))
	}
	return limit, p.notes, nil
}

// userLabels are the labels that users gave the limit. All others belong to the ConfigMap.
func userLabels(all map[string]string) map[string]string {
	var own map[string]string
	for key, value := range all {
		if name, ok := strings.CutPrefix(key, customPrefix); ok && name != "" && !strings.Contains(name, "/") {
			if own == nil {
				own = map[string]string{}
			}
			own[name] = value
		}
	}
	return own
}

// parser gathers what goes wrong.
type parser struct {
	data  map[string]string
	notes []string
	errs  []error
}

func (p *parser) fail(key, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("data[%s]: %w", key, fmt.Errorf(format, args...)))
}

func (p *parser) note(key, format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf("data[%s]: ", key)+fmt.Sprintf(format, args...))
}

func (p *parser) name(name string) string {
	short, ok := limitName(name)
	switch {
	case !ok:
		p.errs = append(p.errs, fmt.Errorf("metadata.name: %q must begin with %q or %q", name, FormQuoted.namePrefix(),
			FormPlain.namePrefix()))
	case len(validation.IsDNS1123Subdomain(short)) > 0:
		p.errs = append(p.errs, fmt.Errorf("metadata.name: %q is not a valid name of a ResourceLimit: "+
			"lower-case letters, digits, '-' or '.', with a letter or digit at both ends", short))
	case len(short) > validation.LabelValueMaxLength:
		p.errs = append(p.errs, fmt.Errorf("metadata.name: %q is too long for a ResourceLimit: at most %d characters", short,
			validation.LabelValueMaxLength))
	}
	return short
}

// text returns the value of a key without the quotes of the JSON form; "" where there is none, or none is meant.
func (p *parser) text(key string) string {
	value := strings.TrimSpace(p.data[key])
	switch {
	case value == "null":
		return ""
	case !strings.HasPrefix(value, `"`):
		return value
	}
	var unquoted string
	if err := json.Unmarshal([]byte(value), &unquoted); err != nil {
		p.fail(key, "%s is no JSON string: %w", shortened(value), err)
		return ""
	}
	return strings.TrimSpace(unquoted)
}

func (p *parser) quantity(key string) *resource.Quantity {
	value := p.text(key)
	if value == "" {
		return nil
	}
	q, err := budget.ParseQuantity(value)
	if err != nil {
		p.fail(key, "%q is not a quantity such as 500m or 2Gi", shortened(value))
		return nil
	}
	return &q
}

// object reads the JSON object of a key into a value, and reports whether there is one.
func (p *parser) object(key string, into any) bool {
	value := p.text(key)
	if value == "" || value == "null" {
		return false
	}
	if !strings.HasPrefix(value, "{") {
		p.fail(key, "%q is no JSON object", shortened(value))
		return false
	}
	// Upstream ignores unknown fields, but a field in a wrong place must be reported.
	strict, err := kjson.UnmarshalStrict([]byte(value), into)
	if err != nil {
		p.fail(key, "%s", explained(value, err))
		return false
	}
	for _, s := range strict {
		p.note(key, "%v: left out", s)
	}
	return true
}

// explained returns what is wrong with JSON.
func explained(value string, err error) string {
	field, description := jsonerr.Explain(err)
	return strings.TrimSpace(fmt.Sprintf("%q: %s", shortened(value), strings.TrimSpace(field+" "+description)))
}

// volume is a volume as upstream writes it. The code's serialisation has storage_class, the plan's REST form is camelCase.
type volume struct {
	Size              string  `json:"size"`
	StorageClass      *string `json:"storage_class"`
	StorageClassCamel *string `json:"storageClass,omitempty"`
}

func (p *parser) volumes() map[string]v1alpha1.VolumeLimit {
	var written map[string]*volume
	if !p.object(keyVolumes, &written) || len(written) == 0 {
		return nil
	}
	out := map[string]v1alpha1.VolumeLimit{}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		v := written[name]
		if v == nil {
			p.fail(keyVolumes, "volume %q is null", name)
			continue
		}
		size, err := budget.ParseQuantity(v.Size)
		if err != nil {
			p.fail(keyVolumes, "volume %q: size %q is not a quantity such as 10Gi", name, shortened(v.Size))
			continue
		}
		limit := v1alpha1.VolumeLimit{Size: size}
		for _, class := range []*string{v.StorageClassCamel, v.StorageClass} {
			if class != nil && *class != "" {
				limit.StorageClass = class
			}
		}
		out[name] = limit
	}
	return out
}

func (p *parser) nodeSelector() map[string]string {
	var out map[string]string
	if !p.object(keyNodeSelector, &out) || len(out) == 0 {
		return nil
	}
	return out
}

// affinity is a pod's affinity. Only the part about nodes has a place in a ResourceLimit.
type affinity struct {
	NodeAffinity    json.RawMessage `json:"nodeAffinity"`
	PodAffinity     json.RawMessage `json:"podAffinity"`
	PodAntiAffinity json.RawMessage `json:"podAntiAffinity"`
	// With these the wrapper is left out.
	Required  json.RawMessage `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Preferred json.RawMessage `json:"preferredDuringSchedulingIgnoredDuringExecution"`
}

func (p *parser) nodeAffinity() *v1alpha1.NodeAffinity {
	var written affinity
	if !p.object(keyNodeAffinity, &written) {
		return nil
	}
	if !empty(written.PodAffinity) {
		p.note(keyNodeAffinity, "podAffinity is not about nodes: left out")
	}
	if !empty(written.PodAntiAffinity) {
		p.note(keyNodeAffinity, "podAntiAffinity is not about nodes: left out")
	}
	inner, _ := json.Marshal(map[string]json.RawMessage{
		"requiredDuringSchedulingIgnoredDuringExecution":  written.Required,
		"preferredDuringSchedulingIgnoredDuringExecution": written.Preferred,
	})
	if !empty(written.NodeAffinity) {
		if !empty(written.Required) || !empty(written.Preferred) {
			p.fail(keyNodeAffinity, "rules are both in nodeAffinity and beside it")
			return nil
		}
		inner = written.NodeAffinity
	}
	out := &v1alpha1.NodeAffinity{}
	strict, err := kjson.UnmarshalStrict(inner, out)
	if err != nil {
		p.fail(keyNodeAffinity, "%s", explained(string(inner), err))
		return nil
	}
	for _, s := range strict {
		p.note(keyNodeAffinity, "%v: left out", s)
	}
	if out.RequiredDuringSchedulingIgnoredDuringExecution == nil && len(out.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	return out
}

func empty(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

func (p *parser) unknownKeys() {
	known := []string{keyCPU, keyMemory, keyCPULimit, keyMemoryLimit, keyEphemeralStorage, keyVolumes, keyNodeSelector, keyNodeAffinity}
	for _, key := range slices.Sorted(maps.Keys(p.data)) {
		if !slices.Contains(known, key) {
			p.note(key, "the key is not known: left out")
		}
	}
}

// shortened keeps a message readable.
func shortened(value string) string {
	const most = 200
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}
