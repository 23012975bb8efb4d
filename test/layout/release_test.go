// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

var kindOfCRD = regexp.MustCompile(`(?m)^    kind: (\w+)$`)

// A user who upgrades finds every product on the page of changes, in the form of keepachangelog.com.
func TestTheChangelogNamesEveryKindAndProgram(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	sections := matches(regexp.MustCompile(`(?m)^## (.+)$`), text)
	require.NotEmpty(t, sections)
	assert.Equal(t, "[Unreleased]", sections[0])
	for _, s := range sections[1:] {
		assert.Regexp(t, `^\[v?\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$`, s)
	}
	for _, h := range matches(regexp.MustCompile(`(?m)^### (.+)$`), text) {
		assert.Contains(t, []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, h)
	}
	kinds := kinds(t)
	programs, err := filepath.Glob("../../cmd/*")
	require.NoError(t, err)
	for _, p := range programs {
		kinds.Insert(filepath.Base(p))
	}
	for name := range kinds {
		// SchedulingPolicies has the plural only.
		assert.True(t, strings.Contains(text, strings.TrimSuffix(name, "y")), "CHANGELOG.md names no %s", name)
	}
}

// kinds returns the kinds of the CustomResourceDefinitions.
func kinds(t *testing.T) sets.Set[string] {
	t.Helper()
	found := sets.New(matchesIn(t, "../../manifests/crds", kindOfCRD, func(path string) bool { return strings.Contains(path, "berth.dev_") })...)
	require.Contains(t, found, "CapacityMix")
	return found
}

// A user finds the chart by the kinds that it installs.
func TestTheChartListsItsKinds(t *testing.T) {
	var chart struct {
		Annotations map[string]string `json:"annotations"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "manifests/chart/Chart.yaml")), &chart))
	var listed []struct{ Kind, Version, Name, DisplayName, Description string }
	require.NoError(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &listed))
	all := kinds(t)
	assert.Len(t, listed, all.Len())
	for _, crd := range listed {
		assert.True(t, all.Has(crd.Kind), crd.Kind)
		file := read(t, "manifests/crds/berth.dev_"+strings.TrimSuffix(crd.Name, ".berth.dev")+".yaml")
		assert.Contains(t, file, "\n    kind: "+crd.Kind+"\n")
		assert.Contains(t, file, "\n    name: "+crd.Version+"\n", crd.Kind)
		assert.NotEmpty(t, crd.Description, crd.Kind)
	}
	assert.Equal(t, "Apache-2.0", chart.Annotations["artifacthub.io/license"])
}

// Without a shell of its own, a step of a workflow goes on after a command of a pipe that failed.
func TestAStepWithAPipeFailsWithItsFirstCommand(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	pipes := 0
	for _, f := range files {
		var w struct {
			Jobs map[string]struct {
				Steps []struct{ Name, Shell, Run string } `json:"steps"`
			} `json:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, strings.TrimPrefix(f, "../../"))), &w))
		for _, job := range w.Jobs {
			for _, s := range job.Steps {
				if strings.Contains(s.Run, " | ") {
					pipes++
					assert.Equal(t, "bash", s.Shell, "%s: step %q", f, s.Name)
				}
			}
		}
	}
	assert.NotZero(t, pipes)
}
