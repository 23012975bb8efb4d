// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
)

var settings = Settings{ODGM: true, ODGMImage: "odgm:1", SchedulerName: "berth-scheduler", Reliability: DefaultReliability}

func recordOf(functions ...string) *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	r.Spec.DeploymentUnit = v1alpha1.DeploymentUnit{ID: "Web!", ClassKey: "shop.Cart"}
	r.Spec.Addons = &[]v1alpha1.Addon{}
	for _, f := range functions {
		r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{FunctionKey: f, Image: "img/" + f})
	}
	return r
}

func rendered(t *testing.T, r *v1alpha1.DeploymentRecord, change ...func(*Settings)) *Rendered {
	t.Helper()
	s := settings
	for _, c := range change {
		c(&s)
	}
	out, err := Render(r, shipped(t)["k8s-deployment"], s)
	require.NoError(t, err)
	return out
}

// ofKind are the rendered objects of a kind, by name.
func ofKind(r *Rendered, kind string) map[string]Object {
	all := map[string]Object{}
	for _, o := range r.Objects {
		if o.GetKind() == kind {
			all[o.GetName()] = o
		}
	}
	return all
}

func namesOfKind(r *Rendered, kind string) []string { return slices.Sorted(maps.Keys(ofKind(r, kind))) }

func decoded[T any](t *testing.T, o Object) *T {
	t.Helper()
	into := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.UnstructuredContent(), into, true))
	return into
}

func deployment(t *testing.T, r *Rendered, name string) *appsv1.Deployment {
	t.Helper()
	require.Contains(t, namesOfKind(r, "Deployment"), name)
	return decoded[appsv1.Deployment](t, ofKind(r, "Deployment")[name])
}

func envOf(d *appsv1.Deployment) map[string]string {
	m := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		m[e.Name] = e.Value
	}
	return m
}

func TestNames(t *testing.T) {
	one := rendered(t, recordOf("a"))
	assert.Equal(t, []string{"web"}, namesOfKind(one, "Deployment"))
	assert.Equal(t, []string{"web"}, namesOfKind(one, "Service"))
	r := recordOf("a", "b", "c")
	several := rendered(t, r)
	assert.Equal(t, []string{"web-fn-0", "web-fn-1", "web-fn-2"}, namesOfKind(several, "Deployment"))

	// A function keeps its name while others go and come.
	for _, f := range several.Functions {
		r.Status.Functions = append(r.Status.Functions, v1alpha1.FunctionStatus{FunctionKey: f.Spec.FunctionKey, Service: f.Name})
	}
	r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions[1:], v1alpha1.FunctionSpec{FunctionKey: "d", Image: "d"})
	names := map[string]string{}
	for _, f := range rendered(t, r).Functions {
		names[f.Spec.FunctionKey] = f.Name
	}
	assert.Equal(t, map[string]string{"b": "web-fn-1", "c": "web-fn-2", "d": "web-fn-0"}, names)
}

