// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/testenv"
)

// place is where commands that begin in some way are run.
type place struct {
	begin *regexp.Regexp
	why   string
}

// elsewhere has, for commands that no test of this package runs, what runs them or what they would need.
var elsewhere = []place{
	{regexp.MustCompile(`^helm `), "test/integration/platform/install TestTheChartsLife runs helm on a chart with the same values"},
	{regexp.MustCompile(`^kind `), "make kind-up creates a cluster of the same file"},
	{regexp.MustCompile(`^(curl|grpcurl|TOKEN=)`), "test/integration/limits/wire and deploymentwire make the same calls; they need a cluster whose Services can be reached"},
	{regexp.MustCompile(`^install `), "writes to a folder of the user's"},
	{regexp.MustCompile(`^kubectl logs -n berth-system POD`), "needs kubelets: test/kind reads the logs of these pods"},
	{regexp.MustCompile(`^kubectl annotate pod -n shop cache-3 `), "needs a workload of a custom kind: test/integration/mix/moves writes the same annotation"},
	{regexp.MustCompile(`^kubectl annotate (deployment web|replicaset -l app=web) berth.dev/spot-percent-`), "needs a Deployment with annotations; it is kubectl's own command"},
	{regexp.MustCompile(`^kubectl berth proxy `), "ends when it is stopped: test/integration/limits/wire runs it, and calls the services through it"},
	{regexp.MustCompile(`^kubectl berth ui\b`), "ends when it is stopped: test/integration/platform/cli opens its pages"},
	{regexp.MustCompile(`^kubectl -n berth-system create secret tls berth-console-tls `), "needs a certificate: test/integration/platform/console serves with one"},
	{regexp.MustCompile(`^kubectl -n berth-system port-forward service/berth-console `), "ends when it is stopped, and needs kubelets"},
	{regexp.MustCompile(`^kubectl create token viewer `), "needs a ServiceAccount of that name: test/integration/platform/console signs in with tokens of some"},
	{regexp.MustCompile(`^kubectl berth explain \S+ --scores`), "needs a pod of that name: test/integration/policies/scheduling shows the scores of one"},
	{regexp.MustCompile(`^kubectl berth env (backup|restore)-database `), "test/integration/environments/lifecycle runs them on a database; here none gets ready"},
}

// Targets of make, packages and tests of go test, and files: whatever a command names is there.
func TestCommandsNameOnlyWhatExists(t *testing.T) {
	makefile := testenv.ReadFile(t, testenv.Path("Makefile"))
	used := make([]bool, len(elsewhere))
	for _, c := range commandsOf(t) {
		words := strings.Fields(assignments.ReplaceAllString(c.text, ""))
		i := elsewhereOf(c)
		if i >= 0 {
			used[i] = true
		}
		switch {
		case words[0] == "make":
			for _, target := range words[1:] {
				if !strings.Contains(target, "=") {
					assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(target)+`:`, makefile, "%s", c)
				}
			}
		case words[0] == "go":
			requireTests(t, c, words)
		case strings.HasPrefix(words[0], "bin/"):
			assert.DirExists(t, testenv.Path("cmd/"+filepath.Base(words[0])), "%s", c)
		case strings.HasPrefix(words[0], "hack/"):
			assert.FileExists(t, testenv.Path(words[0]), "%s", c)
		case words[0] == "kubectl": // TestCommandsRun
		default:
			assert.GreaterOrEqual(t, i, 0, "neither run nor listed as run elsewhere: %s", c)
		}
		for _, word := range words {
			if word = strings.Trim(word, "`'\","); strings.HasPrefix(word, "manifests/") {
				_, err := os.Stat(testenv.Path(word))
				assert.NoError(t, err, "%s", c)
			}
		}
	}
	for i, e := range elsewhere {
		assert.True(t, used[i], "no page has a command like %s", e.begin)
	}
}

// elsewhereOf returns which line of elsewhere a command is of, -1 for none.
func elsewhereOf(c command) int {
	return slices.IndexFunc(elsewhere, func(e place) bool { return e.begin.MatchString(c.text) })
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w*)\(`)

// requireTests demands that the packages of a `go test` exist, and have what -run or -bench names.
func requireTests(t *testing.T, c command, words []string) {
	t.Helper()
	require.Equal(t, "test", words[1], "%s", c)
	var functions []string
	wanted, kind := "", ""
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"):
			dir := testenv.Path(strings.TrimSuffix(word, "/..."))
			assert.DirExists(t, dir, "%s", c)
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			require.NoError(t, err)
			for _, f := range files {
				for _, m := range function.FindAllStringSubmatch(testenv.ReadFile(t, f), -1) {
					functions = append(functions, m[1])
				}
			}
		case word == "-run" && i+1 < len(words) && words[i+1] != "'^$'":
			wanted, kind = words[i+1], "Test"
		case word == "-bench" && i+1 < len(words):
			wanted, kind = words[i+1], "Benchmark"
		}
	}
	if wanted == "" {
		return
	}
	wanted, _, _ = strings.Cut(strings.Trim(wanted, "'"), "/")
	for one := range strings.SplitSeq(wanted, "|") {
		pattern, err := regexp.Compile(one)
		require.NoError(t, err, "%s", c)
		found := false
		for _, f := range functions {
			found = found || strings.HasPrefix(f, kind) && pattern.MatchString(f)
		}
		assert.True(t, found, "no %s… matches %s: %s", kind, one, fmt.Sprint(c))
	}
}
