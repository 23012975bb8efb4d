// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// kept is a record in the model of a store: a list, oldest first.
type kept struct {
	record  *Record
	expires time.Time
}

type model struct {
	limits limits
	list   []kept
}

func (m *model) put(r *Record, now time.Time, ttl time.Duration) {
	m.expire(now)
	for i, k := range m.list {
		if k.record.Namespace == r.Namespace && k.record.Pod == r.Pod && k.record.ID == r.ID {
			m.list[i] = kept{r, now.Add(ttl)}
			return
		}
	}
	m.list = append(m.list, kept{r, now.Add(ttl)})
	m.trim(m.limits.pod, func(k kept) bool { return k.record.Namespace == r.Namespace && k.record.Pod == r.Pod })
	m.trim(m.limits.namespace, func(k kept) bool { return k.record.Namespace == r.Namespace })
	m.trim(m.limits.all, func(kept) bool { return true })
}

func (m *model) expire(now time.Time) {
	m.list = slices.DeleteFunc(m.list, func(k kept) bool { return !k.expires.After(now) })
}

// trim drops the oldest of a scope until it has no more than most.
func (m *model) trim(most int, in func(kept) bool) {
	n := 0
	for _, k := range slices.Backward(m.list) {
		if in(k) {
			n++
		}
	}
	for i := 0; n > most; {
		if in(m.list[i]) {
			m.list, n = slices.Delete(m.list, i, i+1), n-1
		} else {
			i++
		}
	}
}

func (m *model) of(namespace, pod string) (messages []string) {
	for _, k := range slices.Backward(m.list) {
		if k.record.Namespace == namespace && k.record.Pod == pod {
			messages = append(messages, k.record.ID+k.record.Message)
		}
	}
	return messages
}

func TestAStoreKeepsWhatAPlainListWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := clocktesting.NewFakePassiveClock(began)
		l := limits{
			all: rapid.IntRange(1, 12).Draw(t, "all"), namespace: rapid.IntRange(1, 8).Draw(t, "per namespace"), pod: rapid.IntRange(1, 4).Draw(t, "per pod"),
		}
		s, m := newStore(clock, l), &model{limits: l}
		namespaces, pods := []string{"a", "b", "c"}, []string{"x", "y"}
		steps := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				steps++
				r := &Record{
					Namespace: rapid.SampledFrom(namespaces).Draw(t, "namespace"), Pod: rapid.SampledFrom(pods).Draw(t, "pod"),
					ID: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id")), Message: fmt.Sprint(" ", steps),
				}
				ttl := time.Duration(rapid.IntRange(-1, 20).Draw(t, "ttl")) * time.Second
				s.Put(r, ttl)
				m.put(r, clock.Now(), ttl)
			},
			"wait": func(t *rapid.T) {
				clock.SetTime(clock.Now().Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second))
			},
			"": func(t *rapid.T) {
				m.expire(clock.Now())
				require.Equal(t, len(m.list), s.Len())
				for _, namespace := range namespaces {
					for _, pod := range pods {
						var got []string
						for _, r := range s.Of(namespace, pod) {
							got = append(got, r.ID+r.Message)
						}
						require.Equal(t, m.of(namespace, pod), got)
					}
				}
				require.Len(t, s.expiry, len(m.list))
				require.LessOrEqual(t, len(s.namespaces), len(m.list), "namespaces without records are removed")
				require.LessOrEqual(t, len(s.pods), len(m.list), "pods without records are removed")
			},
		})
	})
}

func TestRecordsExpire(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(began)
	s := NewStore(clock)
	s.Put(&Record{Namespace: "shop", Pod: "web-0", ID: "1"}, time.Hour)
	s.Put(&Record{Namespace: "shop", Pod: "web-0", ID: "2"}, time.Minute)
	clock.SetTime(began.Add(time.Minute - 1))
	assert.Len(t, s.Of("shop", "web-0"), 2)
	clock.SetTime(began.Add(time.Minute))
	records := s.Of("shop", "web-0")
	require.Len(t, records, 1, "a record with a longer time stays, although it is older")
	assert.Equal(t, "1", records[0].ID)
	clock.SetTime(began.Add(time.Hour))
	assert.Empty(t, s.Of("shop", "web-0"))
	assert.Zero(t, s.Len())
	assert.Empty(t, s.pods)
}

// The plugin reports the selected node before the pod is bound, and the outcome afterwards.
func TestARecordIsReplacedByOneWithTheSameID(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(began)
	s := NewStore(clock)
	r := &Record{Namespace: "shop", Pod: "web-0", ID: "1", Outcome: Reserved}
	s.Put(r, time.Minute)
	before := s.Of("shop", "web-0")[0]
	s.Put(&Record{Namespace: "shop", Pod: "web-0", ID: "2", Outcome: Reserved}, time.Minute)
	s.Put(&Record{Namespace: "other", Pod: "web-0", ID: "1", Outcome: Reserved}, time.Minute)
	r.Outcome = Bound
	s.Put(r, time.Hour)
	assert.Equal(t, Reserved, before.Outcome, "a record that was read does not change")
	clock.SetTime(began.Add(time.Minute))
	records := s.Of("shop", "web-0")
	require.Len(t, records, 1, "the time of the new one counts")
	assert.Equal(t, Bound, records[0].Outcome)
	assert.Empty(t, s.Of("other", "web-0"), "IDs of different pods can be equal")
}

