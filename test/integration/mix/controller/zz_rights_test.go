// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// unused are granted rights that the tests do not exercise, and why they are granted.
var unused = map[string]string{
	"patch /events":                "the recorder counts a repeated event up",
	"get */*/scale":                "it is read of owners of kinds that Berth does not watch",
	"list /services":               ofProfiles,
	"list /replicationcontrollers": ofProfiles,
}

const ofProfiles = "PodTopologySpread asks for them where the scheduler's profile spreads by hard constraints of its own"

// The last test of the package: it looks back at all that the controller asked
// for in the whole run, and exercises the rights that take an occasion.
func TestEveryGrantedRightIsUsedOrExplainedAndNoneIsMissing(t *testing.T) {
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	w.ReadMetricsAsSomebody(c.URL)
	w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	size := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: "size"}} // it is given a finalizer and a status
	w.Create(size)
	young := w.Slots(w.Live("web"))[replicas-1]
	testenv.Patch(w, young, func(p *corev1.Pod) { p.Annotations[v1alpha1.SlotAnnotation] = "0" })

	granted := w.Grants("berth-controller")
	testenv.LeaveOutApplied(granted)
	var used map[string]bool
	missing := func() []string {
		var refused map[string]testenv.Request
		used, refused = w.RightsUsedBy(cluster.BerthControllerUser)
		// What was granted at another time was no want of rights: an API server that has just started knows no roles yet,
		// and a namespace that is being removed takes no more events.
		for right, r := range refused {
			require.True(t, used[right], "a request that was refused, and never granted: %s", r)
		}
		return testenv.Unused(granted, used, unused)
	}
	w.Eventually("every right that is granted is used, or stands in the list above", func() (bool, string) {
		m := missing()
		return len(m) == 0, strings.Join(m, ", ")
	})
	delete(used, "patch /events") // whether an event repeats itself is left to chance
	for right := range unused {
		assert.True(t, granted[right], "%s is explained but not granted", right)
		assert.False(t, used[right], "%s is explained and used", right)
	}
}
