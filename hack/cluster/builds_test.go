// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEstimateFollowsTheSpeedOfTheMachine(t *testing.T) {
	e := estimate{missing: []string{Etcd, APIServer, ControllerManager}}
	assert.Equal(t, costOf(Etcd)+costOf(APIServer)+costOf(ControllerManager), e.left())
	assert.Equal(t, "kube-apiserver (2 of 3)", e.step(APIServer))
	assert.Equal(t, "kwok", e.step(KWOK), "it is not missing")
	assert.Zero(t, e.leftAt(KWOK))
	e.end(KWOK, time.Hour)
	e.end(Etcd, 3*costOf(Etcd))
	assert.Equal(t, 3*(costOf(APIServer)+costOf(ControllerManager)), e.left(), "three times as slow")
	assert.Equal(t, e.left(), e.leftAt(APIServer))
	e.end(APIServer, 0)
	e.end(ControllerManager, 0)
	assert.Zero(t, e.left())
}

func TestProgressNamesThePlaceAndTheTimeThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		done := reportProgress(&out, "kube-apiserver (2 of 6)", 90*time.Second)
		time.Sleep(63 * time.Second)
		done(nil)
		assert.Equal(t, `building kube-apiserver (2 of 6): 2 s, about a minute left
building kube-apiserver (2 of 6): 22 s, about a minute left
building kube-apiserver (2 of 6): 42 s, less than a minute left
building kube-apiserver (2 of 6): 62 s, less than a minute left
built kube-apiserver (2 of 6) in 63 s
`, out.String())
	})
}

// A program in an archive of this machine is unpacked, not built.
func TestOnlyProgramsThatAreNowhereAreBuilt(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_CACHE", t.TempDir())
	t.Setenv(PrebuiltEnv, "")
	t.Setenv("KUBEBUILDER_ASSETS", "")
	names := []string{Etcd, KWOK, SchedulerProgram}
	missing, err := missingPrograms(root, false, names)
	require.NoError(t, err)
	assert.Equal(t, names, missing)

	kwok, err := locate(KWOK)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(kwok.path), 0o755))
	require.NoError(t, os.WriteFile(kwok.path, nil, 0o755))
	missing, err = missingPrograms(root, false, names)
	require.NoError(t, err)
	assert.Equal(t, []string{Etcd, SchedulerProgram}, missing)

	t.Setenv(PrebuiltEnv, filepath.Join(root, PrebuiltName()))
	missing, err = missingPrograms(root, false, names)
	require.NoError(t, err)
	assert.Equal(t, []string{SchedulerProgram}, missing)
}
