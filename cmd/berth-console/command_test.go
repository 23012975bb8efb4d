// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/program"
	"berth.dev/berth/internal/mix/pricefeed"
)

const header = "apiVersion: config.berth.dev/v1alpha1\nkind: ControllerConfiguration\n"

// configured runs the command up to where it would serve.
func configured(t *testing.T, file string, args ...string) (*controller.Configuration, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(header+file), 0o600))
		args = append(args, "--config="+path)
	}
	var got *controller.Configuration
	cmd := newCommand(func(feed *pricefeed.Feed) program.Run {
		require.NotNil(t, feed.Now().Book, "prices of files are read before the console is served")
		return func(_ context.Context, c *controller.Configuration, _ program.Source) error {
			got = c
			return nil
		}
	})
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return got, err
}

func TestFlagsOverrideTheFile(t *testing.T) {
	const file = "console: {bindAddress: '127.0.0.1:1', intervalSeconds: 7}\n"
	c, err := configured(t, file)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:1", c.Console.BindAddress)
	assert.EqualValues(t, 7, c.Console.IntervalSeconds)
	c, err = configured(t, file, "--bind-address=127.0.0.1:2")
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:2", c.Console.BindAddress)
	assert.EqualValues(t, 7, c.Console.IntervalSeconds)
}

func TestAnInvalidConfigurationIsRefused(t *testing.T) {
	_, err := configured(t, "")
	require.ErrorContains(t, err, `console.bindAddress is "0"`)
	_, err = configured(t, "console: {bindAddress: ':9445'}\n")
	require.ErrorContains(t, err, "console.bindAddress: Invalid value")
	_, err = configured(t, "console: {bindaddress: ':9445'}\n")
	require.ErrorContains(t, err, "unknown field")
	// More would log the bodies of token reviews.
	_, err = configured(t, "", "--bind-address=127.0.0.1:1", "-v=8")
	require.ErrorContains(t, err, "-v is 8: it must be from 0 to 7")
	_, err = configured(t, "", "--bind-address=127.0.0.1:1", "-v=7")
	require.NoError(t, err)
}

// A file of prices that cannot be used is an error at startup, and when the configuration is validated.
func TestAFileOfPricesThatIsNotValidIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(file, []byte("date: yesterday\n"), 0o600))
	_, err := configured(t, "console: {bindAddress: '127.0.0.1:1'}\n", "--prices="+file)
	require.ErrorContains(t, err, `prices.yaml: date: Invalid value: "yesterday"`)
	_, err = configured(t, "console: {bindAddress: '127.0.0.1:1'}\n", "--discount=100")
	require.ErrorContains(t, err, "--discount is 100")
	_, err = configured(t, "console: {bindAddress: '127.0.0.1:1'}\n", "--validate-config", "--prices="+file)
	require.Error(t, err)
	for want, args := range map[string][]string{
		"--prices-metrics is -":                                  {"--prices-metrics=-"},
		"--prices-metrics and --prices-prometheus are both set":  {"--prices-metrics=http://a/metrics", "--prices-prometheus=http://b"},
		"--prices-token-file and --prices-ca-file require a URL": {"--prices-token-file=token"},
	} {
		_, err = configured(t, "console: {bindAddress: '127.0.0.1:1'}\n", args...)
		require.ErrorContains(t, err, want)
	}
}