func TestANamespaceDoesNotPushOutOthers(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(began))
	s.Put(&Record{Namespace: "quiet", Pod: "web-0", ID: "1"}, time.Hour)
	for i := range 3 * MaxRecords {
		s.Put(&Record{Namespace: "busy", Pod: fmt.Sprint(i), ID: "1"}, time.Hour)
	}
	assert.Len(t, s.Of("quiet", "web-0"), 1)
	assert.Equal(t, MaxPerNamespace+1, s.Len())
	for i := range 2 * MaxPerPod {
		s.Put(&Record{Namespace: "quiet", Pod: "web-0", ID: fmt.Sprint(i)}, time.Hour)
	}
	records := s.Of("quiet", "web-0")
	require.Len(t, records, MaxPerPod)
	assert.Equal(t, fmt.Sprint(2*MaxPerPod-1), records[0].ID)
	for i := range 2 * MaxRecords {
		s.Put(&Record{Namespace: fmt.Sprint(i), Pod: "web-0", ID: "1"}, time.Hour)
	}
	assert.Equal(t, MaxRecords, s.Len())
}

func TestStringsAndListsOfARecordAreBounded(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(began))
	long := strings.Repeat("x", maxMessage-1) + "é" + strings.Repeat("x", 1<<20)
	r := &Record{
		Namespace: "shop", Pod: "web-0", ID: long, Message: long, Policy: long, UID: types.UID(long), Node: long,
		Functions:  slices.Repeat([]Function{{Name: long}}, 100),
		Candidates: slices.Repeat([]Candidate{{Node: long, Demoted: long, Values: make([]float64, 100)}}, 100),
		Rejections: slices.Repeat([]Rejection{{Reason: Reason(long), Message: long, Key: long, Example: long, Requested: long, Available: long}}, 100),
	}
	s.Put(r, time.Hour)
	assert.Len(t, r.Message, len(long), "that of the caller is not changed")
	assert.Len(t, r.Candidates[0].Demoted, len(long))
	got := s.Of("shop", "web-0")[0]
	assert.Equal(t, long[:maxMessage-1], got.Message, "it ends between characters")
	assert.Equal(t, long[:maxMessage-1], got.Rejections[15].Message)
	for _, name := range []string{got.ID, got.Policy, string(got.UID), got.Node, got.Functions[0].Name, got.Candidates[0].Node, string(got.Rejections[0].Reason), got.Rejections[0].Key} {
		assert.Len(t, name, maxName)
	}
	assert.Len(t, got.Candidates[49].Demoted, maxDemoted)
	assert.Len(t, got.Candidates[49].Values, maxFunctions)
	assert.Equal(t, []int{maxFunctions, maxCandidates, maxRejections}, []int{len(got.Functions), len(got.Candidates), len(got.Rejections)})

	invalid := strings.Repeat("\x80", 2*maxMessage)
	shorten(maxMessage, &invalid)
	assert.GreaterOrEqual(t, len(invalid), maxMessage-utf8.UTFMax)
	short := "é"
	shorten(2, &short)
	assert.Equal(t, "é", short)
}

// The heap that a full store takes. The memory limit of the scheduler has to include it.
const (
	heapOfCandidates = 96 << 20
	// heapOfBounds is for records with every string and list at its bound, which no plugin writes: an attempt has
	// candidates or rejections, and nodes share the reason for which they are demoted.
	heapOfBounds = 320 << 20
)

// functions, values and nodes are those of all records of the tests. A store has copies of its own, but for strings.
var (
	functions = []Function{
		{"Spreading", 10, 3}, {"Binpacking", 10, 3}, {"AntiAffinity", 1, 1}, {"TopologySpread", 1, 1}, {"ResourceBalance", 1, 0.5}, {"PreferredAffinity", 1, 1},
	}
	values = []float64{1, 2, 3, 4, 5, 6}
	nodes  = strings.Repeat(strings.Repeat("n", 63), maxCandidates)
)

// recordOf is an attempt with as many candidates as a policy can request, with node names of 63 characters.
func recordOf(namespace, pod string, attempt int) *Record {
	r := &Record{
		ID: fmt.Sprint("12345678-", attempt), Time: began, Namespace: namespace, Pod: pod, UID: types.UID(pod + "-uid"),
		SchedulerName: "berth-scheduler", Policy: "web", Outcome: Bound, Feasible: 5000, TieBreaker: "LeastLoaded", Tied: 3,
		Functions: functions, Candidates: make([]Candidate, maxCandidates),
	}
	names := strings.Clone(nodes) // a record takes memory of its own for them
	for i := range r.Candidates {
		r.Candidates[i] = Candidate{Node: names[63*i : 63*(i+1)], Score: 1800, Values: values, Demoted: "spot node, slot 3 needs on-demand"}
	}
	r.Node = r.Candidates[0].Node
	return r
}

