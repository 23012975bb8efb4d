// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	crdFile = "manifests/crds/berth.dev_resourcelimits.yaml"
	crdName = "resourcelimits.berth.dev"
)

// removeCRD removes the CustomResourceDefinition; it is back after the test.
func removeCRD(w *testenv.World) {
	w.T.Helper()
	w.RemoveCRD("resourcelimits")
	w.T.Cleanup(func() { w.ApplyFiles(crdFile) })
}

func TestWithoutTheCRDTheSchedulerIsNotReadyAndSaysWhatIsMissing(t *testing.T) {
	w := testenv.New(t, four()...)
	removeCRD(w)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Name, o.NoWait = "no-limits-crd", true
	s := w.RunScheduler(o)
	w.Create(builders.Deployment("web", 2))
	w.Eventually("the log names what is missing", func() (bool, string) {
		return strings.Contains(testenv.ReadFile(t, s.LogPath()), "cannot list "+crdName), s.LogTail(3)
	})
	w.Always(testenv.Short, "it is not ready and binds nothing", func() (bool, string) {
		_, err := s.Get(w.Ctx, "/readyz")
		split := w.Split("web")
		return err != nil && split.Pending == 2, fmt.Sprint(err, split)
	})
	w.ApplyFiles(crdFile)
	require.NoError(t, s.WaitReady(w.Ctx))
	w.WaitBound("web", 2)
	// The watch of the resource is live from the first pod on.
	w.Create(builders.Deployment("sized", 2, builders.OfSize("small")))
	waitReason(w, "sized", 2, fmt.Sprintf("0/4 nodes are available: ResourceLimit %q does not exist.", w.Namespace+"/small"))
	w.Create(builders.ResourceLimit("small"))
	requireWoken(w, "sized", 2)
}

func TestWithoutTheCRDTheSchedulerGivesUpAfterTheSyncTimeout(t *testing.T) {
	w := testenv.New(t)
	removeCRD(w)
	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("ResourceLimit", map[string]any{"syncTimeoutSeconds": 2}))
	o.Name = "gives-up"
	started := time.Now()
	said := w.RequireStartFails(o)
	assert.Less(t, time.Since(started), 20*time.Second)
	assert.Contains(t, said, "Giving up: "+crdName)
}
