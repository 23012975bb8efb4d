// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/testenv"
)

// After all other tests: Berth's own containers are Ready by their probes, none ended by itself, and the API server refused
// them nothing.
func TestBerthIsHealthy(t *testing.T) {
	w := testenv.New(t)
	for _, program := range programs {
		waitRolledOut(w, program)
		pods := berthPods(w, program)
		require.Len(t, pods, 2)
		for _, p := range pods {
			assert.True(t, testenv.Ready(&p), p.Name)
			if ended := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; ended != nil {
				// The one whose node vanished: its kubelet could not report how it ended.
				assert.Equal(t, "Unknown", ended.Reason, "how %s ended: %+v", p.Name, ended)
			}
			log := logs(w, berthNamespace, p.Name)
			for line := range strings.Lines(log) {
				// A namespace that is being deleted refuses writes: an event about a pod of a test that has ended.
				assert.False(t, strings.Contains(line, "forbidden") && !strings.Contains(line, "because it is being terminated"), "%s: %s", p.Name, line)
			}
			assert.NotContains(t, log, "panic", p.Name)
		}
	}
}
