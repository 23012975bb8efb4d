// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

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

func TestRightsAreUsedOrExplainedAndNoneIsMissing(t *testing.T) {
	set := func(list ...string) map[string]bool {
		m := map[string]bool{}
		for _, right := range list {
			m[right] = true
		}
		return m
	}
	refused := map[string]Request{"delete /pods": {User: "u", Verb: "delete", Resource: "pods", Namespace: "n", Name: "p", Code: 403}}
	counted := func(string, *Request) bool { return true }
	why := map[string]string{"list /nodes": "a reason"}
	for name, tc := range map[string]struct {
		rights        Rights
		granted, used map[string]bool
		refused       map[string]Request
		want          string
	}{
		"all used":                      {granted: set("get /pods"), used: set("get /pods", "list /pods")},
		"one unused":                    {granted: set("get /pods", "list /nodes"), used: set("get /pods"), want: `rights of u: "list /nodes" is granted and not used`},
		"one explained":                 {rights: Rights{NeverUsed: why}, granted: set("list /nodes")},
		"explained and used":            {rights: Rights{NeverUsed: why}, granted: set("list /nodes"), used: set("list /nodes"), want: `rights of u: "list /nodes" is used and explained as never used`},
		"used by chance":                {rights: Rights{SometimesUsed: why}, granted: set("list /nodes"), used: set("list /nodes")},
		"not used by chance":            {rights: Rights{SometimesUsed: why}, granted: set("list /nodes")},
		"explained and not granted":     {rights: Rights{SometimesUsed: why}, want: `rights of u: "list /nodes" is explained and not granted`},
		"refused":                       {refused: refused, want: "rights of u: a request was refused: u delete /pods n/p: 403"},
		"refused before it was granted": {used: set("delete /pods"), refused: refused},
		"none may be refused":           {rights: Rights{NoneRefused: true}, used: set("delete /pods"), refused: refused, want: "rights of u: a request was refused: u delete /pods n/p: 403"},
		"used and not granted":          {rights: Rights{Counts: counted}, used: set("get /pods"), want: `rights of u: "get /pods" is used and not granted`},
	} {
		t.Run(name, func(t *testing.T) {
			tc.rights.User = "u"
			err := errors.Join(tc.rights.compare(tc.granted, tc.used, tc.refused)...)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tc.want)
		})
	}
}

func TestTheCoreIsLeftOutWhereItRanBefore(t *testing.T) {
	assert.Empty(t, selection(Options{}))
	t.Setenv(AfterCoreEnv, "1")
	assert.Equal(t, "test.skip", selection(Options{}))
	assert.Empty(t, selection(Options{Rights: []Rights{{}}}), "the rights are those that all tests use")
}

func TestAWaitPollsLessWhereAPollTakesLong(t *testing.T) {
	assert.Equal(t, 100*time.Millisecond, pause(0, 0))
	assert.Equal(t, 500*time.Millisecond, pause(time.Minute, time.Millisecond))
	assert.Equal(t, 4*time.Second, pause(0, time.Second))
	assert.Equal(t, 5*time.Second, pause(0, time.Minute), "a wait that ends is noticed soon")
}

func TestAWaitPollsOnceMoreAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		(&World{T: t}).Within(2*time.Second, "a second passes", func() (bool, string) {
			is := time.Since(began) > time.Second
			time.Sleep(500 * time.Millisecond) // of which the pause is four times as long
			return is, ""
		})
	})
}