func TestODGM(t *testing.T) {
	r := recordOf("a", "b", "w")
	r.Spec.DeploymentUnit.Functions[2].WASMModuleURL = "https://modules.example/w.wasm"
	r.Spec.Addons = nil
	r.Spec.ODGMConfig = &v1alpha1.ODGMConfig{Collections: []string{"x", "y"}, PartitionCount: new(int32(4)), NodeIDs: map[string]v1alpha1.NodeIDs{"p": {"7", "3"}, "q": {"3"}}}
	out := rendered(t, r)
	assert.Equal(t, []string{"web-fn-0", "web-fn-1", "web-odgm"}, namesOfKind(out, "Deployment"))
	assert.Equal(t, []string{"web-fn-0", "web-fn-1", "web-odgm-svc"}, namesOfKind(out, "Service"))
	odgm := envOf(deployment(t, out, "web-odgm"))
	assert.Equal(t, "x,y", odgm["ODGM_COLLECTIONS"])
	assert.Equal(t, "3,7", odgm["ODGM_MEMBERS"])
	assert.Equal(t, "Web!", odgm["OPRC_DEPLOYMENT_ID"])
	var collections []struct {
		Name           string `json:"name"`
		PartitionCount int    `json:"partition_count"`
		ReplicaCount   int    `json:"replica_count"`
		ShardType      string `json:"shard_type"`
		Invocations    struct {
			FnRoutes map[string]struct {
				URL    string  `json:"url"`
				Module *string `json:"wasm_module_url"`
			} `json:"fn_routes"`
		} `json:"invocations"`
	}
	require.NoError(t, json.Unmarshal([]byte(odgm["ODGM_COLLECTION"]), &collections))
	require.Len(t, collections, 2)
	assert.Equal(t, []any{"x", 4, 1, "none"}, []any{collections[0].Name, collections[0].PartitionCount, collections[0].ReplicaCount, collections[0].ShardType})
	assert.Equal(t, "http://web-fn-1.shop.svc.cluster.local/", collections[0].Invocations.FnRoutes["b"].URL)
	assert.Nil(t, collections[0].Invocations.FnRoutes["b"].Module)
	w := collections[0].Invocations.FnRoutes["w"]
	assert.Equal(t, "wasm://w", w.URL)
	assert.Equal(t, new("https://modules.example/w.wasm"), w.Module, "without it the ODGM skips the route")
	for _, name := range []string{"web-fn-0", "web-fn-1"} {
		d := deployment(t, out, name)
		assert.Len(t, d.Spec.Template.Spec.Containers, 1, "never a sidecar")
		e := envOf(d)
		assert.Equal(t, []string{"true", "web-odgm-svc:8080", "x,y"}, []string{e["ODGM_ENABLED"], e["ODGM_SERVICE"], e["ODGM_COLLECTIONS"]})
	}
	ports := map[int32]int32{}
	for _, p := range decoded[corev1.Service](t, ofKind(out, "Service")["web-odgm-svc"]).Spec.Ports {
		ports[p.Port] = p.TargetPort.IntVal
	}
	assert.Equal(t, map[int32]int32{80: 8080, 8080: 8080, 17447: 17447}, ports, "the advertised address is one of the Service's")

	assert.Equal(t, []string{"8080", "17447"}, []string{odgm["ODGM_HTTP_PORT"], odgm["OPRC_ZENOH_PORT"]})
	var container []int32
	for _, p := range deployment(t, out, "web-odgm").Spec.Template.Spec.Containers[0].Ports {
		container = append(container, p.ContainerPort)
	}
	assert.Equal(t, []int32{8080, 17447}, container)

	r.Spec.DeploymentUnit.Functions = r.Spec.DeploymentUnit.Functions[:2]
	for name, off := range map[string]func() *Rendered{
		"the feature is off": func() *Rendered { return rendered(t, r, func(s *Settings) { s.ODGM = false }) },
		"no addons":          func() *Rendered { r.Spec.Addons = &[]v1alpha1.Addon{}; return rendered(t, r) },
	} {
		out := off()
		assert.Equal(t, []string{"web-fn-0", "web-fn-1"}, namesOfKind(out, "Deployment"), name)
		assert.NotContains(t, envOf(deployment(t, out, "web-fn-0")), "ODGM_ENABLED", name)
	}
}

