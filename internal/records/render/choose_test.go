// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
)

// shipped are the templates of manifests/templates.
func shipped(t testing.TB) map[string]*v1alpha1.DeploymentTemplate {
	t.Helper()
	files, err := filepath.Glob("../../../manifests/templates/*.yaml")
	require.NoError(t, err)
	all := map[string]*v1alpha1.DeploymentTemplate{}
	for _, f := range files {
		if filepath.Base(f) == "kustomization.yaml" {
			continue // lists them
		}
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		tpl := &v1alpha1.DeploymentTemplate{}
		require.NoError(t, yaml.UnmarshalStrict(text, tpl))
		all[tpl.Name] = tpl
	}
	require.Len(t, all, 4)
	return all
}

func nfr(rps, latency int32, availability string, consistency v1alpha1.Consistency) v1alpha1.NFRRequirements {
	n := v1alpha1.NFRRequirements{Consistency: consistency}
	if rps > 0 {
		n.MinThroughputRPS = &rps
	}
	if latency > 0 {
		n.MaxLatencyMS = &latency
	}
	if availability != "" {
		n.Availability = &availability
	}
	return n
}

// Every row of the score table, at its threshold and one off.
func TestScores(t *testing.T) {
	all := shipped(t)
	dc, edge := Environment{Datacenter: true}, Environment{Edge: true}
	none := v1alpha1.NFRRequirements{}
	for _, c := range []struct {
		template string
		env      Environment
		nfr      v1alpha1.NFRRequirements
		want     int
	}{
		{"dev", Environment{Profile: "dev"}, none, 1_000_000},
		{"dev", Environment{Profile: "dev", Edge: true}, none, 1_000_000},
		{"dev", edge, none, 10},
		{"dev", dc, none, -10},
		{"edge", Environment{Profile: "edge"}, none, 1_000_000},
		{"edge", edge, none, 1_000_000},
		{"edge", dc, none, 0},
		{"edge", dc, nfr(299, 0, "", ""), 0},
		{"edge", dc, nfr(300, 0, "", ""), 2},
		{"edge", dc, nfr(0, 151, "", ""), 0},
		{"edge", dc, nfr(0, 150, "", ""), 2},
		{"edge", dc, nfr(0, 0, "0.9989", ""), 0},
		{"edge", dc, nfr(0, 0, "0.999", ""), 1},
		{"edge", dc, nfr(300, 150, "0.999", ""), 5},
		{"k8s-deployment", Environment{Profile: "k8s_deployment", Datacenter: true}, none, 800_000},
		{"k8s-deployment", dc, none, 600_000},
		{"k8s-deployment", edge, none, 0},
		{"k8s-deployment", dc, nfr(1499, 0, "", ""), 600_000},
		{"k8s-deployment", dc, nfr(1500, 0, "", ""), 600_003},
		{"k8s-deployment", dc, nfr(0, 51, "", ""), 600_000},
		{"k8s-deployment", dc, nfr(0, 50, "", ""), 600_003},
		{"k8s-deployment", dc, nfr(0, 0, "0.9994", ""), 600_000},
		{"k8s-deployment", dc, nfr(0, 0, "0.9995", ""), 600_002},
		{"k8s-deployment", dc, nfr(0, 0, "", v1alpha1.ConsistencyStrong), 600_002},
		{"k8s-deployment", dc, nfr(0, 0, "", v1alpha1.ConsistencyEventual), 600_000},
		{"knative", dc, none, 900_000},
		{"knative", Environment{Profile: "prod"}, none, 900_000},
		{"knative", Environment{Profile: "full"}, none, 900_000},
		{"knative", edge, none, 600_000},
		{"knative", Environment{}, none, 100_000},
		{"knative", Environment{}, nfr(499, 101, "", ""), 100_000},
		{"knative", Environment{}, nfr(500, 100, "", ""), 100_004},
	} {
		assert.Equal(t, c.want, Score(all[c.template], c.nfr, c.env), "%s %+v %+v", c.template, c.env, c.nfr)
	}
}

func TestChooseTemplate(t *testing.T) {
	all := slices.Collect(maps.Values(shipped(t)))
	spec := func(hint string) *v1alpha1.DeploymentRecordSpec {
		return &v1alpha1.DeploymentRecordSpec{TemplateHint: hint}
	}
	dc := Environment{Datacenter: true, Profile: "full"}
	chosen := func(spec *v1alpha1.DeploymentRecordSpec) Choice {
		got, err := ChooseTemplate(spec, all, dc)
		require.NoError(t, err)
		return got
	}
	for _, c := range []struct{ hint, want string }{
		{"", "k8s-deployment"}, {"dev", "dev"}, {"k8s_deployment", "k8s-deployment"}, {"k8s", "k8s-deployment"}, {"nobody", "k8s-deployment"},
	} {
		got := chosen(spec(c.hint))
		assert.Equal(t, c.want, got.Template.Name, c.hint)
		want := ""
		if c.hint == "nobody" {
			want = `there is no DeploymentTemplate "nobody", only dev, edge, k8s-deployment, knative`
		}
		assert.Equal(t, want, got.Instead, c.hint)
	}
	// The original warns too, and takes another one.
	for _, why := range []string{"which the API server does not serve", "and the feature is off"} {
		if dc.Missing != nil {
			dc.Missing = func(string) string { return why }
		}
		got := chosen(spec("kn"))
		assert.Equal(t, "k8s-deployment", got.Template.Name)
		assert.Equal(t, "template knative needs API group serving.knative.dev, "+why, got.Instead)
		dc.Missing = func(string) string { return why }
	}
	_, err := ChooseTemplate(spec("kn"), []*v1alpha1.DeploymentTemplate{shipped(t)["knative"]}, dc)
	require.EqualError(t, err, "no DeploymentTemplate can be used: template knative needs API group serving.knative.dev, and the feature is off")
	dc.Missing = func(group string) string {
		require.Equal(t, "serving.knative.dev", group)
		return ""
	}
	assert.Equal(t, "knative", chosen(spec("")).Template.Name)
	assert.Equal(t, Choice{Template: chosen(spec("")).Template}, chosen(spec("kn")))

	_, err = ChooseTemplate(spec(""), nil, dc)
	require.EqualError(t, err, "there is no DeploymentTemplate")

	own := shipped(t)["dev"].DeepCopy()
	own.Name, own.Spec.Selection = "ours", v1alpha1.TemplateSelection{Base: []v1alpha1.BaseScore{{Score: 2_000_000}}}
	all = append(all, own)
	assert.Equal(t, "ours", chosen(spec("")).Template.Name, "an object adds a template")
	own.Spec.Capabilities = &v1alpha1.TemplateCapabilities{MaxThroughputRPS: new(int32(100))}
	fast := spec("")
	fast.NFRRequirements = &v1alpha1.NFRRequirements{MinThroughputRPS: new(int32(101))}
	assert.Equal(t, "knative", chosen(fast).Template.Name, "it cannot do that")
	_, err = ChooseTemplate(fast, []*v1alpha1.DeploymentTemplate{own}, dc)
	require.EqualError(t, err, "no DeploymentTemplate can be used: template ours cannot meet the requirements")
}
