// SPDX-License-Identifier: Apache-2.0

// Package samples_test applies every file of manifests/samples to a real
// control plane, as a user would, and looks at where the pods are.
package samples_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const dir = "manifests/samples"

// sample is what the comments of a file promise.
type sample struct {
	app      string
	mix      split.Mix
	replicas int
	wantSpot int
	// wantSource is the pods' annotation of where their mix comes from.
	wantSource string
	// gated: the pods' slots come with the opening of their gates, for the scheduler of those that name none.
	gated bool
}

var samples = map[string]sample{
	"web.yaml":              {app: "web", mix: split.New(70, 2), replicas: 20, wantSpot: 14, wantSource: governing.SourceCapacityMix + "web"},
	"db.yaml":               {app: "db", mix: split.New(50, 2), replicas: 4, wantSpot: 2, wantSource: governing.SourceController},
	"annotations-only.yaml": {app: "api", mix: split.New(60, 1), replicas: 10, wantSpot: 6, wantSource: governing.SourceController},
	"wait-for-spot.yaml":    {app: "thumbnails", mix: split.New(100, 0), replicas: 8, wantSpot: 8, wantSource: governing.SourceCapacityMix + "thumbnails"},
	"borrow-both-ways.yaml": {app: "search", mix: split.Mix{SpotPercent: 80, MinOnDemand: 1, MaxSpot: 6}, replicas: 10, wantSpot: 6, wantSource: governing.SourceCapacityMix + "search"},
	"gated.yaml":            {app: "orders", mix: split.New(70, 2), replicas: 10, wantSpot: 7, wantSource: governing.SourceCapacityMix + "orders", gated: true},
	byWebhook:               {app: "mail", mix: split.New(60, 0), replicas: 10, wantSpot: 6, wantSource: governing.SourceCapacityMix + "mail", gated: true},
	"runners.yaml":          {app: "runner", mix: split.New(60, 0), replicas: 5, wantSpot: 3, wantSource: governing.SourceCapacityMix + "runners"},
	"job.yaml":              {app: "training", mix: split.New(100, 2), replicas: 8, wantSpot: 6, wantSource: governing.SourceCapacityMix + "training"},
}

// byWebhook is the one sample that needs the webhook.
const byWebhook = "gated-by-webhook.yaml"

func TestEverySampleIsAcceptedAndPlacedAsDocumented(t *testing.T) {
	for file, s := range samples {
		t.Run(file, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			if s.gated {
				w.StartStock()
			}
			if file == byWebhook {
				w.Webhook(func(c *controller.Configuration) { c.Webhook.Gates = true })
			}
			apply(w, file)
			pods := w.RequireExact(s.app, s.mix, s.replicas)
			require.Equal(t, s.wantSpot, w.SplitOf(pods).Spot, "pods on spot nodes")
			for slot, p := range w.Slots(pods) {
				assert.Equal(t, s.mix.TypeOf(slot), w.Types()[p.Spec.NodeName], "the type that slot %d runs on", slot)
				assert.Equal(t, s.wantSource, p.Annotations["berth.dev/mix"], "where the mix of %s comes from", p.Name)
				_, ungated := gate.LimitedTo(p)
				assert.Equal(t, s.gated, ungated, "whether %s had a gate", p.Name)
			}
		})
	}
}

// sizeSample is the one sample that is about nodes and not about a mix.
const sizeSample = "resource-limit.yaml"

func TestTheSampleOfASizeIsPlacedAsDocumented(t *testing.T) {
	node := func(name, os, arch string) cluster.NodeSpec {
		return cluster.NodeSpec{Name: name, Labels: map[string]string{corev1.LabelOSStable: os, corev1.LabelArchStable: arch}}
	}
	w := testenv.New(t, node("windows", "windows", "amd64"), node("old", "linux", "arm"), node("arm64", "linux", "arm64"), node("amd64", "linux", "amd64"))
	apply(w, sizeSample)
	for _, p := range w.WaitBound("tool", 4) {
		assert.Equal(t, "amd64", p.Spec.NodeName)
	}
	w.Cordon(true, "amd64")
	w.Create(builders.Pod("second", "second", builders.OfSize("small")))
	assert.Equal(t, "arm64", w.WaitBound("second", 1)[0].Spec.NodeName)
	w.Cordon(true, "arm64")
	w.Create(builders.Pod("third", "third", builders.OfSize("small")), builders.Pod("large", "large", builders.CPU("1100m"), builders.OfSize("small")))
	assert.Contains(t, testenv.Unschedulable(&w.WaitUnschedulable("third", 1)[0]), `2 node(s) didn't match the node rules of ResourceLimit "`+w.Namespace+`/small"`)
	assert.Contains(t, testenv.Unschedulable(&w.WaitUnschedulable("large", 1)[0]), "cpu request 1100m is above 1")
}

// policySample is the one sample that is about how nodes are scored.
const policySample = "scheduling-policy.yaml"

func TestTheSampleOfPoliciesIsPlacedAsDocumented(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Controller(testenv.Impatient)
	apply(w, policySample)
	nodes := map[string]sets.Set[string]{}
	for policy, workload := range map[string]struct {
		app  string
		pods int
	}{"batch": {"report", 6}, "service": {"storefront", 4}} {
		nodes[policy] = sets.New[string]()
		for _, p := range w.WaitReady(workload.app, workload.pods) {
			assert.Equal(t, corev1.PodRunning, p.Status.Phase, p.Name)
			nodes[policy].Insert(p.Spec.NodeName)
		}
		testenv.WaitFor(w, policy, "it is accepted and governs the pods", func(p *v1alpha1.SchedulingPolicy) bool {
			return p.Status.ObservedGeneration == p.Generation && int(p.Status.PodCount) == workload.pods &&
				meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionAccepted)
		})
	}
	assert.Len(t, nodes["service"], 4, "each pod of the service has a node of its own")
	// One for all, but for a batch pod that was placed before a pod of the service used another node more.
	assert.LessOrEqual(t, nodes["batch"].Len(), 2, "batch pods share nodes")
}

