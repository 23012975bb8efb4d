// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/cli/printers"
)

// watched returns what is printed while the readings of a list follow each other. The last one ends the watch.
func watched(t *testing.T, output string, readings ...func(o *Options) error) (out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	o := &Options{
		IOStreams: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, Output: output, WatchInterval: time.Millisecond,
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	require.NoError(t, o.watch(ctx, func() error {
		defer func() { n++ }()
		if n == len(readings)-1 {
			cancel()
		}
		return readings[min(n, len(readings)-1)](o)
	}))
	return stdout.String(), stderr.String()
}

// rows is a reading of a table with pairs of a name, a state and an age.
func rows(cells ...string) func(o *Options) error {
	return func(o *Options) error {
		t := &printers.Table{Header: []string{"NAMESPACE", "NAME", "STATE", "AGE"}}
		items := []string{}
		for i := 0; i < len(cells); i += 3 {
			t.Add("shop", cells[i], cells[i+1], cells[i+2])
			t.Names = append(t.Names, "mix/"+cells[i])
			items = append(items, cells[i]+" "+cells[i+1])
		}
		return o.PrintList(items, t, "No mixes found.", "a warning")
	}
}

func TestAWatchPrintsTheRowsThatChange(t *testing.T) {
	out, errOut := watched(t, printers.Text,
		rows("a", "Exact", "1s", "b", "Pending", "1s"),
		rows("a", "Exact", "3s", "b", "Pending", "3s"),
		rows("a", "Exact", "5s", "b", "Exact", "5s", "c", "New", "0s"),
		rows("a", "Exact", "7s", "c", "New", "2s"),
	)
	assert.Equal(t, "NAME   STATE     AGE\na      Exact     1s\nb      Pending   1s\nb      Exact     5s\nc      New       0s\n", out)
	assert.Equal(t, "Warning: a warning\nshop/b is gone.\n", errOut, "a warning is printed once")
}

func TestAWatchPrintsNewNames(t *testing.T) {
	out, _ := watched(t, printers.Name, rows("a", "Exact", "1s"), rows("a", "Pending", "3s", "b", "New", "0s"))
	assert.Equal(t, "mix/a\nmix/b\n", out)
}

func TestAWatchPrintsAnObjectAgainWhenItChanges(t *testing.T) {
	out, _ := watched(t, printers.YAML, rows("a", "Exact", "1s"), rows("a", "Exact", "3s"), rows("a", "Pending", "5s"))
	assert.Equal(t, "- a Exact\n- a Pending\n", out)
}

func TestAWatchOutlivesAFailedReading(t *testing.T) {
	failed := func(*Options) error { return errors.New("the server is away") }
	out, errOut := watched(t, printers.Text, rows("a", "Exact", "1s"), failed, failed, rows("a", "Pending", "9s"))
	assert.Equal(t, "NAME   STATE   AGE\na      Exact   1s\na      Pending   9s\n", out)
	assert.Equal(t, "Warning: a warning\nWarning: the server is away\n", errOut)
	o := &Options{}
	require.ErrorContains(t, o.watch(t.Context(), func() error { return failed(o) }), "the server is away", "the first reading has to succeed")
}
