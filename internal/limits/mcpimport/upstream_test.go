// SPDX-License-Identifier: Apache-2.0

package mcpimport

import (
	"encoding/json"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/generators"
)

const (
	affinityJSON = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"zone","operator":"Exists"}]}}]}}`
	unwrapped    = `{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"zone","operator":"Exists"}]}}]}`
)

// quoted is a text as JSON.
func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// planned and coded are the ConfigMap of limit "small" as the plan has it and as the code writes it.
func planned(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "mcp", Name: "resource-limit-rl-small",
			Labels:      map[string]string{labelType: "resource-limit", labelManaged: "true", customPrefix + "team": "a"},
			Annotations: map[string]string{annotationDescription: "for small servers"},
		},
		Data: data,
	}
}

func coded(data map[string]string) *corev1.ConfigMap {
	cm := planned(data)
	cm.Name = "rl-small"
	cm.Labels = map[string]string{
		"app.kubernetes.io/managed-by": "mcp-orchestrator", "mcp-orchestrator.egoavara.net/type-of": "resource-limit",
		"namespace.mcp-orchestrator.egoavara.net/mcp": "1", "custom.mcp-orchestrator.egoavara.net/team": "a",
	}
	return cm
}

// size is the limit that both mean, without node rules.
func size() *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{
		TypeMeta:   metav1.TypeMeta{APIVersion: "berth.dev/v1alpha1", Kind: "ResourceLimit"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcp", Name: "small", Labels: map[string]string{"team": "a"}},
		Spec: v1alpha1.ResourceLimitSpec{
			Description: "for small servers",
			CPU:         new(resource.MustParse("500m")), Memory: new(resource.MustParse("512Mi")), CPULimit: new(resource.MustParse("1")),
			Volumes: map[string]v1alpha1.VolumeLimit{
				"data":  {Size: resource.MustParse("10Gi"), StorageClass: new("fast")},
				"cache": {Size: resource.MustParse("1Gi")},
			},
		},
	}
}

func sizeOn() *v1alpha1.ResourceLimit {
	limit := size()
	limit.Spec.NodeSelector = map[string]string{"disk": "ssd", "team/pool": ""}
	limit.Spec.NodeAffinity = &v1alpha1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{{
			MatchExpressions: []v1alpha1.NodeRequirement{{Key: "disk", Operator: v1alpha1.NodeOpIn, Values: []string{"ssd"}}},
		}}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{{Weight: 10, Preference: v1alpha1.NodeTerm{
			MatchExpressions: []v1alpha1.NodeRequirement{{Key: "zone", Operator: v1alpha1.NodeOpExists}},
		}}},
	}
	return limit
}

// Whatever the form, the object is the same.
func TestBothFormsGiveTheSameObject(t *testing.T) {
	t.Parallel()
	with := func(data, more map[string]string) map[string]string {
		out := maps.Clone(data)
		maps.Copy(out, more)
		return out
	}
	plain := map[string]string{
		"cpu": "500m", "memory": "512Mi", "cpu_limit": "1",
		"volumes": `{"data":{"size":"10Gi","storage_class":"fast"},"cache":{"size":"1Gi"}}`,
	}
	code := map[string]string{
		"cpu": `"500m"`, "memory": `"512Mi"`, "cpu_limit": `"1"`, "memory_limit": "null", "ephemeral_storage": "null",
		"volumes": `{"cache":{"size":"1Gi","storage_class":null},"data":{"size":"10Gi","storage_class":"fast"}}`,
	}
	selector := `{"team/pool":"","disk":"ssd"}`
	for name, tc := range map[string]struct {
		cm   *corev1.ConfigMap
		want *v1alpha1.ResourceLimit
	}{
		"plain, without the scheduling keys":         {planned(plain), size()},
		"quoted, without the scheduling keys":        {coded(code), size()},
		"quoted, with scheduling keys that are null": {coded(with(code, map[string]string{"node_selector": "null", "node_affinity": "null"})), size()},
		"quoted, with an empty selector":             {coded(with(code, map[string]string{"node_selector": "{}", "node_affinity": `""`})), size()},
		"plain, with the scheduling keys":            {planned(with(plain, map[string]string{"node_selector": selector, "node_affinity": affinityJSON})), sizeOn()},
		"plain, with an affinity without wrapper":    {planned(with(plain, map[string]string{"node_selector": selector, "node_affinity": unwrapped})), sizeOn()},
		"quoted, with the scheduling keys":           {coded(with(code, map[string]string{"node_selector": selector, "node_affinity": quoted(affinityJSON)})), sizeOn()},
		"quoted, with an affinity without wrapper":   {coded(with(code, map[string]string{"node_selector": selector, "node_affinity": quoted(unwrapped)})), sizeOn()},
		"volumes in camelCase":                       {planned(with(plain, map[string]string{"volumes": `{"data":{"size":"10Gi","storageClass":"fast"},"cache":{"size":"1Gi","storageClass":""}}`})), size()},
		"white space around values":                  {coded(with(code, map[string]string{"cpu": " \"500m\"\n", "memory": "512Mi\n", "memory_limit": " null "})), size()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, notes, err := Parse(tc.cm)
			require.NoError(t, err)
			assert.Empty(t, notes)
			assert.Equal(t, asJSON(t, tc.want), asJSON(t, got))
		})
	}
}

// asJSON is a limit as the API has it: equal quantities are the same text.
func asJSON(t require.TestingT, limit *v1alpha1.ResourceLimit) string {
	data, err := json.MarshalIndent(limit, "", " ")
	require.NoError(t, err)
	return string(data)
}

func TestAnEmptyConfigMapIsALimitWithoutBounds(t *testing.T) {
	t.Parallel()
	for name, cm := range map[string]*corev1.ConfigMap{
		"no keys":       planned(nil),
		"all null":      coded(map[string]string{"cpu": `""`, "memory": `""`, "cpu_limit": "null", "volumes": "{}", "node_selector": "null", "node_affinity": "null"}),
		"empty strings": planned(map[string]string{"cpu": "", "volumes": "", "node_selector": "", "node_affinity": "{}"}),
		"empty rules":   planned(map[string]string{"node_affinity": `{"nodeAffinity":{}}`}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, notes, err := Parse(cm)
			require.NoError(t, err)
			assert.Empty(t, notes)
			assert.Equal(t, v1alpha1.ResourceLimitSpec{Description: "for small servers"}, got.Spec)
		})
	}
}

func TestErrorsNameConfigMapKeyAndValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data map[string]string
		want string
	}{
		"a quantity that is none":     {map[string]string{"cpu": `"lots"`}, `ConfigMap mcp/rl-small: data[cpu]: "lots" is not a quantity such as 500m or 2Gi`},
		"every key that is wrong":     {map[string]string{"cpu": "lots", "memory_limit": "1GB"}, "ConfigMap mcp/rl-small: data[cpu]: \"lots\" is not a quantity such as 500m or 2Gi\ndata[memory_limit]: \"1GB\" is not a quantity such as 500m or 2Gi"},
		"a quote that does not end":   {map[string]string{"memory": `"512Mi`}, `ConfigMap mcp/rl-small: data[memory]: "512Mi is no JSON string: unexpected end of JSON input`},
		"a volume without a size":     {map[string]string{"volumes": `{"data":{"storage_class":"fast"}}`}, `ConfigMap mcp/rl-small: data[volumes]: volume "data": size "" is not a quantity such as 10Gi`},
		"a volume that is null":       {map[string]string{"volumes": `{"data":null}`}, `ConfigMap mcp/rl-small: data[volumes]: volume "data" is null`},
		"volumes that are a list":     {map[string]string{"volumes": `["data"]`}, `ConfigMap mcp/rl-small: data[volumes]: "[\"data\"]" is no JSON object`},
		"a selector that is YAML":     {map[string]string{"node_selector": "disk: ssd"}, `ConfigMap mcp/rl-small: data[node_selector]: "disk: ssd" is no JSON object`},
		"a selector with a number":    {map[string]string{"node_selector": `{"cores":16}`}, `ConfigMap mcp/rl-small: data[node_selector]: "{\"cores\":16}": has the JSON type number, must be string`},
		"an affinity cut off":         {map[string]string{"node_affinity": `{"nodeAffinity":`}, `ConfigMap mcp/rl-small: data[node_affinity]: "{\"nodeAffinity\":": is not valid JSON: unexpected end of JSON input`},
		"a weight that is no integer": {map[string]string{"node_affinity": `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":"ten"}]}}`}, `has the JSON type string, must be number`},
		"rules at two places":         {map[string]string{"node_affinity": `{"nodeAffinity":{},"preferredDuringSchedulingIgnoredDuringExecution":[]}`}, `ConfigMap mcp/rl-small: data[node_affinity]: rules are both in nodeAffinity and beside it`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := Parse(coded(tc.data))
			assert.Nil(t, got)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestNamesThatNoLimitCanHave(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"small":                `metadata.name: "small" must begin with "rl-" or "resource-limit-rl-"`,
		"resource-limit-small": `must begin with`,
		"rl--small":            `metadata.name: "-small" is not a valid name of a ResourceLimit`,
		"rl-":                  `metadata.name: "" is not a valid name of a ResourceLimit`,
		"rl-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "too long for a ResourceLimit: at most 63 characters",
	} {
		cm := coded(nil)
		cm.Name = name
		_, _, err := Parse(cm)
		assert.ErrorContains(t, err, want, name)
	}
}

func TestFieldsWithoutAPlaceAreNoted(t *testing.T) {
	t.Parallel()
	got, notes, err := Parse(planned(map[string]string{
		"cpu": "1", "gpu": "2", "volumes": `{"data":{"size":"1Gi","mode":"rw"}}`,
		"node_affinity": `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"terms":[]}},"podAffinity":{"a":1},"podAntiAffinity":{"b":1}}`,
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{
		`data[volumes]: unknown field "data.mode": left out`,
		`data[node_affinity]: podAffinity is not about nodes: left out`,
		`data[node_affinity]: podAntiAffinity is not about nodes: left out`,
		`data[node_affinity]: unknown field "requiredDuringSchedulingIgnoredDuringExecution.terms": left out`,
		`data[gpu]: the key is not known: left out`,
	}, notes)
	assert.Equal(t, "1", got.Spec.CPU.String())

	limit := sizeOn()
	limit.Labels["app.kubernetes.io/name"] = "mcp"
	limit.Spec.Selector = &v1alpha1.PodSelector{}
	limit.Spec.Volumes["data"] = v1alpha1.VolumeLimit{Size: resource.MustParse("1Gi"), MountPath: "/data"}
	_, notes = Write(limit, FormPlain)
	assert.Equal(t, []string{"spec.volumes[data].mountPath: left out", "spec.selector: left out", "metadata.labels[app.kubernetes.io/name]: left out"}, notes)
}

func TestWriteIsWhatUpstreamWrites(t *testing.T) {
	t.Parallel()
	cm, notes := Write(sizeOn(), FormQuoted)
	assert.Empty(t, notes)
	want := coded(map[string]string{
		"cpu": `"500m"`, "memory": `"512Mi"`, "cpu_limit": `"1"`, "memory_limit": "null", "ephemeral_storage": "null",
		"volumes":       `{"cache":{"size":"1Gi","storage_class":null},"data":{"size":"10Gi","storage_class":"fast"}}`,
		"node_selector": `{"disk":"ssd","team/pool":""}`,
	})
	got := cm.Data["node_affinity"]
	delete(cm.Data, "node_affinity")
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	assert.Equal(t, want, cm)
	var text string
	require.NoError(t, json.Unmarshal([]byte(got), &text), "it is text in upstream's message, so it is quoted")
	assert.JSONEq(t, affinityJSON, text)

	// What upstream's message always has is an empty string where there is none, else its code cannot read it.
	cm, _ = Write(&v1alpha1.ResourceLimit{}, FormQuoted)
	assert.Equal(t, map[string]string{
		"cpu": `""`, "memory": `""`, "cpu_limit": "null", "memory_limit": "null", "ephemeral_storage": "null",
		"volumes": "{}", "node_selector": "{}", "node_affinity": "null",
	}, cm.Data)

	cm, _ = Write(sizeOn(), FormPlain)
	assert.Equal(t, "resource-limit-rl-small", cm.Name)
	assert.Equal(t, "500m", cm.Data["cpu"])
	assert.NotContains(t, cm.Data, "memory_limit")
	assert.JSONEq(t, affinityJSON, cm.Data["node_affinity"])
}

func TestFormOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels map[string]string
		want   Form
	}{
		"the plan's":        {planned(nil).Labels, FormPlain},
		"the code's":        {coded(nil).Labels, FormQuoted},
		"of another type":   {map[string]string{labelTypeOf: "mcp-template", labelManagedBy: managedBy}, ""},
		"not managed":       {map[string]string{labelTypeOf: "resource-limit"}, ""},
		"managed by others": {map[string]string{labelTypeOf: "resource-limit", labelManagedBy: "Helm"}, ""},
		"no labels":         {nil, ""},
	} {
		got, ok := FormOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}})
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.want != "", ok, name)
	}
}

