// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// previous is the commit before this suite judged moves.
const previous = "4627d2f9fc01867462b6d9fad7cd0ae407bfdb66"

// Both programs are upgraded from an earlier version and downgraded to it again, one replica after the other, while the steps of a seed go
// on.
func TestAnUpgradeAndADowngradeUnderLoad(t *testing.T) {
	slow(t)
	r := newRunner(testenv.New(t, nodes(plan.NodesOfType)...), 7)
	files, err := builds.Files(r.Ctx, testenv.Path("."), previous)
	require.NoError(t, err)
	earlier := map[history.Program]string{}
	earlier[history.Scheduler], err = cluster.BuildScheduler(r.Ctx, files, os.Stderr, false)
	require.NoError(t, err)
	earlier[history.Controller], err = cluster.BuildController(r.Ctx, files, os.Stderr, false)
	require.NoError(t, err)
	configs := map[string]string{environments: earlierConfig(t, withEnvironments)}
	for _, name := range replicas {
		configs[name] = earlierConfig(t, withRecords)
	}
	r.binaries, r.configs = earlier, configs
	const phase = 30
	p := plan.New(r.seed, 3*phase)
	r.begin(p)
	n := 0
	for i := range p.Steps {
		if s := &p.Steps[i]; !s.Fault() {
			r.step(s)
		}
		switch i {
		case phase:
			r.binaries, r.configs = map[history.Program]string{}, nil
			r.replaceAll()
			n++
		case 2 * phase:
			r.binaries, r.configs = earlier, configs
			r.replaceAll()
			n++
		}
	}
	require.Equal(t, 2, n)
	r.judged()
}

// earlierConfig is a configuration without the field that the earlier version does not have.
func earlierConfig(t *testing.T, configure func(*controller.Configuration)) string {
	t.Helper()
	c := controller.Default()
	configure(c)
	text, err := json.Marshal(c)
	require.NoError(t, err)
	fields := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &fields))
	delete(fields, "console")
	text, err = json.Marshal(fields)
	require.NoError(t, err)
	return testenv.WriteFile(t, "earlier.yaml", string(text))
}

// replaceAll replaces the programs, one after the other.
func (r *runner) replaceAll() {
	r.replaceScheduler()
	for _, name := range append(slices.Clone(replicas), environments) {
		r.replaceController(name)
		require.NoError(r.T, r.controllers[name].WaitReady(r.Ctx))
	}
}
