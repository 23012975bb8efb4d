// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/builders"
)

// The API server accepts what is printed, with its own validation and no unknown field, and nothing was written.
func TestSuggestedMixesAreAcceptedByTheAPIServer(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 1), cluster.Nodes("on-demand", 1)...)...)
	w.Create(
		builders.CapacityMix("held", 50, 1), builders.Deployment("held", 2), builders.Deployment("free", 3),
		builders.Deployment("bound", 4), builders.PodDisruptionBudget("bound", builders.MaxUnavailable("1")),
		builders.Deployment("kept", 2, builders.PodAnnotation(pods.DoNotDisrupt, "true")),
	)
	for app, n := range map[string]int{"held": 2, "free": 3, "bound": 4, "kept": 2} {
		w.WaitReady(app, n)
	}
	me := user(w, "adopter", viewer)
	r := kubectl(w, me, "", "suggest", "-n", w.Namespace, "-o", "yaml").ok(t)
	var names []string
	for _, text := range strings.Split(r.out, "---\n")[1:] {
		mix := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), mix))
		strict := client.WithFieldValidation(w.Client, metav1.FieldValidationStrict)
		require.NoError(t, strict.Create(w.Ctx, mix, client.DryRunAll))
		names = append(names, mix.GetName())
	}
	assert.ElementsMatch(t, []string{"bound", "free"}, names)
	assert.Contains(t, r.out, "maxSpot: 1\n")

	text := kubectl(w, me, "", "suggest", "-n", w.Namespace).ok(t).out
	assert.Contains(t, text, "DoNotDisrupt")
	assert.Contains(t, text, "spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]")
	assert.Contains(t, text, "capacitymix/held")

	var mixes v1alpha1.CapacityMixList
	require.NoError(t, w.Client.List(w.Ctx, &mixes, client.InNamespace(w.Namespace)))
	assert.Len(t, mixes.Items, 1, "nothing was written")
}