// The pods of a function have the annotations of its metrics, or of those of the template; what the template sets itself stays.
func TestScrapeAnnotations(t *testing.T) {
	r := recordOf("a", "b")
	r.Spec.DeploymentUnit.Functions[0].Metrics = &v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsOpenTelemetry, Port: 9464, Path: "/stats"}
	template := shipped(t)["dev"].DeepCopy()
	scraped := func(template *v1alpha1.DeploymentTemplate, name string) map[string]string {
		out, err := Render(r, template, settings)
		require.NoError(t, err)
		return deployment(t, out, name).Spec.Template.Annotations
	}
	assert.Equal(t, map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9464", "prometheus.io/path": "/stats"}, scraped(template, "web-fn-0"))
	assert.Empty(t, scraped(template, "web-fn-1"))
	template.Spec.Metrics = &v1alpha1.FunctionMetrics{Port: 9090}
	assert.Equal(t, map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/metrics"}, scraped(template, "web-fn-1"))
	assert.Equal(t, "/stats", scraped(template, "web-fn-0")["prometheus.io/path"], "the function takes precedence")
}

// Each member of an ODGM is a workload with a number of its own, and has those of all.
func TestMembersOfTheODGM(t *testing.T) {
	type member struct{ name, id, members string }
	for name, c := range map[string]struct {
		config      v1alpha1.ODGMConfig
		environment string
		want        []member
	}{
		"one, without a number": {want: []member{{"web-odgm", "", ""}}},
		"one, with a number":    {config: v1alpha1.ODGMConfig{NodeID: new(v1alpha1.NodeID("7"))}, want: []member{{"web-odgm", "7", ""}}},
		"as many as replicas": {
			config: v1alpha1.ODGMConfig{ReplicaCount: new(int32(3))},
			want:   []member{{"web-odgm", "1", "1,2,3"}, {"web-odgm-1", "2", "1,2,3"}, {"web-odgm-2", "3", "1,2,3"}},
		},
		"from a number on": {
			config: v1alpha1.ODGMConfig{ReplicaCount: new(int32(2)), NodeID: new(v1alpha1.NodeID("9"))},
			want:   []member{{"web-odgm", "9", "9,10"}, {"web-odgm-1", "10", "9,10"}},
		},
		"those of the environment": {
			config:      v1alpha1.ODGMConfig{ReplicaCount: new(int32(3)), NodeIDs: map[string]v1alpha1.NodeIDs{"edge": {"18446744073709551615", "4"}, "cloud": {"1"}}},
			environment: "edge",
			want:        []member{{"web-odgm", "4", "1,4,18446744073709551615"}, {"web-odgm-1", "18446744073709551615", "1,4,18446744073709551615"}},
		},
		"the others run elsewhere": {
			config:      v1alpha1.ODGMConfig{ReplicaCount: new(int32(3)), NodeIDs: map[string]v1alpha1.NodeIDs{"cloud": {"1", "2"}}, NodeID: new(v1alpha1.NodeID("1"))},
			environment: "edge",
			want:        []member{{"web-odgm", "1", "1,2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := recordOf("a")
			r.Spec.Addons, r.Spec.ODGMConfig, r.Spec.TargetEnvironment = nil, &c.config, c.environment
			out := rendered(t, r)
			var got []member
			for _, workload := range out.ODGM {
				d := deployment(t, out, workload)
				env := envOf(d)
				got = append(got, member{workload, env["ODGM_NODE_ID"], env["ODGM_MEMBERS"]})
				assert.Equal(t, workload, d.Spec.Selector.MatchLabels["app"], "no two select the same pods")
				assert.Equal(t, len(c.want) > 1, len(d.Spec.Template.Spec.TopologySpreadConstraints) == 2, "apart")
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, []string{"web", "web-odgm-svc"}, namesOfKind(out, "Service"))
			service := decoded[corev1.Service](t, ofKind(out, "Service")["web-odgm-svc"])
			mix := ofKind(out, "CapacityMix")["web-odgm"]
			for _, m := range got {
				pods := labels.Set(deployment(t, out, m.name).Spec.Template.Labels)
				assert.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(pods), "the Service selects %s", m.name)
				require.NotNil(t, mix)
			}
			assert.Equal(t, []string{"web-odgm"}, namesOfKind(out, "CapacityMix"), "one for all members")
		})
	}
}

func TestWhatCannotBeRendered(t *testing.T) {
	good := shipped(t)["dev"]
	odgm := recordOf("a")
	odgm.Spec.Addons = &[]v1alpha1.Addon{v1alpha1.AddonODGM}
	wasm := recordOf("a")
	wasm.Spec.DeploymentUnit.Functions[0].WASMModuleURL = "https://x"
	noODGMImage, withODGM := recordOf("a"), recordOf("a")
	noODGMImage.Spec.Addons, withODGM.Spec.Addons = nil, nil
	otherService := good.DeepCopy()
	otherService.Spec.ODGMManifests = []string{"{apiVersion: v1, kind: Service, metadata: {name: other}}"}
	noImage := recordOf("a", "b")
	noImage.Spec.DeploymentUnit.Functions[1].Image = ""
	manifest := func(text string) *v1alpha1.DeploymentTemplate {
		c := good.DeepCopy()
		c.Spec.FunctionManifests = append(c.Spec.FunctionManifests, text)
		return c
	}
	for name, c := range map[string]struct {
		record       *v1alpha1.DeploymentRecord
		template     *v1alpha1.DeploymentTemplate
		reason, want string
	}{
		"no image of the ODGM": {noODGMImage, good, v1alpha1.ReasonImageMissing, "records.odgmImage"},
		"no image":             {noImage, good, v1alpha1.ReasonImageMissing, `spec.deploymentUnit.functions[b].image: Required value: the function has no image: set this field (provision_config.container_image in a call of Deploy), or records.defaultFunctionImage`},
		"ODGM is off":          {odgm, good, v1alpha1.ReasonODGMOff, "records.features.odgm"},
		"wasm, no ODGM":        {wasm, good, v1alpha1.ReasonODGMOff, "records.features.odgm"},
		"garbage":              {recordOf("a"), manifest("{"), v1alpha1.ReasonInvalidTemplate, "spec.functionManifests[2]"},
		"a kind":               {recordOf("a"), manifest("{apiVersion: v1, kind: Secret, metadata: {name: a}}"), v1alpha1.ReasonInvalidTemplate, `spec.functionManifests[2].kind: Unsupported value: "Secret"`},
		"no kind":              {recordOf("a"), manifest("{apiVersion: v1}"), v1alpha1.ReasonInvalidTemplate, "functionManifests[2].kind"},
		"no version":           {recordOf("a"), manifest("{kind: Service}"), v1alpha1.ReasonInvalidTemplate, "functionManifests[2].apiVersion"},
		"a namespace":          {recordOf("a"), manifest("{apiVersion: v1, kind: Service, metadata: {name: a, namespace: kube-system}}"), v1alpha1.ReasonInvalidTemplate, "metadata.namespace"},
		"finalizers":           {recordOf("a"), manifest("{apiVersion: v1, kind: Service, metadata: {name: a, finalizers: [x/y]}}"), v1alpha1.ReasonInvalidTemplate, "metadata.finalizers"},
		"owners":               {recordOf("a"), manifest("{apiVersion: v1, kind: Service, metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}}"), v1alpha1.ReasonInvalidTemplate, "metadata.ownerReferences"},
		"a name twice":         {recordOf("a"), manifest("{apiVersion: v1, kind: Service, metadata: {name: \"${name}\"}}"), v1alpha1.ReasonInvalidTemplate, "Duplicate"},
		"an unfit name":        {recordOf("a"), manifest("{apiVersion: v1, kind: Service, metadata: {name: \"${deploymentID}\"}}"), v1alpha1.ReasonInvalidTemplate, `metadata.name: Invalid value: "Web!"`},
		"no such Service":      {withODGM, otherService, v1alpha1.ReasonInvalidTemplate, "web-odgm-svc"},
	} {
		s := settings
		if s.ODGM = c.record.Spec.Addons == nil; c.record == noODGMImage {
			s.ODGMImage = ""
		}
		_, err := Render(c.record, c.template, s)
		refused, ok := errors.AsType[*Error](err)
		require.True(t, ok, "%s: %v", name, err)
		assert.Equal(t, c.reason, refused.Reason, name)
		assert.ErrorContains(t, err, c.want, name)
	}
	noImage.Spec.DeploymentUnit.Functions[1].Image = ""
	out := rendered(t, noImage, func(s *Settings) { s.DefaultFunctionImage = "default:1" })
	assert.Equal(t, "default:1", deployment(t, out, "web-fn-1").Spec.Template.Spec.Containers[0].Image)
}

func TestWhereThePodsMayRun(t *testing.T) {
	r := recordOf("a", "b", "c")
	r.Spec.Addons = nil
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "500m", Memory: "256Mi", MemoryLimit: "512Mi"}
	f := r.Spec.DeploymentUnit.Functions
	f[1].NFRRequirements = &v1alpha1.NFRRequirements{MaxLatencyMS: new(int32(20)), Availability: new("0.5")}
	f[1].Resources = &v1alpha1.ResourceAllocation{CPU: "2"}
	f[1].AvailableLocation = "eu-1a"
	f[2].MinScale = new(int32(7))
	out := rendered(t, r)
	assert.Equal(t, []string{"web-fn-0", "web-fn-1", "web-fn-2", "web-odgm"}, namesOfKind(out, "CapacityMix"))
	assert.Equal(t, []string{"web"}, namesOfKind(out, "ResourceLimit"))
	assert.Equal(t, "512Mi", decoded[v1alpha1.ResourceLimit](t, ofKind(out, "ResourceLimit")["web"]).Spec.MemoryLimit.String())
	mixes := map[string]*v1alpha1.CapacityMix{}
	for name, o := range ofKind(out, "CapacityMix") {
		mixes[name] = decoded[v1alpha1.CapacityMix](t, o)
	}
	split := func(name string) []int32 {
		return []int32{mixes[name].Spec.SpotPercent, mixes[name].Spec.MinOnDemand}
	}
	assert.Equal(t, []int32{24, 2}, split("web-fn-0"))
	assert.Equal(t, []int32{100, 1}, split("web-fn-1"), "the function's own has more")
	assert.Equal(t, []int32{0, 1}, split("web-odgm"), "it keeps data")

	a, b, c := deployment(t, out, "web-fn-0"), deployment(t, out, "web-fn-1"), deployment(t, out, "web-fn-2")
	assert.Equal(t, []int32{3, 1, 7}, []int32{*a.Spec.Replicas, *b.Spec.Replicas, *c.Spec.Replicas})
	for _, d := range []*appsv1.Deployment{a, b, c} {
		assert.Equal(t, "berth-scheduler", d.Spec.Template.Spec.SchedulerName)
		selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: d.Spec.Template.Labels})
		require.NoError(t, err)
		require.False(t, selector.Empty())
		for name, m := range mixes {
			selects := labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels))
			assert.Equal(t, name == d.Name, selects, "mix %s and pods of %s", name, d.Name)
		}
	}
	assert.Len(t, a.Spec.Template.Spec.TopologySpreadConstraints, 1)
	assert.Empty(t, b.Spec.Template.Spec.TopologySpreadConstraints)
	assert.Nil(t, a.Spec.Template.Spec.Affinity)
	assert.Len(t, b.Spec.Template.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 2)
	assert.Equal(t, map[string]string{corev1.LabelTopologyZone: "eu-1a"}, b.Spec.Template.Spec.NodeSelector)
	assert.Equal(t, "web", a.Spec.Template.Labels[v1alpha1.ResourceLimitLabel])
	assert.NotContains(t, b.Spec.Template.Labels, v1alpha1.ResourceLimitLabel, "it has a size of its own")
	assert.Equal(t, "500m", a.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, "2", b.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
}

