// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
)

// The last tests: the scheduler does not get over the loss of a resource.

func TestYDoctorWithoutResourceLimits(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctor)
	found, _ := findings(w, me)
	assert.Equal(t, cli.OK, found["ResourceLimit resource"].Level)
	w.RemoveCRD("resourcelimits")
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
	w.RemoveCRD("capacitymixes")
	w.Eventually("doctor says that the resource is not there", func() (bool, string) {
		found, err := findings(w, me)
		f := found["CapacityMix resource"]
		return err != nil && f.Level == cli.Fail && strings.Contains(f.Next, "manifests/crds"), f.Message
	})
	r := kubectl(w, me, "", "status", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.errOut, "is Berth installed?")
}