// reservationSample is the one sample that holds capacity before there are pods.
const reservationSample = "reservation.yaml"

func TestTheSampleOfAReservationHoldsTheNodesOfItsPods(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	apply(w, reservationSample)
	held := testenv.WaitFor(w, "checkout", "capacity for two pods is held", func(r *v1alpha1.Reservation) bool {
		return r.Status.HeldCount == 2 && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReserved)
	})
	w.Scale(testenv.Read(w, "checkout", &appsv1.Deployment{}), 2)
	var nodes, of []string
	for _, h := range held.Status.Holds {
		nodes = append(nodes, h.NodeName)
	}
	for _, p := range w.WaitBound("checkout", 2) {
		of = append(of, p.Spec.NodeName)
		assert.Equal(t, "checkout", p.Annotations[v1alpha1.ReservationAnnotation], p.Name)
	}
	assert.ElementsMatch(t, nodes, of, "the pods are on the nodes that were held")
	testenv.WaitFor(w, "checkout", "the capacity is used", func(r *v1alpha1.Reservation) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
		return r.Status.UsedCount == 2 && c.Reason == v1alpha1.ReasonUsed
	})
}

func TestNoSampleIsLeftOut(t *testing.T) {
	entries, err := os.ReadDir(testenv.Path(dir))
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	tested := []string{sizeSample, policySample, reservationSample, recordSample, unitsSample, rolesSample, "environment.yaml", "backup-schedule.yaml", "record-with-addon.yaml"} // the last three by other suites
	for file := range samples {
		tested = append(tested, file)
	}
	require.ElementsMatch(t, files, tested)
}

// apply does what `kubectl apply --server-side --validate=strict` does: the API
// server reads the text as it is in the file, and refuses unknown and
// duplicate fields.
func apply(w *testenv.World, file string) {
	w.T.Helper()
	client, err := dynamic.NewForConfig(w.Cluster.Config())
	require.NoError(w.T, err)
	for _, text := range documents(w.T, filepath.Join(testenv.Path(dir), file)) {
		object := &unstructured.Unstructured{}
		require.NoError(w.T, yaml.Unmarshal(text, &object.Object), "%s", text)
		kind := object.GroupVersionKind()
		mapping, err := w.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(w.T, err)
		require.Equal(w.T, meta.RESTScopeNameNamespace, mapping.Scope.Name(), "%s: samples stay in one namespace", kind.Kind)
		require.Empty(w.T, object.GetNamespace(), "samples go where the user is")
		_, err = client.Resource(mapping.Resource).Namespace(w.Namespace).Patch(w.Ctx, object.GetName(), types.ApplyPatchType, text,
			metav1.PatchOptions{FieldManager: "samples", FieldValidation: metav1.FieldValidationStrict, Force: new(false)})
		require.NoError(w.T, err, "apply %s %s", kind.Kind, object.GetName())
	}
}

// documents returns the YAML documents of a file, as text.
func documents(t *testing.T, path string) [][]byte {
	t.Helper()
	reader := kyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(testenv.ReadFile(t, path))))
	var texts [][]byte
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, texts, "documents of %s", path)
			return texts
		}
		require.NoError(t, err)
		texts = append(texts, text)
	}
}

// recordSample is the one sample that the controller makes the workloads of.
const recordSample = "record.yaml"

func TestTheSampleOfARecordIsDeployedAsDocumented(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.ApplyFiles("manifests/rbac/records", "manifests/templates")
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Controllers = []string{"*", controller.ControllerRecords} })
	apply(w, recordSample)
	testenv.WaitFor(w, "cart", "it is available", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.ObservedGeneration == r.Generation && r.Status.Phase == v1alpha1.PhaseAvailable
	})
	promised := split.New(24, 2)
	for function, want := range map[string]struct {
		workload string
		split    testenv.Split
	}{"add": {"cart-fn-0", testenv.Split{Spot: 2, OnDemand: 8}}, "remove": {"cart-fn-1", testenv.Split{OnDemand: 3}}} {
		found := w.Mix(want.workload)
		require.Equal(t, promised, split.New(found.Spec.SpotPercent, found.Spec.MinOnDemand), "the mix of %s", function)
		pods := w.Pods(client.MatchingLabels{v1alpha1.OwnerLabel: "cart", v1alpha1.FunctionLabel: render.Hash(function)})
		w.RequireExactPods(pods, promised)
		assert.Equal(t, want.split, w.SplitOf(pods), function)
		for _, p := range pods {
			assert.Equal(t, "cart", p.Labels[v1alpha1.ResourceLimitLabel])
			assert.Equal(t, "200m", p.Spec.Containers[0].Resources.Requests.Cpu().String(), "what resourceAllocation has")
		}
		testenv.Read(w, want.workload, &corev1.Service{})
	}
	assert.Equal(t, "128Mi", testenv.Read(w, "cart", &v1alpha1.ResourceLimit{}).Spec.Memory.String())
}
