// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli/doctor"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func labelled(key, value string) func(*cluster.NodeSpec) {
	return func(s *cluster.NodeSpec) { s.Labels = map[string]string{key: value} }
}

// Explain shows of each pod what the scheduler does with it.
func TestExplainShowsTheSizeOfAPodAndItsEffect(t *testing.T) {
	nodes := append(cluster.Nodes("spot", 2, labelled("disk", "ssd")), cluster.Nodes("on-demand", 1, labelled("disk", "hdd"))...)
	w := begin(t, nodes...)
	w.Create(
		builders.ResourceLimit("small", builders.SizeCPU("1", "2"), builders.SizeOnNodesWith("disk", "ssd")),
		builders.ResourceLimit("nowhere", builders.SizeOnNodesWith("disk", "ssd"), builders.SizeRequires("disk", v1alpha1.NodeOpNotIn, "ssd")),
		builders.ResourceLimit("chosen", builders.SizeSelects("selected")),
	)
	w.Create(
		builders.Pod("ok", "fits", builders.OfSize("small"), builders.CPU("1")),
		builders.Pod("ok", "selected", func(t *corev1.PodTemplateSpec) { t.Labels["app"] = "selected" }, builders.CPU("1")),
		builders.Pod("waits", "above", builders.OfSize("small"), builders.CPU("3")),
		builders.Pod("waits", "missing", builders.OfSize("none")),
		builders.Pod("waits", "stuck", builders.CPU("1"), builders.PodAnnotation(v1alpha1.ResourceLimitLabel, "nowhere")),
		builders.Pod("free", "free"),
		builders.Pod("other", "other", builders.OfSize("small"), onNode("on-demand-0"), builders.CPU("3")),
	)
	w.WaitBound("ok", 1)
	w.WaitBound("selected", 1)
	w.WaitBound("free", 1)
	w.WaitUnschedulable("waits", 3)
	me := user(w, "viewer", viewer)
	ns := w.Namespace
	facts := func(pod string) *overview.LimitFacts {
		return decode[overview.Explanation](t, kubectl(w, me, "", "explain", pod, "-n", ns, "-o", "json")).Limit
	}
	columns := regexp.MustCompile(`: {2,}`)
	say := func(pod string) string {
		return columns.ReplaceAllString(kubectl(w, me, "", "explain", pod, "-n", ns).ok(t).out, ": ")
	}

	got := facts("fits")
	assert.Equal(t, ns+"/small", got.ResourceLimit)
	assert.Equal(t, "label", got.By)
	assert.Equal(t, []string{"cpu 2"}, got.Bounds)
	assert.Empty(t, got.Above)
	assert.Contains(t, say("fits"), "Resource limit: "+ns+"/small (named by label berth.dev/resource-limit)\nBounds: cpu 2\nWithin bounds: True\n")

	assert.Equal(t, "selector", facts("selected").By)
	assert.Contains(t, say("selected"), ns+"/chosen (the oldest whose selector matches the labels of the pod)\nBounds: <none>\n")

	assert.Equal(t, []string{"cpu request 3 is above 2"}, facts("above").Above)
	assert.Contains(t, say("above"), "Within bounds: False (cpu request 3 is above 2)\nMatching nodes: 2 of 3 nodes (nodeSelector disk=ssd)\n")
	assert.Contains(t, say("above"), "The pod waits because it is above its ResourceLimit.\n")

	assert.True(t, facts("missing").Missing)
	assert.Contains(t, say("missing"), "Resource limit: "+ns+"/none (named by label berth.dev/resource-limit, does not exist)\n")
	assert.Contains(t, say("missing"), "The pod waits because ResourceLimit "+ns+"/none does not exist.\n")

	got = facts("stuck")
	assert.Equal(t, "annotation", got.By)
	assert.Equal(t, &overview.RuleFacts{Matching: 0, All: 3}, got.Nodes)
	assert.Contains(t, say("stuck"), "Matching nodes: 0 of 3 nodes (nodeSelector disk=ssd: 2 of 3 nodes, nodeAffinity: 1 of 3 nodes)\n")

	assert.Nil(t, facts("free"))
	got = facts("other")
	assert.Equal(t, "default-scheduler", got.NotEnforcedBy)
	assert.True(t, got.NodeMismatch)
	assert.Contains(t, say("other"), "The node does not match the node rules of the ResourceLimit: the pod keeps running")

	found, err := findings(w, user(w, "doctor", doctorRights), "-n", ns)
	require.NoError(t, err)
	f := found["resource limits"]
	assert.Equal(t, doctor.Warn, f.Level)
	assert.Equal(t, "2 pods wait because of a ResourceLimit: "+ns+`/above: pod is above ResourceLimit "`+ns+`/small": cpu request 3 is above 2, `+ns+`/missing: ResourceLimit "`+ns+`/none" does not exist`, f.Message)
	t.Run("a default namespace", func(t *testing.T) { explainWithADefaultNamespace(t, w, me) })
}

// explainWithADefaultNamespace explains with a configuration that is not that of the scheduler that runs.
func explainWithADefaultNamespace(t *testing.T, w *testenv.World, me string) {
	const sizes = "sizes"
	require.NoError(t, w.Cluster.CreateNamespace(w.Ctx, sizes))
	limit := builders.ResourceLimit("none", builders.SizeCPU("1", "2"))
	limit.Namespace = sizes
	w.CreateAsIs(limit)
	file := testenv.WriteFile(t, "config.yaml", `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityMix}, {name: ResourceLimit}]}}
  pluginConfig: [{name: ResourceLimit, args: {defaultNamespace: sizes}}]
`)
	out := kubectl(w, me, "", "explain", "missing", "-n", w.Namespace, "--scheduler-config", file).ok(t).out
	assert.Contains(t, out, "sizes/none (named by label berth.dev/resource-limit, from the default namespace for limits)\n")

	// Without the right to read sizes the rest is shown.
	r := kubectl(w, user(w, "little", viewer[:2]), "", "explain", "fits", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.errOut, "not allowed: list resourcelimits.berth.dev in namespace "+w.Namespace)
	assert.NotContains(t, r.out, "Resource limit")
	assert.Regexp(t, `(?m)^Mix: +<none>$`, r.out)
}
