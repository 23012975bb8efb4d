// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/test/clitest"
)

// Without a logger, controller-runtime prints a stack on the terminal 30 s after the start. The first one that is set counts.
func TestEveryCommandSetsTheLoggerOfLibraries(t *testing.T) {
	New(genericiooptions.NewTestIOStreamsDiscard())
	var logged []string
	log.SetLogger(funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	log.Log.Info("from a library")
	assert.Empty(t, logged)
}

// Help and completion are there for every command of the group.
func TestEveryEnvCommandHasHelp(t *testing.T) {
	var env *cobra.Command
	for _, c := range New(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		if c.Name() == "env" {
			env = c
		}
	}
	require.NotNil(t, env)
	names := []string{}
	for _, c := range env.Commands() {
		names = append(names, c.Name())
		assert.NotEmpty(t, c.Short, c.Name())
		assert.NotEmpty(t, c.Long, c.Name())
		assert.Contains(t, c.Example, "kubectl berth env "+c.Name(), c.Name())
		if strings.Contains(c.Use, "NAME") {
			assert.NotNil(t, c.ValidArgsFunction, c.Name())
		}
	}
	assert.ElementsMatch(t, []string{
		"list", "get", "logs", "history", "rollback", "start", "stop", "restart", "scale", "stacks", "create", "backup", "restore", "orphans",
		"backup-database", "database-backups", "restore-database",
	}, names)
}

// run runs a command that needs no cluster.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	var out, errOut bytes.Buffer
	cmd := New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String() + errOut.String(), err
}

