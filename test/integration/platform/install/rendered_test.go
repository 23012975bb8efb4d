// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/testenv"
)

// variants are the overlays, with the values of the chart that render the same.
var variants = map[string][]string{
	"second-scheduler": nil,
	"replace-default":  {"scheduler.profile=replace-default"},
	"webhook":          {"webhook.enabled=true"},
	"services":         {"services.enabled=true", "records.enabled=true", "environments.enabled=true"},
	"single-process":   {"services.enabled=true", "records.enabled=true", "environments.enabled=true", "singleProcess=true"},
	"console":          {"console.enabled=true"},
}

func TestTheChartAndTheOverlaysRenderTheSame(t *testing.T) {
	w := testenv.New(t)
	for _, overlay := range slices.Sorted(maps.Keys(variants)) {
		w.Run(overlay, func(t *testing.T, w *testenv.World) {
			byKustomize := normalise(t, w.Tool("kubectl", "kustomize", overlays+overlay))
			byHelm := normalise(t, template(w, namespace, variants[overlay]...))
			requireSame(t, byKustomize, byHelm)
		})
	}
}

// The monitoring kit is no overlay: it goes beside each of them.
func TestTheChartHasTheMonitoringKit(t *testing.T) {
	w := testenv.New(t)
	kit := normalise(t, w.Tool("kubectl", "kustomize", "manifests/monitoring"))
	all := normalise(t, template(w, namespace, "monitoring.serviceMonitors=true", "monitoring.podMonitors=true", "monitoring.rules=true", "monitoring.dashboard=true", "monitoring.metricsReader=true"))
	without := normalise(t, template(w, namespace))
	maps.DeleteFunc(all, func(key string, _ map[string]any) bool { return without[key] != nil })
	requireSame(t, kit, all)
}

func TestAlertsLinkToTheRunbooksOfACopy(t *testing.T) {
	w := testenv.New(t)
	out := string(template(w, namespace, "monitoring.rules=true", "monitoring.runbookURL=https://wiki.example/berth/monitoring.md"))
	assert.Contains(t, out, "runbook_url: https://wiki.example/berth/monitoring.md#berthpodspending\n")
	assert.NotContains(t, out, "runbook: ")
}

func TestAnotherNamespaceIsTheOnlyOneThatTheChartNames(t *testing.T) {
	w := testenv.New(t)
	out := string(template(w, "spot", "webhook.enabled=true", "services.enabled=true", "records.enabled=true", "environments.enabled=true", "placeholders.enabled=true",
		"console.enabled=true", "scheduler.profile=replace-default", "monitoring.serviceMonitors=true", "monitoring.podMonitors=true", "monitoring.rules=true", "monitoring.metricsReader=true"))
	assert.NotContains(t, out, "berth-system")
	assert.Contains(t, out, "system:serviceaccount:spot:berth-controller")
	assert.Contains(t, out, "system:serviceaccount:spot:berth-records")
	assert.Contains(t, out, "system:serviceaccount:spot:berth-environments")
}

func TestTheProfileWithGangsHasItsProgram(t *testing.T) {
	w := testenv.New(t)
	const image = "localhost/berth-scheduler-gangs:"
	assert.Contains(t, string(template(w, namespace, "scheduler.profile=gangs-and-quota")), image)
	assert.NotContains(t, string(template(w, namespace)), image)
}

func TestTheChartRefusesUnknownValues(t *testing.T) {
	w := testenv.New(t)
	for value, words := range map[string][]string{
		"scheduler.replica=3":              {"replica"},
		"scheduler.replicas=0":             {"replicas", "1"},
		"scheduler.profile=fastest":        {"profile", "second-scheduler"},
		"image.pullPolicy=Sometimes":       {"pullPolicy", "IfNotPresent"},
		"scheduler.image.digest=v9":        {"digest", "sha256"},
		"controller.extraArgs[0]=dry-run":  {"extraArgs"},
		"scheduler.decisionsBindAddress=x": {"decisionsBindAddress"},
		"monitoring.serviceMonitor=true":   {"serviceMonitor"},
		"monitoring.runbookURL=docs":       {"runbookURL"},
		"webhook.enabled=yes":              {"enabled", "boolean"},
		"scheduler.serviceAccount.name=my": {"serviceAccount"},
	} {
		_, err := w.TryTool("helm", slices.Concat([]string{"template", "berth", chart}, set(value))...)
		require.Error(t, err, value)
		for _, word := range words {
			assert.ErrorContains(t, err, word, value)
		}
	}
}

