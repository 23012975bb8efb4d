// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/testenv"
)

// envClock names the file with the seconds by which the clock of a program is wrong.
const envClock = "BERTH_TEST_CLOCK"

// wrongClock has time.Now add the seconds of the file, which is read ten times a second. The monotonic clock stays right, as it does
// where the clock of a host is set.
const wrongClock = `
var wrongBy atomic.Int64

func init() {
	name, _ := syscall.Getenv("` + envClock + `")
	go func() {
		for ; ; Sleep(100 * Millisecond) {
			fd, err := open(name)
			if err != nil {
				continue
			}
			text := make([]byte, 20)
			n, _ := read(fd, text)
			closefd(fd)
			by, sign := int64(0), int64(1)
			for _, c := range text[:n] {
				if c == '-' {
					sign = -1
				} else {
					by = 10*by + int64(c-'0')
				}
			}
			wrongBy.Store(sign * by)
		}
	}()
}

// Now returns`

// withClock builds a program whose clock can be set.
func (r *runner) withClock(program history.Program) string {
	r.T.Helper()
	root, err := exec.CommandContext(r.Ctx, "go", "env", "GOROOT").Output()
	require.NoError(r.T, err)
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	binary, err := builds.Mutant(r.Ctx, testenv.Path("."), os.Stderr, string(program),
		builds.Replacement{File: file, Old: "\t\"math/bits\"\n", New: "\t\"math/bits\"\n\t\"sync/atomic\"\n\t\"syscall\"\n"},
		builds.Replacement{File: file, Old: "\n// Now returns", New: wrongClock},
		builds.Replacement{File: file, Old: "\tmono -= startNano\n\tsec += unixToInternal - minWall\n", New: "\tmono -= startNano\n\tsec += wrongBy.Load() + unixToInternal - minWall\n"},
	)
	require.NoError(r.T, err)
	return binary
}

// The clock of each program is an hour too late, and then an hour too early, while replicas move and the leader changes: what one leader
// has recorded neither holds the next one up nor hurries it.
func TestClocksThatJump(t *testing.T) {
	slow(t)
	r := newRunner(testenv.New(t, nodes(8)...), 0)
	clock := filepath.Join(t.TempDir(), "clock")
	set := func(by time.Duration) {
		require.NoError(t, os.WriteFile(clock+".new", []byte(strconv.Itoa(int(by.Seconds()))), 0o600))
		require.NoError(t, os.Rename(clock+".new", clock))
	}
	set(0)
	for _, program := range []history.Program{history.Scheduler, history.Controller} {
		r.binaries[program], r.env[program] = r.withClock(program), []string{envClock + "=" + clock}
	}
	r.begin(several(split.New(60, 1)))
	r.waitAllSettled(time.Now().Add(settle))
	for i, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		before := len(r.moved())
		r.remixAll(split.New(int32(20+30*(i%2)), 1))
		r.Reaches("moves are in hand", before+1, func() int { return len(r.moved()) })
		set(by)
		r.Reaches("moves go on", before+2, func() int { return len(r.moved()) })
		delete(r.env, history.Controller) // the clock of the next one is right
		testenv.End(r.controllers[r.leader()], true)
		r.restart()
		r.waitAllSettled(time.Now().Add(settle))
		r.env[history.Controller] = []string{envClock + "=" + clock}
	}
	require.Contains(t, testenv.ReadFile(t, r.scheduler.LogPath()), time.Now().Add(-time.Hour).Format("0102 15"), "the clock of the scheduler was wrong")
	r.judged()
}
