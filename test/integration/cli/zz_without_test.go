// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/test/world"
)

// forget removes a CRD.
func forget(w *world.World, name string) {
	w.T.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName(name)
	require.NoError(w.T, w.Client.Delete(context.Background(), crd))
}

// The last tests: the scheduler does not get over the loss of a resource.

func TestYDoctorWithoutResourceLimits(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctor)
	found, _ := findings(w, me)
	assert.Equal(t, cli.OK, found["ResourceLimit resource"].Level)
	forget(w, "resourcelimits.berth.dev")
	w.Eventually("doctor says that the resource is not there, and looks at all else", func() (bool, string) {
		found, err := findings(w, me)
		f := found["ResourceLimit resource"]
		return err != nil && f.Level == cli.Fail && strings.Contains(f.Next, "manifests/crds") && found["mixes"].Level == cli.OK, f.Message
	})
	r := kubectl(w, user(w, "importer", importer), upstreamFile, "import", "resource-limits", "-f", "-", "-n", w.Namespace)
	require.ErrorIs(t, r.err, cli.ErrFailed)
	assert.Contains(t, r.errOut, "is Berth installed?")
}

func TestZDoctorWithoutTheResource(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctor)
	forget(w, "capacitymixes.berth.dev")
	w.Eventually("doctor says that the resource is not there", func() (bool, string) {
		found, err := findings(w, me)
		f := found["CapacityMix resource"]
		return err != nil && f.Level == cli.Fail && strings.Contains(f.Next, "manifests/crds"), f.Message
	})
	r := kubectl(w, me, "", "status", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.errOut, "is Berth installed?")
}
