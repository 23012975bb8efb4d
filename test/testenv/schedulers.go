// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// startFailureTimeout bounds the wait for a scheduler that is expected to give up.
const startFailureTimeout = 3 * time.Minute

// Config is a scheduler configuration that a test changes.
type Config map[string]any

// RunScheduler starts a scheduler, makes it the one of the world, and kills it at the
// end of the test.
func (w *World) RunScheduler(o cluster.ProgramOptions) *cluster.Scheduler {
	w.T.Helper()
	s := w.StartScheduler(o)
	w.T.Cleanup(func() { Kill(s) })
	w.SetScheduler(s)
	return s
}

// stock has the stock scheduler bind as fast as Berth's does in tests.
const stock = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
profiles:
- schedulerName: default-scheduler
`

// StartStock starts the unchanged kube-scheduler, for pods that name no
// scheduler, beside Berth's, and kills it at the end of the test.
func (w *World) StartStock() *cluster.Scheduler {
	w.T.Helper()
	binary, err := cluster.Binary(w.Ctx, os.Stderr, cluster.StockScheduler)
	require.NoError(w.T, err)
	s := w.StartScheduler(cluster.ProgramOptions{
		Binary: binary, Name: "stock", User: "system:kube-scheduler", ConfigFile: WriteFile(w.T, "stock.yaml", stock),
		LeaderElection: &cluster.LeaderElection{Enabled: new(false)},
	})
	w.T.Cleanup(func() { Kill(s) })
	return s
}

// Kill ends a scheduler with SIGKILL and waits until it is gone.
func Kill(s *cluster.Scheduler) {
	s.Kill()
	<-s.Done()
}

// Variant returns options as SchedulerOptions does, for a profile file with changes.
func (w *World) Variant(profile string, changes ...func(Config)) cluster.ProgramOptions {
	w.T.Helper()
	config := Config{}
	require.NoError(w.T, yaml.Unmarshal([]byte(ReadFile(w.T, Path(profile))), &config))
	for _, change := range changes {
		change(config)
	}
	b, err := yaml.Marshal(config)
	require.NoError(w.T, err)
	o := SchedulerOptions(profile)
	o.ConfigFile = WriteFile(w.T, "config.yaml", string(b))
	return o
}

// Profiles returns the profiles of a configuration.
func (c Config) Profiles() []map[string]any {
	var profiles []map[string]any
	list, _ := c["profiles"].([]any)
	for _, p := range list {
		if profile, ok := p.(map[string]any); ok {
			profiles = append(profiles, profile)
		}
	}
	return profiles
}

// PluginArgs sets arguments of a plugin in every profile that configures it.
func PluginArgs(plugin string, args map[string]any) func(Config) {
	return func(c Config) {
		for _, profile := range c.Profiles() {
			SetPluginArgs(profile, plugin, args)
		}
	}
}

// SetPluginArgs sets arguments of a plugin in one profile.
func SetPluginArgs(profile map[string]any, plugin string, args map[string]any) {
	list, _ := profile["pluginConfig"].([]any)
	for _, e := range list {
		if entry := e.(map[string]any); entry["name"] == plugin {
			maps.Copy(entry["args"].(map[string]any), args)
		}
	}
}

// RequireStartFails starts a scheduler, demands that it ends by itself with an
// exit code other than zero, and returns its output.
func (w *World) RequireStartFails(o cluster.ProgramOptions) string {
	w.T.Helper()
	o.NoWait = true
	s := w.StartScheduler(o)
	w.T.Cleanup(func() { Kill(s) })
	ctx, cancel := context.WithTimeout(w.Ctx, startFailureTimeout)
	defer cancel()
	code, err := s.Wait(ctx)
	require.NoError(w.T, err, "the scheduler gives up by itself; its last lines:\n%s", s.LogTail(10))
	require.Positive(w.T, code, "exit code; last lines:\n%s", s.LogTail(10))
	return s.LogTail(40)
}

// Measured is a program that serves metrics: a scheduler or a controller.
type Measured interface {
	Get(ctx context.Context, path string) ([]byte, error)
}

// Metric returns the sum of a program's samples of a metric that have the labels.
func (w *World) Metric(s Measured, name string, labels map[string]string) int {
	w.T.Helper()
	var text []byte
	// A scheduler that has just started may not have read the authority of the tests' certificate yet.
	w.Succeeds("the metrics are served", func() (err error) {
		text, err = s.Get(w.Ctx, "/metrics")
		return err
	})
	samples := parse(text)
	sum := 0
next:
	for _, sample := range samples[name] {
		for k, v := range labels {
			if string(sample.Metric[testutil.LabelName(k)]) != v {
				continue next
			}
		}
		sum += int(sample.Value)
	}
	return sum
}

// parse reads metrics in the text format; of what it cannot read there are none.
func parse(text []byte) testutil.Metrics {
	samples := testutil.NewMetrics()
	_ = testutil.ParseMetrics(string(text), &samples)
	return samples
}

// Short is how long a test watches that something does not happen.
const Short = 2 * time.Second

// ApplyFiles applies manifests of the repository.
func (w *World) ApplyFiles(relative ...string) {
	w.T.Helper()
	for _, r := range relative {
		require.NoError(w.T, w.Cluster.ApplyFiles(w.Ctx, Path(r)), r)
	}
}

// FreeAddress returns a loopback address that no other caller gets as long as the test process lives.
func (w *World) FreeAddress() string {
	w.T.Helper()
	address, err := cluster.FreeAddress()
	require.NoError(w.T, err)
	return address
}

// RemoveCRD removes the CustomResourceDefinition of a resource of Berth, by its
// plural, with all its objects, and waits until no one serves it. It does not come back by itself.
func (w *World) RemoveCRD(resource string) {
	w.T.Helper()
	crd := CRD(v1alpha1.Resource(resource).String())
	require.NoError(w.T, w.Client.Get(w.Ctx, client.ObjectKeyFromObject(crd), crd))
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	require.NoError(w.T, err)
	w.Delete(crd)
	version := v1alpha1.SchemeGroupVersion.Version
	w.Fails("no API server serves the resource", apierrors.IsNotFound, func() error {
		if err := w.dropFinalizers(v1alpha1.SchemeGroupVersion.WithKind(kind + "List")); err != nil {
			return err
		}
		return w.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, version, resource).Do(w.Ctx).Error()
	})
}

// dropFinalizers takes the finalizers off the objects of a list: the controller that set them may have ended with an earlier test.
func (w *World) dropFinalizers(kind schema.GroupVersionKind) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kind)
	if err := w.Client.List(w.Ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		if list.Items[i].Finalizers = nil; len(before.Finalizers) == 0 {
			continue
		}
		if err := client.IgnoreNotFound(w.Client.Patch(w.Ctx, &list.Items[i], client.MergeFrom(before))); err != nil {
			return err
		}
	}
	return nil
}

// CRD is the CustomResourceDefinition of a name.
func CRD(name string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName(name)
	return crd
}

// CRDFile is the file of the CustomResourceDefinition of a resource of Berth, by its plural.
func CRDFile(resource string) string {
	return "manifests/crds/" + v1alpha1.GroupName + "_" + resource + ".yaml"
}

// RequireWaitsForCRD removes the CustomResourceDefinition of a resource and starts a scheduler. It demands that the scheduler reports
// it, is not ready and binds no pod, until the CustomResourceDefinition is there.
func (w *World) RequireWaitsForCRD(resource string) {
	w.T.Helper()
	w.RemoveCRD(resource)
	w.T.Cleanup(func() { w.ApplyFiles(CRDFile(resource)) })
	o := SchedulerOptions(SecondScheduler)
	o.Name, o.NoWait = "no-"+resource, true
	s := w.RunScheduler(o)
	w.Create(builders.Deployment("early", 5))
	w.WaitLogged(s, "cannot list "+v1alpha1.Resource(resource).String(), "CustomResourceDefinition")
	w.Always(Short, "it is not ready and binds nothing", func() (bool, string) {
		_, err := s.Get(w.Ctx, "/readyz")
		split := w.Split("early")
		return err != nil && split == Split{Pending: 5}, fmt.Sprint(err, split)
	})
	w.ApplyFiles(CRDFile(resource))
	require.NoError(w.T, s.WaitReady(w.Ctx))
	w.WaitBound("early", 5)
}

// RequireGivesUpWithoutCRD demands that a scheduler ends if a resource that a plugin reads is not there in time.
func (w *World) RequireGivesUpWithoutCRD(plugin, resource string) {
	w.T.Helper()
	w.RemoveCRD(resource)
	w.T.Cleanup(func() { w.ApplyFiles(CRDFile(resource)) })
	o := w.Variant(SecondScheduler, PluginArgs(plugin, map[string]any{"syncTimeoutSeconds": 2}))
	o.Name = "gives-up"
	started := time.Now()
	said := w.RequireStartFails(o)
	assert.Less(w.T, time.Since(started), 20*time.Second)
	assert.Contains(w.T, said, "Giving up: "+v1alpha1.Resource(resource).String())
	assert.Contains(w.T, said, "CustomResourceDefinition")
}

// WaitLogged waits until the log of a program has texts.
func (w *World) WaitLogged(p program, texts ...string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("the log has %q", texts), func() (bool, string) {
		return containsAll(ReadFile(w.T, p.LogPath()), texts), p.LogTail(3)
	})
}

// CreateInvalid creates an object of the test's namespace that the rules for its resource refuse, as one is that is older than a rule.
func (w *World) CreateInvalid(resource string, o client.Object) {
	w.T.Helper()
	var crd map[string]any
	require.NoError(w.T, yaml.Unmarshal([]byte(ReadFile(w.T, Path(CRDFile(resource)))), &crd))
	removeRules(crd)
	lax, err := yaml.Marshal(crd)
	require.NoError(w.T, err)
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, string(lax)))
	w.T.Cleanup(func() { w.ApplyFiles(CRDFile(resource)) })
	fresh := func() client.Object { return o.DeepCopyObject().(client.Object) }
	w.Succeeds("the rules are gone", func() error { return w.DryRun(fresh()) })
	w.Create(fresh())
	w.ApplyFiles(CRDFile(resource))
	o.SetName(o.GetName() + "-again")
	w.Fails("the rules are back", apierrors.IsInvalid, func() error { return w.DryRun(fresh()) })
}

// removeRules takes the bounds and the CEL rules out of a schema.
func removeRules(node any) {
	switch n := node.(type) {
	case map[string]any:
		for _, rule := range []string{"x-kubernetes-validations", "minimum", "maximum"} {
			if _, isField := n[rule].(map[string]any); !isField {
				delete(n, rule)
			}
		}
		for _, child := range n {
			removeRules(child)
		}
	case []any:
		for _, child := range n {
			removeRules(child)
		}
	}
}
