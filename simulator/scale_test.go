// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/sim/scenario"
)

// scaleScenario has nodes of twenty pods, none of which has room for one more, for 30 days. Of 3,500 spot nodes, a thousand are
// interrupted.
const scaleScenario = `
duration: 720h
nodePools:
- {name: spot-a, capacityType: spot, zone: a, nodes: %[1]d, cpu: "10", memory: 40Gi, dollarsPerHour: 0.1, availability: {monthlyInterruptionPercent: 25}}
- {name: spot-b, capacityType: spot, zone: b, nodes: %[1]d, cpu: "10", memory: 40Gi, dollarsPerHour: 0.1, availability: {monthlyInterruptionPercent: 25}}
- {name: on-demand, capacityType: on-demand, zone: a, nodes: %[2]d, cpu: "10", memory: 40Gi, dollarsPerHour: 0.3}
workloads:`

// scaleWorkloads are those of one namespace, which has at most 1,000 mixes.
const scaleWorkloads = `
- namespace: team-%d
  name: web
  copies: %d
  replicas: 10
  cpu: 500m
  memory: 1Gi
  mix: {spotPercent: 70, minOnDemand: 2, rebalance: {provisioning: Placeholder}}
`

// BenchmarkScale simulates 1,000 pods, or as many as BERTH_SIM_PODS has.
func BenchmarkScale(b *testing.B) {
	pods := 1000
	if text := os.Getenv("BERTH_SIM_PODS"); text != "" {
		var err error
		pods, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	text := fmt.Sprintf(scaleScenario, pods/20*35/100, pods/20*30/100)
	for n, left := 0, pods/10; left > 0; n++ {
		copies := min(left, 1000)
		text += fmt.Sprintf(scaleWorkloads, n, copies)
		left -= copies
	}
	s, err := scenario.Parse("scale.yaml", []byte(text), nil)
	require.NoError(b, err)
	for b.Loop() {
		run, err := Run(b.Context(), s, Policies[0], func(time.Duration) {})
		require.NoError(b, err)
		b.ReportMetric(float64(run.Interruptions), "interruptions")
		b.ReportMetric(float64(run.Moves), "moves")
	}
}
