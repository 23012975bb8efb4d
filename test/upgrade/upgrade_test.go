// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/testenv"
)

// The programs of this version take over a cluster with workloads, and those of the earlier one take it back. Neither moves a pod,
// loses a slot or writes an object that no one changed, and both scale exactly. The exception are records: they roll out once.
func TestAnUpgradeAndARollbackChangeNothing(t *testing.T) {
	earlier, this := versions(t)
	s := install(t, earlier)
	s.populate()
	s.replaceBy(this, 1.5)
	s.scaleAll("upgraded")
	s.replaceBy(earlier, 1)
	s.scaleAll("rolled-back")
	s.remove()
	s.last.remove()
}

// replaceBy replaces the running programs as an upgrade of the chart does: the manifests are applied, the other programs start and
// wait as standbys, and then these end. It demands that nothing has changed once every controller has scaled what comes last in its queue.
func (s *site) replaceBy(next version, factor float64) {
	s.T.Helper()
	before, since := s.settled(), time.Now()
	assert.Subset(s.T, before.resources(), written)
	previous := s.running
	s.apply(next, previous.webhook)
	s.running = s.start(next, s.FreeAddress())
	s.applyWebhook(next, s.running.webhook)
	previous.end()
	s.leads()
	s.last.scale(factor)
	s.Always(testenv.Holds, "the programs run", s.run)
	assert.Empty(s.T, s.lasting(before).changes(s.lasting(s.objects())), "objects")
	assert.Empty(s.T, s.writes(before, since), "requests to write")
	now := s.settled()
	for _, resource := range []string{"deploymentrecords.berth.dev", "capacitymixes.berth.dev", "deployments.apps", "services"} {
		k := key(resource, s.Namespace, s.record.Name)
		require.Contains(s.T, before, k)
		require.Contains(s.T, now, k)
		assert.Equal(s.T, unmarked(before[k]), unmarked(now[k]), "only the labels of the original, the probe and HTTP_PORT may differ: %s", k)
	}
}

// scaleAll scales everything up and down.
func (s *site) scaleAll(name string) {
	s.T.Helper()
	for _, factor := range []float64{1.6, 0.4, 1} {
		s.scale(factor)
	}
	s.scaleBare(name)
	s.job("job-" + name)
}