var (
	dnsName    = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	labelName  = rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelKey   = rapid.StringMatching(`([a-z0-9]{1,10}[.][a-z]{2,5}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelValue = rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?`)
)

func anyQuantity(t *rapid.T, label string) resource.Quantity {
	n := rapid.Int64Range(1, 1<<40).Draw(t, label)
	unit := rapid.SampledFrom([]string{"", "m", "k", "M", "Ki", "Mi", "Gi"}).Draw(t, label+" unit")
	return resource.MustParse(strconv.FormatInt(n, 10) + unit)
}

func optionalQuantity(t *rapid.T, label string) *resource.Quantity {
	if !rapid.Bool().Draw(t, label+" given") {
		return nil
	}
	return new(anyQuantity(t, label))
}

func anyVolume(t *rapid.T) v1alpha1.VolumeLimit {
	return v1alpha1.VolumeLimit{Size: anyQuantity(t, "size"), StorageClass: rapid.Ptr(dnsName, true).Draw(t, "class")}
}

// anyLimit is a limit that upstream can hold.
func anyLimit(t *rapid.T) *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimit"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dnsName.Draw(t, "namespace"), Name: dnsName.Draw(t, "name"),
			Labels: rapid.MapOfN(labelName, labelValue, 0, 3).Draw(t, "labels"),
		},
		Spec: v1alpha1.ResourceLimitSpec{
			Description: rapid.String().Draw(t, "description"),
			CPU:         optionalQuantity(t, "cpu"), CPULimit: optionalQuantity(t, "cpuLimit"),
			Memory: optionalQuantity(t, "memory"), MemoryLimit: optionalQuantity(t, "memoryLimit"),
			EphemeralStorage: optionalQuantity(t, "ephemeralStorage"),
			Volumes:          rapid.MapOfN(dnsName, rapid.Custom(anyVolume), 0, 3).Draw(t, "volumes"),
			NodeSelector:     rapid.MapOfN(labelKey, labelValue, 0, 3).Draw(t, "selector"),
			NodeAffinity:     generators.NodeAffinity(t),
		},
	}
}

func TestAWrittenLimitIsReadUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := anyLimit(t)
		for _, form := range Forms() {
			cm, left := Write(limit, form)
			again, _ := Write(limit, form)
			require.Equal(t, cm, again, "the same bytes each time")
			require.Empty(t, left)
			got, notes, err := Parse(cm)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, asJSON(t, limit), asJSON(t, got), form)
			known, ok := FormOf(cm)
			require.True(t, ok)
			require.Equal(t, form, known)
		}
	})
}

// FuzzParse: whatever a ConfigMap holds, nothing panics, an error names the ConfigMap, and what was read can be written in
// both forms and read again as the same.
func FuzzParse(f *testing.F) {
	for _, form := range Forms() {
		cm, _ := Write(sizeOn(), form)
		f.Add(cm.Name, cm.Data[keyCPU], cm.Data[keyMemoryLimit], cm.Data[keyVolumes], cm.Data[keyNodeSelector], cm.Data[keyNodeAffinity])
	}
	f.Add("rl-a", "null", `""`, "{}", `"null"`, unwrapped)
	f.Add("rl-a", "1e-30", "-5", `{"a":{"size":"1","storageClass":"x","storage_class":""}}`, `{"a":"b","a":"c"}`, `{"nodeAffinity":[]}`)
	f.Add("resource-limit-rl-a", "９", `"\ud800"`, `{"":null}`, `{"\u0000":""}`, `"{\"podAffinity\":1}"`)
	f.Fuzz(func(t *testing.T, name, cpu, memoryLimit, volumes, nodeSelector, nodeAffinity string) {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mcp", Name: name, Labels: map[string]string{customPrefix + "team": "a"}},
			Data: map[string]string{
				keyCPU: cpu, keyMemoryLimit: memoryLimit, keyVolumes: volumes, keyNodeSelector: nodeSelector, keyNodeAffinity: nodeAffinity,
			},
		}
		limit, _, err := Parse(cm)
		if err != nil {
			assert.Nil(t, limit)
			assert.ErrorContains(t, err, "ConfigMap mcp/"+name+": ")
			return
		}
		for _, form := range Forms() {
			written, left := Write(limit, form)
			require.Empty(t, left)
			got, notes, err := Parse(written)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, asJSON(t, limit), asJSON(t, got))
		}
	})
}
