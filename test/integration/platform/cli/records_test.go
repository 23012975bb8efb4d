// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli/records"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var recordViewer = append([]rbacv1.PolicyRule{
	builders.Rule("berth.dev", []string{"deploymentrecords"}, "get", "list"),
	builders.Rule("autoscaling", []string{"horizontalpodautoscalers"}, "get", "list"),
}, viewer...)

// deployed waits until a record with two functions is Available.
func deployed(w *testenv.World) *v1alpha1.DeploymentRecord {
	w.T.Helper()
	w.ApplyFiles("manifests/rbac/records", "manifests/templates")
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Controllers = []string{"*", controller.ControllerRecords} })
	rec := builders.DeploymentRecord("cart", "add", "remove")
	rec.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(10))
	rec.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	rec.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	rec.Spec.Enforcement = &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementEnforce}
	w.Create(rec)
	return testenv.WaitFor(w, "cart", "it is available", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.Phase == v1alpha1.PhaseAvailable
	})
}

// below finds a node of a tree.
func below(t *testing.T, nodes []records.RecordNode, kind, name string) records.RecordNode {
	t.Helper()
	i := slices.IndexFunc(nodes, func(n records.RecordNode) bool { return n.Kind == kind && n.Name == name })
	require.GreaterOrEqual(t, i, 0, "%s/%s in %+v", kind, name, nodes)
	return nodes[i]
}

func TestRecordsShowWhatIsDeployed(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 3), cluster.Nodes("on-demand", 3)...)...)
	rec := deployed(w)
	me, ns := user(w, "viewer", recordViewer), w.Namespace

	list := decode[struct{ Records []records.RecordStatus }](t, kubectl(w, me, "", "records", "-n", ns, "-o", "json"))
	require.Len(t, list.Records, 1)
	assert.Equal(t, []any{"cart", "shop.Cart", v1alpha1.PhaseAvailable, 2, 2, v1alpha1.EnforcementEnforce},
		[]any{list.Records[0].Name, list.Records[0].Class, list.Records[0].Phase, list.Records[0].ReadyFunctions, list.Records[0].Functions, list.Records[0].Enforcement})
	assert.Equal(t, "deploymentrecord.berth.dev/cart\n", kubectl(w, me, "", "records", "list", "-n", ns, "-o", "name").ok(t).out)
	r := kubectl(w, me, "", "records", "list", "-A").ok(t)
	assert.Contains(t, r.out, ns)
	assert.Empty(t, r.errOut)
	assert.Contains(t, kubectl(w, me, "", cobra.ShellCompRequestCmd, "records", "get", "-n", ns, "ca").ok(t).out, "cart\n")

	t.Run("get", func(t *testing.T) { recordTree(t, w, me) })
	t.Run("recommendations", func(t *testing.T) { recordRecommendations(t, w, me, rec) })
	t.Run("history", func(t *testing.T) {
		h := decode[overview.History](t, kubectl(w, me, "", "records", "history", "cart", "-n", ns, "-o", "json"))
		var reasons []string
		for i, e := range h.Entries {
			reasons = append(reasons, e.From+" "+e.Reason)
			if i > 0 {
				assert.False(t, e.Time.Before(&h.Entries[i-1].Time), "the newest last")
			}
		}
		assert.Equal(t, "Status NFRApplied", reasons[0], "an hour old")
		assert.Contains(t, reasons, "Event Applied")
		assert.Equal(t, "Event Available", reasons[len(reasons)-1])
	})
	t.Run("what is not there", func(t *testing.T) {
		assert.ErrorContains(t, kubectl(w, me, "", "records", "get", "none", "-n", ns).err, `deploymentrecords.berth.dev "none" not found`)
		assert.ErrorContains(t, kubectl(w, me, "", "records", "none", "-n", ns).err, `unknown command "none"`)
		assert.Contains(t, kubectl(w, me, "", "records", "-n", "default").ok(t).errOut, "No records found in namespace default.")
	})
	t.Run("little rights", func(t *testing.T) {
		r := kubectl(w, user(w, "little", recordViewer[:1]), "", "records", "get", "cart", "-n", ns).ok(t)
		assert.Contains(t, r.errOut, `not allowed: list deployments of group "apps" in namespace `+ns)
		assert.Contains(t, r.out, "Deployment/cart-fn-0")
		assert.NotContains(t, r.out, "no longer exists")
	})

	// Without its controller no one would take the finalizer off.
	w.Delete(rec)
	w.Fails("the record is gone", apierrors.IsNotFound, func() error { return kubectl(w, me, "", "records", "get", "cart", "-n", ns).err })
}

