// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestWithoutTheCRDTheSchedulerIsNotReadyAndNamesIt(t *testing.T) {
	w := testenv.New(t, four()...)
	w.RequireWaitsForCRD("resourcelimits")
	// The watch of the resource is live from the first pod on.
	w.Create(builders.Deployment("sized", 2, builders.OfSize("small")))
	waitReason(w, "sized", 2, fmt.Sprintf("0/4 nodes are available: ResourceLimit %q does not exist.", w.Namespace+"/small"))
	w.Create(builders.ResourceLimit("small"))
	requireWoken(w, "sized", 2)
}

func TestWithoutTheCRDTheSchedulerGivesUpAfterTheSyncTimeout(t *testing.T) {
	testenv.New(t).RequireGivesUpWithoutCRD("ResourceLimit", "resourcelimits")
}
