// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// underWay is how long an eviction may take that was decided before what it belongs to was deleted.
const underWay = 2 * time.Second

// assertNoEvictionSince demands that nothing is evicted after a deletion, while the controller reconciles everything twice.
func assertNoEvictionSince(w *testenv.World, deleted time.Time) {
	w.T.Helper()
	w.Always(testenv.Holds, "nothing is evicted", func() (bool, string) {
		for _, e := range w.Evictions() {
			if late := e.At.Sub(deleted); late > underWay {
				return false, late.String() + " later: " + e.String()
			}
		}
		return true, ""
	})
}

func TestADeletedMixEndsItsMoves(t *testing.T) {
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(2)
	m := builders.CapacityMix("web", 70, 2)
	m.Namespace = w.Namespace
	deleted := time.Now()
	w.Delete(m)
	w.UpTo(5 * time.Second).WaitDeleted(m) // it has no finalizer
	assertNoEvictionSince(w, deleted)
	require.Less(t, w.Evicted(), away, "there was something left to do")
	w.WaitReady("web", replicas)
	runs, log := testenv.Runs(c)
	assert.True(t, runs, "the controller ended: %s", log)
}

// A namespace ends in the middle of a move, with the controller and without it.
func TestNothingKeepsANamespaceThatIsDeletedDuringAMove(t *testing.T) {
	for name, killed := range map[string]bool{"the controller runs": false, "the controller is down": true} {
		t.Run(name, func(t *testing.T) {
			w := stray(t, time.Second)
			c := w.Controller(testenv.Impatient)
			w.WaitEvictions(1)
			if killed {
				testenv.End(c, true)
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
			deleted := time.Now()
			w.Delete(ns)
			w.UpTo(30 * time.Second).WaitDeleted(ns)
			t.Logf("the namespace was gone after %s", time.Since(deleted))
			if killed {
				c = w.Controller(testenv.Impatient)
			}
			assertNoEvictionSince(w, deleted)
			runs, log := testenv.Runs(c)
			assert.True(t, runs, "the controller ended: %s", log)
		})
	}
}