func TestWithoutRequirementsNoPodIsSteered(t *testing.T) {
	out := rendered(t, recordOf("a"))
	assert.Empty(t, namesOfKind(out, "CapacityMix"))
	assert.Empty(t, namesOfKind(out, "ResourceLimit"))
}

func TestAllTemplatesCanBeRendered(t *testing.T) {
	r := recordOf("a", "b")
	r.Spec.Addons = nil
	r.Spec.DeploymentUnit.Functions[0].HTTP2 = true
	r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(4))
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(2))
	for name, tpl := range shipped(t) {
		out, err := Render(r, tpl, settings)
		require.NoError(t, err, name)
		require.NotEmpty(t, out.Objects)
		if name == "knative" {
			o := out.Objects[len(out.Objects)-2]
			require.Equal(t, "serving.knative.dev/v1", o.GetAPIVersion())
			annotations, _, _ := unstructured.NestedMap(o.UnstructuredContent(), "spec", "template", "metadata", "annotations")
			assert.Equal(t, map[string]any{
				"autoscaling.knative.dev/minScale": "2", "autoscaling.knative.dev/maxScale": "4", "prometheus.io/scrape": "true", "prometheus.io/port": "80", "oaas.io/http2": "true",
			}, annotations)
		}
	}
}

// What the images that are published for the original read, and what its tools look for.
func TestPublishedImagesFindWhatTheyRead(t *testing.T) {
	r := recordOf("add", "remove")
	r.Spec.Addons = nil
	r.Spec.DeploymentUnit.PackageName, r.Spec.DeploymentUnit.ClassKey = "example", "Record"
	r.Spec.DeploymentUnit.Functions[0].HTTP2 = true
	r.Spec.DeploymentUnit.Functions[1].Port = 9000
	for name, tpl := range shipped(t) {
		out, err := Render(r, tpl, settings)
		require.NoError(t, err)
		assert.EqualValues(t, 80, out.Functions[0].Port, name)
		for _, o := range out.Objects {
			if o.GetKind() == "CapacityMix" {
				continue
			}
			assert.Equal(t, "web", o.GetLabels()["oaas.io/owner"], "%s %s", name, o.GetName())
			assert.Equal(t, "Record", o.GetLabels()["oaas.io/class"], "%s %s", name, o.GetName())
			pods, is, _ := unstructured.NestedMap(o.Object, "spec", "template", "metadata")
			if !is {
				continue
			}
			labels, annotations := pods["labels"].(map[string]any), pods["annotations"]
			assert.Equal(t, []any{"web", "Record", "web"}, []any{labels["oaas.io/owner"], labels["oaas.io/class"], labels[v1alpha1.OwnerLabel]})
			http2, _ := annotations.(map[string]any)
			assert.Equal(t, o.GetName() == "web-fn-0", http2["oaas.io/http2"] == "true", "%s %s", name, o.GetName())
		}
	}
	out := rendered(t, r)
	ports := func(name string) [2]int32 {
		service := decoded[corev1.Service](t, ofKind(out, "Service")[name])
		return [2]int32{service.Spec.Ports[0].Port, service.Spec.Ports[0].TargetPort.IntVal}
	}
	assert.Equal(t, [2]int32{80, 80}, ports("web-fn-0"))
	assert.Equal(t, [2]int32{80, 9000}, ports("web-fn-1"))
	assert.Equal(t, "80", envOf(deployment(t, out, "web-fn-0"))["HTTP_PORT"])
	assert.Equal(t, "9000", envOf(deployment(t, out, "web-fn-1"))["HTTP_PORT"])
	for text, port := range map[string]int32{"8081": 8081, "0": 80, "65536": 80, "-1": 80, "http": 80} {
		configured := recordOf("add")
		configured.Spec.DeploymentUnit.Functions[0].Config = map[string]v1alpha1.ConfigValue{"HTTP_PORT": v1alpha1.ConfigValue(text)}
		assert.Equal(t, port, rendered(t, configured).Functions[0].Port, text)
	}
	odgm := envOf(deployment(t, out, "web-odgm"))
	assert.Equal(t, "example.Record", odgm["OPRC_CLS_ID"])
	assert.Equal(t, "web", odgm["ODGM_COLLECTIONS"], "one collection, named like the record")
	assert.Contains(t, odgm["ODGM_COLLECTION"], `"name":"web"`)
	assert.Equal(t, "web", envOf(deployment(t, out, "web-fn-0"))["ODGM_COLLECTIONS"])
	r.Spec.DeploymentUnit.ClassKey = "example.Record"
	assert.Equal(t, "example.Record", envOf(deployment(t, rendered(t, r), "web-odgm"))["OPRC_CLS_ID"])
	r.Spec.DeploymentUnit.PackageName, r.Spec.DeploymentUnit.ClassKey = "", "Record"
	assert.Equal(t, "Record", envOf(deployment(t, rendered(t, r), "web-odgm"))["OPRC_CLS_ID"])
}

