// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/kube/leaderguard"
)

// What the lease, or any other client, sets in its configuration is not set in that of the others.
func TestAClientDoesNotChangeTheConfigOfOthers(t *testing.T) {
	for name, elects := range map[string]bool{"with a lease": true, "without a lease": false} {
		t.Run(name, func(t *testing.T) {
			c := controller.Default()
			c.LeaderElection.Enabled, c.LeaderElection.Namespace = elects, "n"
			c.Metrics.BindAddress, c.Health.BindAddress = "0", "0"
			o, err := managerOptions(c)
			require.NoError(t, err)
			given := &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "berth-controller/test"}
			mgr, err := newManager(given, o, leaderguard.New(clock.RealClock{}))
			require.NoError(t, err)
			assert.Equal(t, &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "berth-controller/test"}, given)

			first := mgr.GetConfig()
			assert.Equal(t, "berth-controller/test", first.UserAgent)
			assert.Zero(t, first.Timeout, "a watch has no end, and a list takes as long as it takes")
			assert.NotNil(t, first.WrapTransport, "the fence")
			first.UserAgent, first.Timeout = "another", time.Second
			second := mgr.GetConfig()
			assert.Equal(t, "berth-controller/test", second.UserAgent)
			assert.Zero(t, second.Timeout)
		})
	}
}
