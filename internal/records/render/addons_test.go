// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	addonDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "${name}"}
spec:
  replicas: ${size}
  selector: {matchLabels: {app: "${name}"}}
  template:
    metadata: {labels: {app: "${name}"}}
    spec:
      containers: [{name: cache, image: "cache:${tag}", args: ["--size", "${sizeText}"], workingDir: "${directory}"}]
`
	addonService = `{apiVersion: v1, kind: Service, metadata: {name: "${name}"}, spec: {ports: [{port: 6379}]}}`
	addonMix     = `{apiVersion: berth.dev/v1alpha1, kind: CapacityMix, metadata: {name: "${name}"}, spec: {selector: {matchLabels: {app: "${name}"}}, spotPercent: 100}}`
)

// cached is a template with an add-on.
func cached(change func(*v1alpha1.TemplateAddon)) *v1alpha1.DeploymentTemplate {
	t := &v1alpha1.DeploymentTemplate{}
	t.Name = "cached"
	t.Spec.FunctionManifests = []string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: "${name}"}, spec: {template: {spec: {containers: [{name: f, env: "${env}"}]}}}}`}
	t.Spec.Addons = []v1alpha1.TemplateAddon{{
		Name: "big-cache", Manifests: []string{addonDeployment, addonService}, Parameters: []v1alpha1.AddonParameter{
			{Name: "size", Type: v1alpha1.AddonParameterInteger, Default: new(v1alpha1.ConfigValue("2")), Minimum: new(int64(1)), Maximum: new(int64(9))},
			{Name: "tag", Required: true, Enum: []v1alpha1.ConfigValue{"8", "9"}},
			{Name: "directory"},
		},
	}}
	if change != nil {
		change(&t.Spec.Addons[0])
	}
	return t
}

// caching is a record with that add-on.
func caching(parameters map[string]v1alpha1.ConfigValue) *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{}
	r.Namespace, r.Name = "shop", "cart"
	r.Spec.DeploymentUnit.Functions = []v1alpha1.FunctionSpec{{FunctionKey: "add", Image: "f:1"}}
	r.Spec.Addons = &[]v1alpha1.Addon{"big-cache"}
	r.Spec.AddonConfigs = []v1alpha1.AddonConfig{{Name: "big-cache", Parameters: parameters}}
	return r
}

// object is the one of a kind and a name.
func objectOf(t *testing.T, r *Rendered, kind, name string) map[string]any {
	t.Helper()
	for _, o := range r.Objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o.Object
		}
	}
	require.Fail(t, "there is no "+kind+" "+name)
	return nil
}

