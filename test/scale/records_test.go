// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	records           = 1_000
	functionsInRecord = 3
	// recordsIn bounds their first reconciliation, recordsRSS the controller's memory with them, in MB.
	recordsIn  = 3 * time.Minute
	recordsRSS = 150
)

// 1,000 records with 3 functions each, from empty. They have no replicas: it is
// the records that are measured, not the scheduling of 3,000 pods.
func TestAThousandRecordsAreRenderedAndThenLeftAlone(t *testing.T) {
	w := testenv.New(t)
	w.ApplyFiles("manifests/rbac/records", "manifests/templates")
	create(t, w)
	run := func(c *controller.Configuration) {
		testenv.Impatient(c)
		c.Controllers = []string{"*", controller.ControllerRecords}
	}
	began := time.Now()
	c := w.Controller(run)
	reached := func(what string, is func(*v1alpha1.DeploymentRecordStatus) bool) time.Duration {
		// To list a thousand records costs the API server more than to write ten.
		reach(w, "every record is "+what, records, 5*time.Second, func() int { return countRecords(w, is) })
		t.Logf("%d records with %d objects are %s after %s", records, records*functionsInRecord*2, what, time.Since(began).Round(time.Second))
		return time.Since(began)
	}
	took := reached("rendered", func(s *v1alpha1.DeploymentRecordStatus) bool { return len(s.ResourceRefs) == 2*functionsInRecord })
	assert.Less(t, took, recordsIn)
	// That takes as long as the controller manager, which queries the API server for little at a time, needs for 3,000 Deployments.
	reached("available", func(s *v1alpha1.DeploymentRecordStatus) bool { return s.Phase == v1alpha1.PhaseAvailable })
	rss := peakRSS(t, c.PID())
	t.Logf("peak RSS: %d MB", rss)
	assert.Less(t, rss, recordsRSS, "peak RSS in MB")
	testenv.End(c, true)

	writes := func() []testenv.Request {
		return w.Audit(func(r testenv.Request) bool {
			return r.Write() && strings.Contains(r.User, "berth-controller") && !strings.HasPrefix(r.Name, "last") && r.Resource != "events"
		})
	}
	before := len(writes())
	c = w.Controller(run)
	last := recordOf("last")
	w.Create(last) // it comes after all others in the queue
	testenv.WaitFor(w.UpTo(recordsIn), last.Name, "all have been looked at", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.Phase == v1alpha1.PhaseAvailable
	})
	assert.Empty(t, writes()[before:], "a controller that starts again")
	t.Logf("peak RSS of the second: %d MB", peakRSS(t, c.PID()))
}

func recordOf(name string) *v1alpha1.DeploymentRecord {
	r := builders.DeploymentRecord(name, "f0", "f1", "f2")
	r.Spec.DeploymentUnit.ClassKey = "scale." + name
	for i := range r.Spec.DeploymentUnit.Functions {
		f := &r.Spec.DeploymentUnit.Functions[i]
		f.MinScale, f.Config = new(int32(0)), map[string]v1alpha1.ConfigValue{"LOG_LEVEL": "info", "REGION": "eu-central-1"}
	}
	return r
}

func create(t *testing.T, w *testenv.World) {
	t.Helper()
	together(t, records, func(i int) error {
		r := recordOf(fmt.Sprintf("record-%04d", i))
		r.Namespace = w.Namespace
		return w.Client.Create(w.Ctx, r)
	})
}

// together does something n times, 16 at a time.
func together(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	require.NoError(t, g.Wait())
}

// countRecords counts the records whose status, as of their last change, is as configured.
func countRecords(w *testenv.World, is func(*v1alpha1.DeploymentRecordStatus) bool) (n int) {
	w.T.Helper()
	for _, r := range testenv.List(w, &v1alpha1.DeploymentRecordList{}).Items {
		if r.Status.ObservedGeneration == r.Generation && is(&r.Status) {
			n++
		}
	}
	return n
}
