// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// A record is read from its object as it was, to the last bit of a score.
func TestAnObjectHasAllOfItsRecord(t *testing.T) {
	text := rapid.StringN(0, 20, -1)
	number := rapid.Float64Range(-1e6, 1e6)
	rapid.Check(t, func(t *rapid.T) {
		r := &Record{
			ID: text.Draw(t, "id"), Time: began.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "time"))), Namespace: "shop", Pod: "web-0",
			UID: types.UID(text.Draw(t, "uid")), SchedulerName: text.Draw(t, "scheduler"), Policy: text.Draw(t, "policy"),
			Outcome: rapid.SampledFrom([]Outcome{Bound, Unschedulable, BindFailed}).Draw(t, "outcome"), Message: text.Draw(t, "message"),
			Feasible: rapid.IntRange(0, 5000).Draw(t, "feasible"), Node: text.Draw(t, "node"), TieBreaker: text.Draw(t, "tie-breaker"),
			Tied: rapid.IntRange(0, 5000).Draw(t, "tied"), Reservation: text.Draw(t, "reservation"),
		}
		for range rapid.IntRange(0, maxFunctions).Draw(t, "functions") {
			r.Functions = append(r.Functions, Function{text.Draw(t, "function"), rapid.Int32().Draw(t, "priority"), number.Draw(t, "coefficient")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "candidates") {
			c := Candidate{Node: text.Draw(t, "candidate"), Score: number.Draw(t, "score"), Demoted: text.Draw(t, "demoted"), Values: []float64{}}
			for range r.Functions {
				c.Values = append(c.Values, number.Draw(t, "value"))
			}
			r.Candidates = append(r.Candidates, c)
		}
		for range rapid.IntRange(0, 3).Draw(t, "rejections") {
			r.Rejections = append(r.Rejections, Rejection{
				Reason: Reason(text.Draw(t, "reason")), Nodes: rapid.IntRange(0, 5000).Draw(t, "nodes"), Example: text.Draw(t, "example"),
				Message: text.Draw(t, "detail"), Key: text.Draw(t, "key"), Requested: text.Draw(t, "requested"), Available: text.Draw(t, "available"),
			})
		}
		s := NewObjectStore(clocktesting.NewFakePassiveClock(began), nil)
		s.Put(r, time.Minute)
		stored := s.Of("shop", "web-0")[0]
		read := FromObject(Object(stored))
		for i := range read.Candidates { // no list and an empty list are the same
			read.Candidates[i].Values = append([]float64{}, read.Candidates[i].Values...)
		}
		require.Equal(t, stored, read)
	})
}

func TestAnObjectBelongsToItsPod(t *testing.T) {
	o := Object(&Record{Namespace: "shop", Pod: "web-0", UID: "123", Expires: began})
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "123"}}, o.OwnerReferences)
	assert.Equal(t, "web-0", o.Name)
	assert.True(t, o.ExpirationTime.Equal(new(metav1.NewTime(began))))
}

// Objects can be written by others than the scheduler.
func TestAnObjectOfOthersIsRead(t *testing.T) {
	o := &v1alpha1.SchedulingDecision{}
	o.Attempt.Candidates = []v1alpha1.AttemptCandidate{{Score: "NaN", Values: []string{"1e999", "many", "-1.5"}}}
	r := FromObject(o)
	assert.Equal(t, []Candidate{{Score: 0, Values: []float64{0, 0, -1.5}}}, r.Candidates)
	assert.Zero(t, r.Expires)
	assert.Equal(t, int32(math.MaxInt32), count(math.MaxInt64))
	assert.Equal(t, int32(0), count(-1))
}

// A caller that keeps an object for each record gets each pod that has no record any more.
func TestAnObjectStoreReportsWhatItDrops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := clocktesting.NewFakePassiveClock(began)
		objects := map[types.NamespacedName]bool{}
		s := newStore(clock, limits{all: 6, namespace: 3, pod: 1})
		s.dropped = func(pod types.NamespacedName) { delete(objects, pod) }
		for i := range 40 {
			pod := types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"u", "v", "w", "x", "y"}).Draw(t, "pod"),
			}
			id := string(rune('a' + rapid.IntRange(0, 2).Draw(t, "id")))
			s.Put(&Record{Namespace: pod.Namespace, Pod: pod.Name, ID: id}, time.Duration(1+i%7)*time.Second)
			objects[pod] = true
			clock.SetTime(clock.Now().Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond))
			require.Equal(t, s.Len(), len(objects), "records")
			for pod := range objects {
				require.Len(t, s.Of(pod.Namespace, pod.Name), 1)
			}
		}
	})
}
