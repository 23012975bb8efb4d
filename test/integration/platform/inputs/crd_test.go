// SPDX-License-Identifier: Apache-2.0

package inputs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	crdFile = "manifests/crds/berth.dev_capacitymixes.yaml"
	crdName = "capacitymixes.berth.dev"
)

// withoutRules takes the bounds and CEL rules out of a schema.
func withoutRules(node any) {
	switch n := node.(type) {
	case map[string]any:
		for _, rule := range []string{"x-kubernetes-validations", "minimum", "maximum"} {
			if _, isField := n[rule].(map[string]any); !isField {
				delete(n, rule)
			}
		}
		for _, child := range n {
			withoutRules(child)
		}
	case []any:
		for _, child := range n {
			withoutRules(child)
		}
	}
}

func TestAMixOlderThanItsValidationRuleGovernsNothing(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(testenv.ReadFile(t, testenv.Path(crdFile))), &crd))
	withoutRules(crd)
	lax, err := yaml.Marshal(crd)
	require.NoError(t, err)
	require.NoError(t, w.Cluster.Apply(w.Ctx, string(lax)))
	t.Cleanup(func() { w.ApplyFiles(crdFile) })
	invalid := func(name string) *v1alpha1.CapacityMix {
		return builders.CapacityMix(name, 150, 0, func(m *v1alpha1.CapacityMix) {
			m.Namespace, m.Spec.Selector = w.Namespace, v1alpha1.PodSelector{}
		})
	}
	w.Eventually("the rules are gone", func() (bool, string) {
		err := w.Client.Create(w.Ctx, invalid("stored"))
		return err == nil, fmt.Sprint(err)
	})
	w.ApplyFiles(crdFile)
	w.Eventually("the rules are back", func() (bool, string) {
		err := w.DryRun(invalid("refused"))
		return apierrors.IsInvalid(err), fmt.Sprint(err)
	})

	s := second(w, nil)
	w.Create(builders.Deployment("web", 5))
	assert.Equal(t, map[string]int{"": 5}, mixSources(w.WaitBound("web", 5)), "it governs nothing")
	w.Eventually("it reports it", func() (bool, string) {
		return len(warnings(w, "stored", v1alpha1.EventReasonInvalidCapacityMix)) > 0, "no event"
	})
	said := warnings(w, "stored", v1alpha1.EventReasonInvalidCapacityMix)
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "spotPercent")
	assert.Contains(t, said[0], "150")
	assert.Equal(t, 1, w.Metric(s, "berth_scheduler_invalid_policies_total", map[string]string{"kind": "capacitymix"}))
	// A valid one governs, although it is younger.
	w.Create(builders.CapacityMix("other", 60, 1, func(m *v1alpha1.CapacityMix) { m.Spec.Selector = v1alpha1.PodSelector{} }))
	w.Create(builders.Deployment("other", 5))
	w.RequireExact("other", split.New(60, 1), 5)
}

// removeCRD removes the CustomResourceDefinition; it is back after the test.
func removeCRD(w *testenv.World) {
	w.T.Helper()
	w.RemoveCRD("capacitymixes")
	w.T.Cleanup(func() { w.ApplyFiles(crdFile) })
}

func TestSchedulerWithoutTheCRDIsNotReadyUntilItIsInstalled(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	removeCRD(w)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Name, o.NoWait = "no-crd", true
	s := w.RunScheduler(o)
	w.Create(builders.Deployment("web", 5))
	w.Eventually("the log names what is missing", func() (bool, string) {
		log := testenv.ReadFile(t, s.LogPath())
		return strings.Contains(log, "cannot list "+crdName) && strings.Contains(log, "CustomResourceDefinition"), s.LogTail(3)
	})
	w.Always(testenv.Short, "it is not ready and binds nothing", func() (bool, string) {
		_, err := s.Get(w.Ctx, "/readyz")
		split := w.Split("web")
		return err != nil && split.Spot+split.OnDemand == 0, fmt.Sprint(err, split)
	})
	w.ApplyFiles(crdFile)
	require.NoError(t, s.WaitReady(w.Ctx))
	w.WaitBound("web", 5)
	w.Create(builders.CapacityMix("mixed", 60, 1), builders.Deployment("mixed", 5))
	w.RequireExact("mixed", split.New(60, 1), 5)
}

func TestWithoutTheCRDTheSchedulerGivesUpAfterTheSyncTimeout(t *testing.T) {
	w := testenv.New(t)
	removeCRD(w)
	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("CapacityMix", map[string]any{"syncTimeoutSeconds": 2}))
	o.Name = "gives-up"
	started := time.Now()
	said := w.RequireStartFails(o)
	assert.Less(t, time.Since(started), 20*time.Second)
	assert.Contains(t, said, "Giving up: "+crdName)
	assert.Contains(t, said, "CustomResourceDefinition")
}
