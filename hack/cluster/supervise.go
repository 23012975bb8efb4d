// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// supervisor runs "$@" again whenever it ends, as a kubelet restarts a container: Berth's programs end when they lose
// their lease, as on a busy machine, and a cluster that stays would place nothing from then on. The pause doubles from 1 s
// to 1 min, and is 1 s again after a run of 10 min. $0 is a file for the number of restarts. A program that ends within the
// first seconds of its first run is not started again: its configuration is wrong, and the caller waits for its end.
const supervisor = `
pause=1 runs=0
while :; do
	begun=$(date +%s)
	"$@"
	code=$?
	lasted=$(($(date +%s) - begun))
	runs=$((runs + 1))
	[ $runs -eq 1 ] && [ $lasted -lt 2 ] && exit $code
	[ $lasted -ge 600 ] && pause=1
	echo "berth-cluster: exit code $code after $lasted s; starting again in $pause s"
	echo $runs >"$0"
	sleep $pause
	pause=$((pause * 2 > 60 ? 60 : pause * 2))
done`

// supervised returns the program under a supervisor, which the shell runs in the process group of the program.
func supervised(spec ProcessSpec, restarts string) ProcessSpec {
	spec.Args = append([]string{"-c", supervisor, restarts, spec.Path}, spec.Args...)
	spec.Path = "/bin/sh"
	return spec
}

func restartsFile(dir, name string) string { return filepath.Join(dir, name+".restarts") }

// Restarts returns how often a supervised program of the detached cluster in a directory has been started again.
func Restarts(dir, name string) int {
	b, err := os.ReadFile(restartsFile(dir, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // the supervisor writes a number
	return n
}
