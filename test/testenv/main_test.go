// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyRacesInBerthsOwnCodeAreReported(t *testing.T) {
	const line = "==================\n"
	upstream := line + "WARNING: DATA RACE\nWrite at 0x1 by goroutine 1:\n  k8s.io/kubernetes/pkg/scheduler/framework.(*PodInfo).Update()\n" + line
	ours := line + "WARNING: DATA RACE\nWrite at 0x1 by goroutine 1:\n  berth.dev/berth/plugins/capacitymix/ledger.(*Ledger).Claim()\n" + line
	dir := t.TempDir()
	log := filepath.Join(dir, "berth-scheduler.log")
	require.NoError(t, os.WriteFile(log, []byte("I1121 started berth.dev/berth/x\n"+upstream), 0o600))
	assert.Empty(t, races(dir))
	require.NoError(t, os.WriteFile(log, []byte(upstream+"I1121 between\n"+ours), 0o600))
	require.Len(t, races(dir), 1)
	assert.Contains(t, races(dir)[0], "Ledger")
}