func TestValuesReachThePrograms(t *testing.T) {
	w := testenv.New(t)
	objects := normalise(t, template(w, namespace, "scheduler.capacityMix.nodeSampleSize=48", "scheduler.config.clientConnection.qps=77", "controller.config.mix.rebalance.mode=Report",
		"webhook.enabled=true", "webhook.gates=true", "image.registry=registry.example/berth", "image.tag=v9", "scheduler.extraArgs={--v=4}",
		"priorityClassName=", "networkPolicies=false", "podDisruptionBudgets=false", "crds.install=false"))

	config, _, _ := unstructured.NestedMap(objects["ConfigMap/berth-scheduler-config"], "data", "second-scheduler.yaml")
	require.NotEmpty(t, config)
	assert.EqualValues(t, 77, config["clientConnection"].(map[string]any)["qps"])
	assert.EqualValues(t, 2000, config["clientConnection"].(map[string]any)["burst"], "what is not given stays")
	args := testenv.Config(config).Profiles()[0]["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any)
	assert.EqualValues(t, 48, args["nodeSampleSize"])
	assert.Equal(t, "CapacityMixArgs", args["kind"])

	c := controllerConfig(t, objects, "berth-controller")
	assert.Equal(t, controller.Default().Mix.Rebalance.MaxConcurrent, c.Mix.Rebalance.MaxConcurrent)
	assert.EqualValues(t, "Report", c.Mix.Rebalance.Mode)
	assert.True(t, c.Webhook.Enabled && c.Webhook.Gates)

	spec, _, _ := unstructured.NestedMap(objects["Deployment/berth-scheduler"], "spec", "template", "spec")
	require.NotEmpty(t, spec)
	scheduler := container(t, objects, "berth-scheduler")
	assert.Equal(t, "registry.example/berth/berth-scheduler:v9", scheduler["image"])
	assert.Contains(t, scheduler["args"], "--v=4")
	assert.Contains(t, scheduler["args"], "--decisions-bind-address=127.0.0.1:10260")
	other := container(t, normalise(t, template(w, namespace, "scheduler.decisionsBindAddress=127.0.0.1:4711")), "berth-scheduler")
	assert.Contains(t, other["args"], "--decisions-bind-address=127.0.0.1:4711")
	priced := normalise(t, template(w, namespace, "console.enabled=true", "console.prices.date=2026-11-01", "console.prices.discountPercent=20"))
	assert.Contains(t, container(t, priced, "berth-console")["args"], "--prices=/etc/berth/console/prices.yaml")
	own, _, _ := unstructured.NestedMap(priced["ConfigMap/berth-console-config"], "data", "prices.yaml")
	assert.EqualValues(t, 20, own["discountPercent"])
	for _, value := range []string{"singleProcess=false", "singleProcess=true"} {
		priced = normalise(t, template(w, namespace, "controller.prices.date=2026-11-01", value, "controller.config.mix.savings.discountPercent=20"))
		config, _, _ := unstructured.NestedMap(priced["ConfigMap/berth-controller-config"], "data", "config.yaml", "mix", "savings")
		assert.Equal(t, "/etc/berth/controller/prices.yaml", config["pricesFile"])
		assert.EqualValues(t, 20, config["discountPercent"])
		own, _, _ = unstructured.NestedMap(priced["ConfigMap/berth-controller-config"], "data", "prices.yaml")
		assert.Equal(t, map[string]any{"date": "2026-11-01"}, own)
	}
	disabled := container(t, normalise(t, template(w, namespace, "scheduler.decisionsBindAddress=")), "berth-scheduler")
	assert.Equal(t, []any{"--config=/etc/berth/scheduler/second-scheduler.yaml"}, disabled["args"])
	assert.NotContains(t, spec, "priorityClassName")
	for key := range objects {
		kind, _, _ := strings.Cut(key, "/")
		assert.NotContains(t, []string{"NetworkPolicy", "PodDisruptionBudget", "CustomResourceDefinition"}, kind)
	}
}

// The permission to create namespaces without a Pod Security level is granted where the configuration needs it.
func TestTheChartGrantsPrivilegedNamespacesWhereTheyAreSet(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	const label = `environments.config.environments.namespaceLabels.pod-security\.kubernetes\.io/enforce=`
	for value, granted := range map[string]bool{
		"":                   false,
		label + "restricted": false,
		label + "privileged": true,
		"environments.config.environments.namespaceLabels.team=shop": true,
	} {
		values := []string{"environments.enabled=true"}
		if value != "" {
			values = append(values, value)
		}
		_, is := normalise(t, template(w, namespace, values...))["ClusterRoleBinding/berth-environments-privileged"]
		assert.Equal(t, granted, is, value)
	}
}

const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestAnImageByDigest(t *testing.T) {
	w := testenv.New(t)
	objects := normalise(t, template(w, namespace, "image.registry=registry.example/berth", "image.tag=v9", "controller.image.digest="+digest))
	assert.Equal(t, "registry.example/berth/berth-controller@"+digest, container(t, objects, "berth-controller")["image"])
	assert.Equal(t, "registry.example/berth/berth-scheduler:v9", container(t, objects, "berth-scheduler")["image"])
	objects = normalise(t, template(w, namespace, "image.registry=registry.example/berth", "scheduler.image.digest="+digest))
	assert.Equal(t, "registry.example/berth/berth-scheduler@"+digest, container(t, objects, "berth-scheduler")["image"])
	// helm upgrade --reuse-values of a release that was made before the value existed.
	objects = normalise(t, template(w, namespace, "image.tag=v9", "scheduler.image=null"))
	assert.Equal(t, "localhost/berth-scheduler:v9", container(t, objects, "berth-scheduler")["image"])
}

// A container of no bound takes the memory of the node's other pods. A limit on processor time would only delay a scheduler.
func TestThePodsHaveAMemoryLimit(t *testing.T) {
	w := testenv.New(t)
	objects := normalise(t, template(w, namespace, "controller.resources.limits.memory=3Gi", "environments.enabled=true"))
	for name, want := range map[string]struct{ memory, runtime string }{
		"berth-scheduler": {"2Gi", "1843MiB"}, "berth-controller": {"3Gi", "2764MiB"}, "berth-environments": {"512Mi", "460MiB"},
	} {
		c := container(t, objects, name)
		assert.Equal(t, map[string]any{"memory": want.memory}, c["resources"].(map[string]any)["limits"], name)
		assert.Contains(t, c["env"], map[string]any{"name": "GOMEMLIMIT", "value": want.runtime}, name)
	}
	for memory, want := range map[string]string{
		"1.5Gi": "1382MiB", "500M": "429MiB", "2000000Ki": "1757MiB", "1073741824": "921MiB", "1T": "858306MiB",
	} {
		objects := normalise(t, template(w, namespace, "controller.resources.limits.memory="+memory))
		assert.Contains(t, container(t, objects, "berth-controller")["env"], map[string]any{"name": "GOMEMLIMIT", "value": want}, memory)
	}
	// Without a limit, or with one in a form that the chart does not read, the runtime has none either.
	for _, memory := range []string{"null", "1e9"} {
		objects := normalise(t, template(w, namespace, "controller.resources.limits.memory="+memory))
		assert.NotContains(t, container(t, objects, "berth-controller"), "env", memory)
	}
}

// container returns the container of a Deployment.
func container(t *testing.T, objects map[string]map[string]any, name string) map[string]any {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(objects["Deployment/"+name], "spec", "template", "spec", "containers")
	require.Len(t, list, 1)
	return list[0].(map[string]any)
}

func requireSame(t *testing.T, want, got map[string]map[string]any) {
	t.Helper()
	assert.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "objects")
	for key, object := range want {
		if got[key] == nil {
			continue
		}
		if program, is := strings.CutSuffix(strings.TrimPrefix(key, "ConfigMap/"), "-config"); is && program != "berth-scheduler" {
			// The chart writes only what differs from the defaults.
			assert.Equal(t, controllerConfig(t, want, program), controllerConfig(t, got, program))
			continue
		}
		if key == "ConfigMap/berth-scheduler-config" {
			// The chart has the profile in use, the overlays have all.
			all := object["data"].(map[string]any)
			for profile, config := range got[key]["data"].(map[string]any) {
				assert.Equal(t, all[profile], config, profile)
			}
			continue
		}
		assert.Equal(t, object, got[key], key)
	}
}

