// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var sample = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// A sample with a spec that has a percentage is a CapacityMix, whole or without its head.
func TestTheAPIServerAcceptsTheMixesOfThePage(t *testing.T) {
	w := testenv.New(t)
	mixes := 0
	for _, block := range sample.FindAllStringSubmatch(testenv.ReadFile(t, testenv.Path("docs/workloads.md")), -1) {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(block[1]), &o.Object), block[1])
		if _, is, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "spotPercent"); !is {
			continue
		}
		mixes++
		o.SetGroupVersionKind(builders.CapacityMix("sample", 0, 0).GroupVersionKind())
		o.SetName("sample")
		o.SetNamespace(w.Namespace)
		require.NoError(t, w.Client.Create(w.Ctx, o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)), block[1])
	}
	require.GreaterOrEqual(t, mixes, 5)
}