func TestEnvCommandsNameTheWrongArgument(t *testing.T) {
	for want, args := range map[string][]string{
		`--spec-label is "team": it must be key=value`:                         {"env", "list", "--spec-label", "team"},
		`--selector is "a in b": `:                                             {"env", "list", "-l", "a in b"},
		`"backend" must be COMPONENT=REPLICAS, such as backend=3`:              {"env", "scale", "x", "backend"},
		`--dry-run is "maybe": it must be none, client or server`:              {"env", "rollback", "x", "--to-revision", "1", "--dry-run", "maybe"},
		`required flag(s) "to-revision" not set`:                               {"env", "rollback", "x"},
		`required flag(s) "filename" not set`:                                  {"env", "restore"},
		`required flag(s) "stack" not set`:                                     {"env", "create", "x"},
		`--stack is "lamp": it must be one of postgres, web-postgres`:          {"env", "create", "x", "--stack", "lamp"},
		`NAME requires one namespace: use -n, not -A`:                          {"env", "backup", "-A", "x"},
		`--include-retained requires --delete`:                                 {"env", "orphans", "--include-retained"},
		`--output is "name": it must be one of table, wide, json, yaml`:        {"env", "history", "x", "-o", "name"},
		`expected 1 name, got 0`:                                               {"env", "get"},
		`unknown flag: --force`:                                                {"env", "start", "x", "--force"},
		`invalid argument "many" for "--to-revision" flag: strconv.ParseInt: `: {"env", "rollback", "x", "--to-revision", "many"},
	} {
		_, err := run(t, args...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}

func TestDatabaseCommandsNameTheWrongArgument(t *testing.T) {
	for want, args := range map[string][]string{
		`--method is "tar": it must be one of auto, dump, snapshot`:           {"backup-database", "x", "--method", "tar"},
		`--size is "much": it must be a quantity such as 10Gi`:                {"backup-database", "x", "--size", "much"},
		`--size is "0": it must be a quantity such as 10Gi`:                   {"backup-database", "x", "--size", "0"},
		`--dry-run is "maybe": it must be none, client or server`:             {"backup-database", "x", "--dry-run", "maybe"},
		`required flag(s) "from" not set`:                                     {"restore-database", "x"},
		`--output is "text": it must be one of table, wide, json, yaml, name`: {"database-backups", "x", "-o", "text"},
		`expected 1 name, got 0`:                                              {"database-backups"},
	} {
		_, err := run(t, append([]string{"env"}, args...)...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}

func TestPoliciesNamesTheWrongArgument(t *testing.T) {
	for want, args := range map[string][]string{
		`kubectl berth policies: unexpected argument "web"`:                   {"web"},
		`--output is "text": it must be one of table, wide, json, yaml, name`: {"-o", "text"},
		`[all-namespaces pod] were all set`:                                   {"-A", "--pod", "web"},
		`[pod selector] were all set`:                                         {"-l", "app=web", "--pod", "web"},
		`--selector is "a in b": `:                                            {"-l", "a in b"},
	} {
		_, err := run(t, append([]string{"policies"}, args...)...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}

func TestReservationsNamesTheWrongArgument(t *testing.T) {
	for want, args := range map[string][]string{
		`kubectl berth reservations: unexpected argument "web"`:               {"web"},
		`--output is "text": it must be one of table, wide, json, yaml, name`: {"-o", "text"},
		`[all-namespaces placeholder] were all set`:                           {"-A", "--placeholder", "web"},
		`[placeholder selector] were all set`:                                 {"-l", "app=web", "--placeholder", "web"},
		`[output placeholder] were all set`:                                   {"-o", "json", "--placeholder", "web"},
		`--selector is "a in b": `:                                            {"-l", "a in b"},
	} {
		_, err := run(t, append([]string{"reservations"}, args...)...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}

func TestExplainNamesTheWrongFlag(t *testing.T) {
	for want, args := range map[string][]string{
		"--attempts requires --scores":            {"web-0", "--attempts", "2"},
		"--attempts is 9: it must be from 1 to 8": {"web-0", "--scores", "--attempts", "9"},
	} {
		_, err := run(t, append([]string{"explain"}, args...)...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}

func TestAnEnvironmentIsPrintedWithoutACluster(t *testing.T) {
	out, err := run(t, "env", "create", "store", "--stack", "postgres", "--display-name", "The Store", "--dry-run=client", "-o", "yaml", "-n", "shop")
	require.NoError(t, err)
	clitest.Golden(t, "create.yaml", out)
	env := &v1alpha1.Environment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(out), env))
	assert.Empty(t, validation.Spec(&env.Spec))
	out, err = run(t, "env", "create", "store", "--stack", "postgres", "--dry-run=client")
	require.NoError(t, err)
	assert.Equal(t, "environment.berth.dev/store created (dry run)\n", out)
}

func TestAWrongCallShowsOneErrorAndTheUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"kubectl berth explain: expected 1 name, got 0\nUsage: kubectl berth explain POD|KIND/NAME [flags]\n" +
			`See "kubectl berth explain --help" for more.`: {"explain"},
		"kubectl berth status: expected at most 1 name, got 2\nUsage: kubectl berth status [MIX|KIND/NAME] [flags]\n":        {"status", "a", "b"},
		"kubectl berth: unknown command \"statu\": did you mean status?\nUsage: kubectl berth [flags]\n":                     {"statu"},
		"kubectl berth env: unknown command \"strt\": did you mean start or stop?\nUsage: kubectl berth env [flags]\n":       {"env", "strt"},
		"kubectl berth import: unknown command \"x\"\nUsage: kubectl berth import [flags]\n":                                 {"import", "x"},
		"kubectl berth env scale: expected at least 2 arguments, got 1\nUsage: kubectl berth env scale NAME":                 {"env", "scale", "shop"},
		"kubectl berth nodes: unknown flag: --unread\nUsage: kubectl berth nodes [flags]\n":                                  {"nodes", "--unread"},
		"kubectl berth env restore: required flag(s) \"filename\" not set\nUsage: kubectl berth env restore -f FILE [flags]": {"env", "restore"},
		"kubectl berth nodes: --output is \"text\": it must be one of table, wide, json, yaml, name\nUsage: kubectl berth":   {"nodes", "-o", "text"},
	} {
		out, err := run(t, args...)
		require.ErrorContains(t, err, want, "%v", args)
		assert.Empty(t, out, "main prints the error once")
	}
}

// each calls a function with each command.
func each(visit func(*cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		visit(cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(New(genericiooptions.NewTestIOStreamsDiscard()))
}

// A command that is added and changes something is in neither list.
func TestEveryCommandThatChangesSomethingHasADryRun(t *testing.T) {
	changing := map[string]bool{
		"env create": true, "env start": true, "env stop": true, "env restart": true, "env scale": true, "env rollback": true, "env restore": true,
		"env backup-database": true, "drain": true, "env restore-database": true, "env orphans": true, "import resource-limits": true, "import records": true,
		"pause": true, "resume": true,
	}
	reading := map[string]bool{
		"": true, "status": true, "explain": true, "history": true, "plan": true, "nodes": true, "savings": true, "suggest": true, "snapshot": true, "doctor": true, "policies": true,
		"reservations": true, "records": true, "records list": true, "records get": true, "records recommendations": true,
		"records history": true, "env": true, "env list": true, "env get": true, "env logs": true, "env history": true, "env stacks": true,
		"env backup": true, "env database-backups": true, "import": true, "proxy": true, "ui": true, "top": true, "version": true,
	}
	each(func(cmd *cobra.Command) {
		words := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "kubectl berth"), " ")
		assert.NotEqual(t, changing[words], reading[words], "%s is in one of the lists", words)
		assert.Equal(t, changing[words], cmd.Flags().Lookup("dry-run") != nil, words)
	})
}

func TestListsHaveTheFlagsOfKubectl(t *testing.T) {
	listing := map[string]bool{"status": true, "nodes": true}
	for words := range lists() {
		listing[words] = true
	}
	each(func(cmd *cobra.Command) {
		if !listing[strings.TrimPrefix(cmd.CommandPath(), "kubectl berth ")] {
			return
		}
		assert.NotNil(t, cmd.Flags().ShorthandLookup("w"), cmd.Name())
		assert.NotNil(t, cmd.Flags().ShorthandLookup("l"), cmd.Name())
		output := cmd.Flags().Lookup("output")
		require.NotNil(t, output, cmd.Name())
		assert.Contains(t, output.Usage, "wide", cmd.Name())
		assert.Contains(t, output.Usage, "name", cmd.Name())
	})
}

func TestColumnsHaveNoSpaceInTheirNames(t *testing.T) {
	files, err := filepath.Glob("../../manifests/crds/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var crd struct {
			Spec struct {
				Versions []struct {
					AdditionalPrinterColumns []struct{ Name string }
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &crd))
		for _, version := range crd.Spec.Versions {
			for _, column := range version.AdditionalPrinterColumns {
				assert.NotContains(t, column.Name, " ", file)
			}
		}
	}
}