// largest has every string and list at its bound.
func largest(namespace, pod string, attempt int) *Record {
	r := recordOf(namespace, pod, attempt)
	next := 0
	text := func(length int) string {
		next++
		return fmt.Sprintf("%-*d", length, next)
	}
	r.ID = fmt.Sprintf("%-*d", maxName, attempt)
	r.Message, r.UID, r.SchedulerName, r.Policy, r.TieBreaker = text(maxMessage), types.UID(text(maxName)), text(maxName), text(maxName), text(maxName)
	for i := range r.Candidates {
		r.Candidates[i].Demoted = text(maxDemoted)
	}
	for range maxRejections {
		r.Rejections = append(r.Rejections, Rejection{
			Reason: TaintWithoutToleration, Example: text(63), Message: text(maxMessage), Key: text(maxName), Requested: text(20), Available: text(20),
		})
	}
	return r
}

// inUse is the memory that is in use.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// underRaceDetector reports whether a million records would take minutes.
func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestTheHeapOfAStoreIsBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(500)) // the test is about what remains
	name := strings.Repeat("n", 40)
	for title, c := range map[string]struct {
		record func(namespace, pod string, attempt int) *Record
		puts   int
		bound  int
		// namespaces and pods are how many different ones there are.
		namespaces, pods int
	}{
		"a namespace and a pod for each": {recordOf, 1_000_000, heapOfCandidates, 1_000_000, 1},
		"pods of few namespaces":         {recordOf, 3 * MaxRecords, heapOfCandidates, 5, 10_000},
		"attempts of few pods":           {recordOf, 12 * MaxRecords, heapOfCandidates, 7, 1500},
		"everything at its bound":        {largest, MaxRecords + 2000, heapOfBounds, MaxRecords + 2000, 1},
	} {
		t.Run(title, func(t *testing.T) {
			puts := c.puts
			if testing.Short() || underRaceDetector() {
				puts = min(puts, 3*MaxRecords)
			}
			before := inUse()
			s := NewStore(clocktesting.NewFakePassiveClock(began))
			for i := range puts {
				s.Put(c.record(fmt.Sprint(name, i%c.namespaces), fmt.Sprint(name, i/c.namespaces%c.pods), i), time.Hour)
			}
			used := inUse() - before
			assert.Equal(t, MaxRecords, s.Len())
			t.Logf("%d records: %.1f MiB, %d bytes each", s.Len(), float64(used)/(1<<20), used/s.Len())
			assert.Less(t, used, c.bound)
			assert.Greater(t, used, c.bound/2, "the bound means something")
			runtime.KeepAlive(s)
		})
	}
}

func TestAShortenedStringDoesNotKeepTheLongOneInMemory(t *testing.T) {
	before := inUse()
	s := NewStore(clocktesting.NewFakePassiveClock(began))
	for i := range 64 {
		s.Put(&Record{Namespace: "shop", Pod: fmt.Sprint(i), Message: strings.Repeat("x", 1<<20)}, time.Hour)
	}
	assert.Less(t, inUse()-before, 1<<20)
	runtime.KeepAlive(s)
}

func TestAStoreIsSafeForConcurrentUse(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(began)
	s := newStore(clock, limits{all: 50, namespace: 20, pod: 4})
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 2000 {
				namespace, pod := fmt.Sprint(i%5), fmt.Sprint(i%7)
				r := &Record{Namespace: namespace, Pod: pod, ID: fmt.Sprint(i % 11), Candidates: []Candidate{{Node: "a", Values: []float64{1}}}}
				s.Put(r, time.Duration(i%3)*time.Second)
				r.Candidates[0].Values[0] = 2 // the caller may use its own again
				for _, read := range s.Of(namespace, pod) {
					assert.InDelta(t, 1, read.Candidates[0].Values[0], 0)
				}
				if i%100 == worker {
					clock.SetTime(began.Add(time.Duration(i) * time.Millisecond))
				}
			}
		})
	}
	group.Wait()
	assert.LessOrEqual(t, s.Len(), 50)
}

func BenchmarkPut(b *testing.B) {
	for name, candidates := range map[string]int{"5 candidates": 5, "50 candidates": 50} {
		b.Run(name, func(b *testing.B) {
			s := NewStore(clocktesting.NewFakePassiveClock(began))
			records := make([]*Record, 2*MaxRecords)
			for i := range records {
				records[i] = recordOf(fmt.Sprint(i%100), fmt.Sprint(i), i)
				records[i].Candidates = records[i].Candidates[:candidates]
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Put(records[i%len(records)], time.Duration(i)*time.Millisecond+time.Hour)
			}
		})
	}
}
