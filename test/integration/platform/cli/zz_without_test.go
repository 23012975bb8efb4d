// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/doctor"
)

// The last tests: the scheduler does not get over the loss of a resource.

// Records are off by default: doctor reports on their resources only if there are some.
func TestXDoctorWithHalfOfTheResourcesOfRecords(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctorRights)
	const records, templates = "DeploymentRecord resource", "DeploymentTemplate resource"
	found, _ := findings(w, me)
	assert.Equal(t, []doctor.Level{doctor.OK, doctor.OK}, []doctor.Level{found[records].Level, found[templates].Level})
	w.RemoveCRD("deploymenttemplates")
	w.Eventually("doctor reports that one is missing, which keeps nothing else from working", func() (bool, string) {
		found, err := findings(w, me)
		f := found[templates]
		return err == nil && f.Level == doctor.Warn && strings.Contains(f.Next, "manifests/crds") && found[records].Level == doctor.OK, f.Message
	})
	w.RemoveCRD("deploymentrecords")
	w.Eventually("doctor reports neither", func() (bool, string) {
		found, err := findings(w, me)
		_, one := found[records]
		_, other := found[templates]
		return err == nil && !one && !other && found["mixes"].Level == doctor.OK, ""
	})
	assert.ErrorContains(t, kubectl(w, me, "", "records", "-n", w.Namespace).err, "is Berth installed?")
}

func TestYDoctorWithoutResourceLimits(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctorRights)
	found, _ := findings(w, me)
	assert.Equal(t, doctor.OK, found["ResourceLimit resource"].Level)
	w.RemoveCRD("resourcelimits")
	w.Eventually("doctor reports that the resource is missing, and checks all else", func() (bool, string) {
		found, err := findings(w, me)
		f := found["ResourceLimit resource"]
		return err != nil && f.Level == doctor.Fail && strings.Contains(f.Next, "manifests/crds") && found["mixes"].Level == doctor.OK, f.Message
	})
	r := kubectl(w, user(w, "importer", importer), upstreamFile, "import", "resource-limits", "-f", "-", "-n", w.Namespace)
	require.ErrorIs(t, r.err, command.ErrFailed)
	assert.Contains(t, r.errOut, "is Berth installed?")
}

func TestZDoctorWithoutTheResource(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	me := user(w, "doctor", doctorRights)
	w.RemoveCRD("capacitymixes")
	w.Eventually("doctor reports that the resource is missing", func() (bool, string) {
		found, err := findings(w, me)
		f := found["CapacityMix resource"]
		return err != nil && f.Level == doctor.Fail && strings.Contains(f.Next, "manifests/crds"), f.Message
	})
	r := kubectl(w, me, "", "status", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.errOut, "is Berth installed?")
}
