// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWritesAreBoundedForOneAndForAll(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(began)
	r := New(Options{Clock: clock, Tracker: NewTracker()})
	one := types.NamespacedName{Namespace: "shop", Name: "one"}
	assert.Zero(t, r.wait(one))
	assert.Equal(t, writeEvery, r.wait(one), "a write a second")
	clock.SetTime(began.Add(300 * time.Millisecond))
	assert.Equal(t, 700*time.Millisecond, r.wait(one))
	granted := func() (n int) {
		for i := range 1000 {
			if r.wait(types.NamespacedName{Name: fmt.Sprint(i)}) == 0 {
				n++
			}
		}
		return n
	}
	assert.InDelta(t, writesAtOnce, 1+granted(), 10, "of all")
	clock.SetTime(began.Add(time.Minute))
	assert.InDelta(t, writesAtOnce, granted(), 0, "no more than at once, however long nothing was written")
	r.statuses.Forget(one)
	assert.Equal(t, writeEvery, r.wait(one), "it waits for its turn, too")
}