var (
	// ofRelease are the labels that only helm writes.
	ofRelease = []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"}
	// hashed is what kustomize appends to the names of ConfigMaps.
	hashed = regexp.MustCompile(`^(berth-(?:scheduler|controller|records|environments|console)-config)-[a-z0-9]{10}$`)
)

// normalise reads objects and takes away what helm and kustomize add. Their keys
// are kind and name. Data of ConfigMaps are read as YAML.
func normalise(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := map[string]any{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		u := unstructured.Unstructured{Object: object}
		if len(object) == 0 || u.GetKind() == "Namespace" {
			continue
		}
		labels := u.GetLabels()
		for _, label := range ofRelease {
			delete(labels, label)
		}
		u.SetLabels(labels)
		annotations := u.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		u.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(object, "metadata", "annotations")
		}
		switch u.GetKind() {
		case "Deployment":
			withoutChecksums(&u)
		case "ConfigMap":
			u.SetName(unhashed(u.GetName()))
			for name, value := range object["data"].(map[string]any) {
				var parsed any
				require.NoError(t, yaml.Unmarshal([]byte(value.(string)), &parsed), name)
				object["data"].(map[string]any)[name] = parsed
			}
		}
		key := u.GetKind() + "/" + u.GetName()
		if ns := u.GetNamespace(); ns != "" && ns != namespace {
			key += " in " + ns
		}
		require.NotContains(t, objects, key)
		objects[key] = object
	}
}