func TestProbes(t *testing.T) {
	type probes struct{ ready, live *corev1.Probe }
	tcp := func(port int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}}
	}
	for name, c := range map[string]struct {
		ready, live *v1alpha1.FunctionProbe
		want        probes
	}{
		"by default a replica is ready when its port is open": {want: probes{ready: tcp(8000)}},
		"off": {ready: &v1alpha1.FunctionProbe{Type: v1alpha1.ProbeNone}},
		"a path": {
			ready: &v1alpha1.FunctionProbe{Path: "/ready", InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3, FailureThreshold: 4},
			want: probes{ready: &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8000)}},
				InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3, FailureThreshold: 4,
			}},
		},
		"gRPC on another port, and restarts": {
			ready: &v1alpha1.FunctionProbe{Type: v1alpha1.ProbeGRPC, Port: 9000}, live: &v1alpha1.FunctionProbe{},
			want: probes{&corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000}}}, tcp(8000)},
		},
	} {
		r := recordOf("a")
		f := &r.Spec.DeploymentUnit.Functions[0]
		f.Port, f.ReadinessProbe, f.LivenessProbe = 8000, c.ready, c.live
		for _, template := range []string{"dev", "edge", "k8s-deployment"} {
			out, err := Render(r, shipped(t)[template], settings)
			require.NoError(t, err)
			container := deployment(t, out, "web").Spec.Template.Spec.Containers[0]
			assert.Equal(t, c.want, probes{container.ReadinessProbe, container.LivenessProbe}, "%s: %s", template, name)
		}
	}
	r := recordOf("a")
	r.Spec.Addons = nil
	assert.Equal(t, tcp(ODGMPort), deployment(t, rendered(t, r), "web-odgm").Spec.Template.Spec.Containers[0].ReadinessProbe)
}

