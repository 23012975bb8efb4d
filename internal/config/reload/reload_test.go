// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
)

func TestTheSameConfigurationChangesNothing(t *testing.T) {
	r, err := Decide(controller.Default(), controller.Default())
	require.NoError(t, err)
	assert.Empty(t, r.TakeEffect)
	assert.Empty(t, r.NeedRestart)
	assert.Equal(t, controller.Default(), r.Configuration)
}

func TestReloadAppliesFieldsAndNamesTheRest(t *testing.T) {
	running, read := controller.Default(), controller.Default()
	running.Namespaces, running.Environments.Quota = []string{"shop"}, map[string]string{"cpu": "4"}
	read.Namespaces, read.Environments.Quota = []string{"shop", "bank"}, map[string]string{"cpu": "4", "memory": "8Gi"}
	read.DryRun, read.Mix.Rebalance.Mode, read.Services.MaxTimeoutSeconds = true, v1alpha1.RebalanceModeOff, 90
	read.Services.RequestLimits.CallsPerCaller = 7
	read.Records.Features.HPA = new(bool)
	asItWas := *running

	r, err := Decide(running, read)
	require.NoError(t, err)
	assert.Equal(t, []Change{
		{"dryRun", false, true},
		{"mix.rebalance.mode", "Evict", "Off"},
		{"services.maxTimeoutSeconds", int64(60), int64(90)},
		{"services.requestLimits.callsPerCaller", int64(100), int64(7)},
	}, r.TakeEffect)
	assert.Equal(t, []Change{
		{"environments.quota.memory", nil, "8Gi"},
		{"namespaces", []any{"shop"}, []any{"shop", "bank"}},
		{"records.features.hpa", nil, false},
	}, r.NeedRestart)
	want := asItWas
	want.DryRun, want.Mix.Rebalance.Mode, want.Services.MaxTimeoutSeconds = true, v1alpha1.RebalanceModeOff, 90
	want.Services.RequestLimits.CallsPerCaller = 7
	assert.Equal(t, &want, r.Configuration)
	assert.Equal(t, &asItWas, running, "it is not changed itself")
}

func TestAFileThatIsValidOnlyAfterARestartIsRefused(t *testing.T) {
	// Every pair of fields of which one bounds the other takes effect together, so no file leads there; a running
	// configuration that is broken replaces one that would.
	running := controller.Default()
	running.ResyncSeconds = 1
	_, err := Decide(running, controller.Default())
	require.ErrorContains(t, err, "the fields that take effect without a restart are not valid without the others: resyncSeconds")
}

// Whatever is changed in a file is either in force afterwards or named as not being so.
func TestNoChangeIsLost(t *testing.T) {
	paths := leaves(t, controller.Default())
	rapid.Check(t, func(t *rapid.T) {
		read, err := unstructuredOf(controller.Default())
		require.NoError(t, err)
		changed := rapid.SliceOfDistinct(rapid.SampledFrom(paths), rapid.ID).Draw(t, "changed")
		for _, path := range changed {
			change(t, read, path)
		}
		c := &controller.Configuration{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(read, c))
		if len(c.Validate()) > 0 {
			t.Skip("would not have been read")
		}
		r, err := Decide(controller.Default(), c)
		require.NoError(t, err)
		var named []string
		for _, ch := range slices.Concat(r.TakeEffect, r.NeedRestart) {
			named = append(named, ch.Field)
		}
		assert.ElementsMatch(t, changed, named)
		for _, ch := range r.TakeEffect {
			assert.Contains(t, Fields, ch.Field)
		}
		// What is left to do when it is read again is what needs a restart.
		again, err := Decide(r.Configuration, c)
		require.NoError(t, err)
		assert.Empty(t, again.TakeEffect)
		assert.Equal(t, r.NeedRestart, again.NeedRestart)
	})
}

// leaves are the paths of the fields of a configuration that are numbers or booleans.
func leaves(t *testing.T, c *controller.Configuration) (paths []string) {
	t.Helper()
	m, err := unstructuredOf(c)
	require.NoError(t, err)
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for key, v := range m {
			switch v := v.(type) {
			case map[string]any:
				walk(prefix+key+".", v)
			case bool, int64:
				paths = append(paths, prefix+key)
			}
		}
	}
	walk("", m)
	slices.Sort(paths)
	return paths
}

func change(t *rapid.T, m map[string]any, path string) {
	at := strings.Split(path, ".")
	v, _, err := unstructured.NestedFieldNoCopy(m, at...)
	require.NoError(t, err)
	switch old := v.(type) {
	case bool:
		v = !old
	case int64:
		v = old + rapid.SampledFrom([]int64{-1, 1, 2}).Draw(t, path)
	}
	require.NoError(t, unstructured.SetNestedField(m, v, at...))
}

func TestFieldsExistAndAreSorted(t *testing.T) {
	require.True(t, slices.IsSorted(Fields), "they are searched")
	m, err := unstructuredOf(controller.Default())
	require.NoError(t, err)
	for _, path := range Fields {
		_, there, err := unstructured.NestedFieldNoCopy(m, strings.Split(path, ".")...)
		require.NoError(t, err, path)
		require.True(t, there, path)
	}
}

func TestTheDocumentationNamesThem(t *testing.T) {
	b, err := os.ReadFile("../../../docs/configuration.md")
	require.NoError(t, err)
	_, section, there := strings.Cut(string(b), "\n## Changes without a restart\n")
	require.True(t, there)
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(section, -1) {
		for _, field := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named = append(named, field[1])
		}
	}
	assert.ElementsMatch(t, Fields, named)
}