func unhashed(name string) string { return hashed.ReplaceAllString(name, "$1") }

// withoutChecksums takes from a Deployment what changes with its configuration.
func withoutChecksums(u *unstructured.Unstructured) {
	annotations, _, _ := unstructured.NestedMap(u.Object, "spec", "template", "metadata", "annotations")
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "checksum/") })
	_ = unstructured.SetNestedMap(u.Object, annotations, "spec", "template", "metadata", "annotations")
	volumes, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "volumes")
	for _, v := range volumes {
		if m, ok := v.(map[string]any)["configMap"].(map[string]any); ok {
			m["name"] = unhashed(m["name"].(string))
		}
	}
	_ = unstructured.SetNestedSlice(u.Object, volumes, "spec", "template", "spec", "volumes")
}

// controllerConfig loads the configuration of berth-controller, berth-records or berth-environments as the program does, with the defaults.
func controllerConfig(t *testing.T, objects map[string]map[string]any, program string) *controller.Configuration {
	t.Helper()
	config, _, err := unstructured.NestedMap(objects["ConfigMap/"+program+"-config"], "data", "config.yaml")
	require.NoError(t, err)
	b, err := yaml.Marshal(config)
	require.NoError(t, err)
	c, err := controller.Load(testenv.WriteFile(t, "config.yaml", string(b)))
	require.NoError(t, err)
	require.Empty(t, c.Validate())
	return c
}