func TestTheRouterAndTheODGMArePeers(t *testing.T) {
	r := recordOf("add")
	r.Spec.Addons = nil
	router := func(s *Settings) { s.Router = "tcp/router:17447" }
	out := rendered(t, r, router)
	f, odgm := envOf(deployment(t, out, "web")), envOf(deployment(t, out, "web-odgm"))
	assert.Equal(t, []string{"client", "tcp/router:17447,tcp/web-odgm-svc:17447"}, []string{f["OPRC_ZENOH_MODE"], f["OPRC_ZENOH_PEERS"]})
	assert.Equal(t, []string{"peer", "tcp/router:17447"}, []string{odgm["OPRC_ZENOH_MODE"], odgm["OPRC_ZENOH_PEERS"]})
	r.Spec.Addons = &[]v1alpha1.Addon{}
	assert.Equal(t, "tcp/router:17447", envOf(deployment(t, rendered(t, r, router), "web"))["OPRC_ZENOH_PEERS"])
}

func TestTelemetry(t *testing.T) {
	r := recordOf("add")
	r.Spec.Addons = nil
	r.Spec.Telemetry = &v1alpha1.Telemetry{Enabled: true, Metrics: new(false)}
	collector := func(s *Settings) { s.OTLPEndpoint = "http://collector:4317" }
	out := rendered(t, r, collector)
	for _, name := range []string{"web", "web-odgm"} {
		telemetry := envOf(deployment(t, out, name))
		maps.DeleteFunc(telemetry, func(key, _ string) bool { return !strings.HasPrefix(key, "OTEL_") })
		assert.Equal(t, map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_SERVICE_NAME": name,
			"OTEL_TRACES_ENABLED": "true", "OTEL_METRICS_ENABLED": "false", "OTEL_LOGS_ENABLED": "false",
			"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
		}, telemetry)
	}
	r.Spec.Telemetry.Logs = new(true)
	assert.Equal(t, "true", envOf(deployment(t, rendered(t, r), "web"))["OTEL_LOGS_ENABLED"])
	assert.NotContains(t, envOf(deployment(t, rendered(t, r), "web")), "OTEL_EXPORTER_OTLP_ENDPOINT", "that of the SDK")
	r.Spec.Telemetry.Enabled = false
	assert.NotContains(t, envOf(deployment(t, rendered(t, r, collector), "web")), "OTEL_TRACES_ENABLED")
}