func TestAnAddonIsRenderedWithItsParameters(t *testing.T) {
	got, err := Render(caching(map[string]v1alpha1.ConfigValue{"size": "3", "tag": "9"}), cached(nil), Settings{SchedulerName: "berth-scheduler"})
	require.NoError(t, err)
	assert.Equal(t, []RenderedAddon{{Key: "big-cache", Workloads: []string{"cart-big-cache"}}}, got.Addons)
	spec := objectOf(t, got, "Deployment", "cart-big-cache")["spec"].(map[string]any)
	assert.Equal(t, int64(3), spec["replicas"])
	pods := spec["template"].(map[string]any)
	labels := pods["metadata"].(map[string]any)["labels"].(map[string]any)
	assert.Equal(t, "addon", labels[v1alpha1.ComponentLabel])
	assert.Equal(t, "big-cache", labels[v1alpha1.AddonLabel])
	container := pods["spec"].(map[string]any)["containers"].([]any)[0]
	assert.Equal(t, map[string]any{"name": "cache", "image": "cache:9", "args": []any{"--size", "3"}}, container, "without a value, the field is left out")
	assert.Equal(t, "berth-scheduler", pods["spec"].(map[string]any)["schedulerName"])

	mix := objectOf(t, got, "CapacityMix", "cart-big-cache")["spec"].(map[string]any)
	assert.Equal(t, int64(0), mix["spotPercent"], "it keeps data")
	assert.Equal(t, map[string]any{v1alpha1.OwnerLabel: "cart", v1alpha1.ComponentLabel: "addon", v1alpha1.AddonLabel: "big-cache"},
		mix["selector"].(map[string]any)["matchLabels"])
	function := objectOf(t, got, "Deployment", "cart")["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	env := function["containers"].([]any)[0].(map[string]any)["env"]
	assert.Contains(t, env, map[string]any{"name": "ADDON_BIG_CACHE", "value": "cart-big-cache"})
}

func TestAnAddonMayHaveAMixOfItsOwn(t *testing.T) {
	own := cached(func(a *v1alpha1.TemplateAddon) { a.Manifests = append(a.Manifests, addonMix) })
	got, err := Render(caching(map[string]v1alpha1.ConfigValue{"tag": "8"}), own, Settings{})
	require.NoError(t, err)
	n := 0
	for _, o := range got.Objects {
		if o.GetKind() == "CapacityMix" {
			n++
		}
	}
	assert.Equal(t, 1, n)
}

func TestAddonsAreRefusedByFieldAndValue(t *testing.T) {
	for name, c := range map[string]struct {
		record *v1alpha1.DeploymentRecord
		reason string
		want   string
	}{
		"not offered": {func() *v1alpha1.DeploymentRecord {
			r := caching(nil)
			r.Spec.Addons = &[]v1alpha1.Addon{"queue"}
			return r
		}(), v1alpha1.ReasonUnknownAddon, `template cached: spec.addons[queue]: Unsupported value: "queue": supported values: "odgm", "big-cache"`},
		"missing":         {caching(nil), v1alpha1.ReasonInvalidAddon, "spec.addonConfigs[big-cache].parameters[tag]: Required value"},
		"another value":   {caching(map[string]v1alpha1.ConfigValue{"tag": "7"}), v1alpha1.ReasonInvalidAddon, `parameters[tag]: Unsupported value: "7": supported values: "8", "9"`},
		"too large":       {caching(map[string]v1alpha1.ConfigValue{"tag": "8", "size": "10"}), v1alpha1.ReasonInvalidAddon, `parameters[size]: Invalid value: "10": must be at most 9`},
		"too small":       {caching(map[string]v1alpha1.ConfigValue{"tag": "8", "size": "0"}), v1alpha1.ReasonInvalidAddon, "must be at least 1"},
		"no number":       {caching(map[string]v1alpha1.ConfigValue{"tag": "8", "size": "two"}), v1alpha1.ReasonInvalidAddon, "must be an integer"},
		"not a parameter": {caching(map[string]v1alpha1.ConfigValue{"tag": "8", "sizeText": "1"}), v1alpha1.ReasonInvalidAddon, `parameters: Unsupported value: "sizeText": supported values: "size", "tag", "directory"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(c.record, cached(nil), Settings{})
			var refused *Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, c.reason, refused.Reason)
			assert.Contains(t, err.Error(), c.want)
		})
	}
}

func TestATemplateIsRefusedForItsAddons(t *testing.T) {
	require.NoError(t, CheckTemplate(cached(nil), Settings{}))
	for want, change := range map[string]func(*v1alpha1.TemplateAddon){
		"parameters[size].default: Invalid value": func(a *v1alpha1.TemplateAddon) { a.Parameters[0].Default = new(v1alpha1.ConfigValue("10")) },
		"parameters[tag].enum: Invalid value": func(a *v1alpha1.TemplateAddon) {
			a.Parameters[1].Type = v1alpha1.AddonParameterQuantity
			a.Parameters[1].Enum[0] = "x"
		},
		"parameters[namespace]: Duplicate value": func(a *v1alpha1.TemplateAddon) { a.Parameters[2].Name = "namespace" },
		"parameters[sizeText]: Duplicate value":  func(a *v1alpha1.TemplateAddon) { a.Parameters[2].Name = "sizeText" },
		"parameters[Directory]: Invalid value":   func(a *v1alpha1.TemplateAddon) { a.Parameters[2].Name = "Directory" },
		"spec.addons[odgm]: Forbidden":           func(a *v1alpha1.TemplateAddon) { a.Name = "odgm" },
		"addons[big-cache].manifests[0].kind": func(a *v1alpha1.TemplateAddon) {
			a.Manifests = []string{"{apiVersion: v1, kind: Secret, metadata: {name: x}}"}
		},
		"addons[big-cache].manifests[0].metadata.name: ": func(a *v1alpha1.TemplateAddon) {
			a.Manifests = []string{`{apiVersion: v1, kind: Service, metadata: {name: "${port}"}}`}
		},
	} {
		err := CheckTemplate(cached(change), Settings{})
		require.ErrorContains(t, err, want)
	}
}

// Whatever a tenant sets, a value is of its type, or refused with the name of its field.
func TestValuesAreOfTheirType(t *testing.T) {
	types := []v1alpha1.AddonParameterType{
		"", v1alpha1.AddonParameterString, v1alpha1.AddonParameterInteger, v1alpha1.AddonParameterBoolean, v1alpha1.AddonParameterQuantity,
	}
	rapid.Check(t, func(t *rapid.T) {
		p := v1alpha1.AddonParameter{Name: "x", Type: rapid.SampledFrom(types).Draw(t, "type")}
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[0-9]{1,20}`), rapid.SampledFrom([]string{"true", "false", "64Mi"})).Draw(t, "text")
		value, err := valueOf(nil, &p, text)
		if err != nil {
			return
		}
		switch p.Type {
		case v1alpha1.AddonParameterInteger:
			assert.IsType(t, int64(0), value)
		case v1alpha1.AddonParameterBoolean:
			assert.IsType(t, true, value)
		default:
			assert.Equal(t, text, value)
		}
	})
}