func recordTree(t *testing.T, w *testenv.World, me string) {
	ns := w.Namespace
	d := decode[records.RecordDetail](t, kubectl(w, me, "", "records", "get", "deploymentrecord.berth.dev/cart", "-n", ns, "-o", "json"))
	assert.Empty(t, d.Conditions)
	assert.Equal(t, "cpu 100m, memory 64Mi", below(t, d.Tree, "ResourceLimit", "cart").Detail)
	add := below(t, d.Tree, "Function", "add").Children
	assert.Equal(t, "24% spot, at least 2 on-demand", below(t, add, "CapacityMix", "cart-fn-0").Detail)
	workload := below(t, add, "Deployment", "cart-fn-0")
	assert.Equal(t, &records.ReplicaCount{Ready: 10, Wanted: 10}, workload.Replicas)
	assert.Equal(t, &overview.Split{Spot: 2, OnDemand: 8}, workload.Pods)
	assert.Equal(t, &overview.Split{OnDemand: 3}, below(t, below(t, d.Tree, "Function", "remove").Children, "Deployment", "cart-fn-1").Pods)
	require.Len(t, d.Endpoints, 2)
	assert.True(t, strings.HasPrefix(d.Endpoints[0].URL, "http://cart-fn-0."+ns), d.Endpoints[0].URL)

	text := kubectl(w, me, "", "records", "get", "cart", "-n", ns).ok(t)
	assert.Contains(t, text.out, "DeploymentRecord "+ns+"/cart is Available.\n")
	assert.Empty(t, text.errOut)
}

// recordRecommendations writes what a measurement would into the status of a record.
func recordRecommendations(t *testing.T, w *testenv.World, me string, rec *v1alpha1.DeploymentRecord) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	n := v1alpha1.NFRRecommendation{Component: "cart-fn-0", Dimension: v1alpha1.DimensionReplicas, Target: 12, Basis: "measured", ConfidencePercent: 60}
	cpu := n
	cpu.Dimension, cpu.Target = v1alpha1.DimensionCPU, 1300
	before := rec.DeepCopy()
	rec.Status.NFRRecommendations = []v1alpha1.NFRRecommendation{n, cpu}
	rec.Status.NFRWindows = []v1alpha1.NFRWindow{{Component: n.Component, Dimension: n.Dimension, Target: 12, Since: now, Seen: now}}
	rec.Status.LastApplied = []v1alpha1.AppliedRecommendation{{NFRRecommendation: n, Value: 10, Time: metav1.NewTime(now.Add(-time.Hour))}}
	require.NoError(t, w.Client.Status().Patch(w.Ctx, rec, client.MergeFrom(before)))
	r := decode[records.Recommendations](t, kubectl(w, me, "", "records", "recommendations", "cart", "-n", w.Namespace, "--stability", "10m", "-o", "json"))
	require.Len(t, r.Recommendations, 2)
	got := r.Recommendations[0]
	assert.Equal(t, []any{int64(10), int64(12), int64(10)}, []any{*got.Now, *got.Recommended, got.LastApplied.Value})
	assert.Equal(t, 10*time.Minute, got.Window.Due.Sub(got.Window.Since.Time))
	assert.False(t, got.Window.Stale)
	assert.Equal(t, int64(1000), *r.Recommendations[1].Now, "what ten pods request")
	out := kubectl(w, me, "", "records", "recommendations", "cart", "-n", w.Namespace).ok(t).out
	assert.Contains(t, out, "applied in ")
	assert.Contains(t, out, "10, 60m ago")
}
