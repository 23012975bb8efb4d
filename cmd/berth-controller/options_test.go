// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/program"
)

const header = "apiVersion: config.berth.dev/v1alpha1\nkind: ControllerConfiguration\n"

// configured runs the command up to where it would start, and returns the configuration that results.
func configured(t *testing.T, file string, args ...string) (*controller.Configuration, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(header+file), 0o600))
		args = append([]string{"--config=" + path}, args...)
	}
	var got *controller.Configuration
	cmd := newCommand(func(_ context.Context, c *controller.Configuration, _ program.Source) error {
		got = c
		return nil
	})
	cmd.SetArgs(args)
	cmd.SetErr(io.Discard)
	return got, cmd.ExecuteContext(t.Context())
}

func TestFlagWinsOverFileOverDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args []string
		want func(*controller.Configuration)
	}{
		"neither file nor flags": {want: func(*controller.Configuration) {}},
		"the file alone": {
			file: "resyncSeconds: 45\nleaderElection: {enabled: false}\n",
			want: func(c *controller.Configuration) { c.ResyncSeconds, c.LeaderElection.Enabled = 45, false },
		},
		"a flag over the file, and the rest of the file stays": {
			file: "resyncSeconds: 45\ndryRun: true\nnamespaces: [a]\n",
			args: []string{"--resync-interval=1m30s", "--namespaces=b,c", "--namespaces=d"},
			want: func(c *controller.Configuration) {
				c.ResyncSeconds, c.DryRun, c.Namespaces = 90, true, []string{"b", "c", "d"}
			},
		},
		"a flag with the default's value still wins": {
			file: "resyncSeconds: 45\nmetrics: {secure: false}\ndryRun: true\n",
			args: []string{"--resync-interval=30s", "--metrics-secure", "--dry-run=false"},
			want: func(*controller.Configuration) {},
		},
		"a value of the file that is not valid, overridden by a flag": {
			file: "resyncSeconds: 1\n", args: []string{"--resync-interval=30s"},
			want: func(*controller.Configuration) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configured(t, tc.file, tc.args...)
			require.NoError(t, err)
			want := controller.Default()
			tc.want(want)
			require.Equal(t, want, got)
		})
	}
}

// A flag that is registered but forgotten in fields would be taken and do nothing.
func TestEveryFlagHasItsEffect(t *testing.T) {
	values := map[string]string{
		"dry-run": "true", "kubeconfig": "/k", "leader-elect": "false", "leader-elect-namespace": "n", "namespaces": "n",
		"metrics-bind-address": ":1", "metrics-secure": "false", "health-probe-bind-address": ":2", "resync-interval": "7s",
		"controllers": "*,records", "scheduler-config": "/s", "webhook": "true", "webhook-bind-address": ":3",
	}
	notConfiguration := map[string]bool{"config": true, "validate-config": true, "log-format": true, "v": true, "help": true, "version": true}
	newCommand(nil).Flags().VisitAll(func(f *pflag.Flag) {
		if notConfiguration[f.Name] {
			return
		}
		require.Contains(t, values, f.Name)
		got, err := configured(t, "", "--"+f.Name+"="+values[f.Name])
		require.NoError(t, err)
		require.NotEqual(t, controller.Default(), got, f.Name)
		delete(values, f.Name)
	})
	require.Empty(t, values, "no longer flags")
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args []string
		want string
	}{
		"a resync of 4s":                  {args: []string{"--resync-interval=4s"}, want: "resyncSeconds: Invalid value: 4: must be at least 5"},
		"the same in the file":            {file: "resyncSeconds: 4\n", want: "resyncSeconds: Invalid value: 4: must be at least 5"},
		"a resync of half seconds":        {args: []string{"--resync-interval=5500ms"}, want: "5.5s is not a whole number of seconds"},
		"a resync without a unit":         {args: []string{"--resync-interval=30"}, want: "missing unit"},
		"an unknown field":                {file: "resync: 5\n", want: `unknown field "resync"`},
		"all that is wrong, not only one": {file: "resyncSeconds: 4\nclientConnection: {qps: 0}\n", want: "must be at least 5; clientConnection.qps"},
		"a file that is not there":        {args: []string{"--config=/no/such/file"}, want: "/no/such/file"},
		"an unknown flag":                 {args: []string{"--nope"}, want: "unknown flag: --nope (see berth-controller --help)"},
		"an argument":                     {args: []string{"start"}, want: `"start"`},
		"an unknown log format":           {args: []string{"--log-format=xml"}, want: `--log-format is "xml": it must be text or json`},
		"a negative verbosity":            {args: []string{"-v=-1"}, want: "-v is -1: it must be from 0 to 10"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configured(t, tc.file, tc.args...)
			require.ErrorContains(t, err, tc.want)
			require.Nil(t, got, "it must not start")
		})
	}
}

func output(t *testing.T, arg string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand(nil)
	cmd.SetArgs([]string{arg})
	cmd.SetOut(&out)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return out.String()
}

func TestHelpShowsTheFlagsInGroupsWithTheirDefaults(t *testing.T) {
	help := output(t, "--help")
	for _, want := range []string{
		`(?s)Configuration flags:.*--config string.*Controllers flags:.*--dry-run.*Leader election flags:.*Serving flags:.*API server flags:.*Logging flags:`,
		`--resync-interval duration .*at least 5s\. \(default 30s\)`,
		`--dry-run .*\(default false\)`,
		`--leader-elect .*\(default true\)`,
		`--metrics-bind-address string .*\(default ":8443"\)`,
		`--metrics-secure .*\(default true\)`,
		`--health-probe-bind-address string .*\(default ":8081"\)`,
		`--log-format string .*\(default "text"\)`,
		`-v, --v int .*\(default 0\)`,
		`-h, --help`,
	} {
		require.Regexp(t, regexp.MustCompile(want), help)
	}
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^berth-controller \S+ go1\.\S+ \w+/\w+\n$`, output(t, "--version"))
}

func TestValidateConfigEndsBeforeTheStart(t *testing.T) {
	for file, want := range map[string]string{
		"resyncSeconds: 45\n": "", "environments: {spotPercent: 101}\n": "environments.spotPercent: Invalid value: 101",
		"environments: {spotpercent: 1}\n": `unknown field "environments.spotpercent"`,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(header+file), 0o600))
		var out bytes.Buffer
		cmd := newCommand(func(context.Context, *controller.Configuration, program.Source) error {
			t.Error("it starts")
			return nil
		})
		cmd.SetArgs([]string{"--config", path, "--validate-config"})
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "The configuration is valid.\n", out.String())
	}
}

func TestTheConsoleIsServedByAnotherProgram(t *testing.T) {
	_, err := configured(t, "console: {bindAddress: '127.0.0.1:9445'}\n")
	require.ErrorContains(t, err, "only berth-console serves the console")
}
