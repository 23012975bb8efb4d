// SPDX-License-Identifier: Apache-2.0

// Package gates_test is about pods with the scheduling gate of Berth, which get
// their slot before they are scheduled, by any scheduler.
package gates_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{})) }

// stock is the configuration of a scheduler without any plugin of Berth.
const stock = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
profiles:
- schedulerName: default-scheduler
`

// newWorld is a world with the stock scheduler beside Berth's.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *world.World {
	t.Helper()
	w := world.New(t, nodes...)
	o := world.SchedulerOptions(world.SecondScheduler)
	o.Name, o.ConfigFile = "stock", filepath.Join(t.TempDir(), "stock.yaml")
	require.NoError(t, os.WriteFile(o.ConfigFile, []byte(stock), 0o600))
	s := w.StartScheduler(o)
	t.Cleanup(func() { world.Kill(s) })
	return w
}

// byDefault has the stock scheduler place a template's pods.
func byDefault(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = corev1.DefaultSchedulerName }
