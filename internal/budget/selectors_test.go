// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

var (
	drawKey   = rapid.SampledFrom([]string{"app", "team", "tier"})
	drawValue = rapid.SampledFrom([]string{"", "a", "b", "c"})
)

func drawSelector(t *rapid.T) labels.Selector {
	s := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(drawKey, drawValue, 0, 2).Draw(t, "labels")}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		r := metav1.LabelSelectorRequirement{
			Key:      drawKey.Draw(t, "key"),
			Operator: metav1.LabelSelectorOperator(rapid.SampledFrom([]string{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")),
		}
		if r.Operator == "In" || r.Operator == "NotIn" {
			r.Values = rapid.SliceOfN(drawValue, 1, 3).Draw(t, "values")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err)
	if rapid.IntRange(0, 9).Draw(t, "nothing") == 0 {
		return labels.Nothing()
	}
	return selector
}

func TestACompiledSelectorMatchesAsItsOriginalDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selector := drawSelector(t)
		set := rapid.MapOfN(drawKey, drawValue, 0, 3).Draw(t, "set")
		require.Equal(t, selector.Matches(labels.Set(set)), CompileSelector(selector).Matches(set), "%s selects %v", selector, set)
	})
}

// object is a model of an entry.
type object struct {
	name     string
	created  time.Time
	selector labels.Selector
}

// The index and the memory of results omit only what does not match.
func TestALookUpFindsWhatAScanFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		s, model := NewSelectors[string](most), map[string]object{}
		versions := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				o := object{
					name: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "name")), selector: drawSelector(t),
					created: time.Unix(rapid.Int64Range(0, 2).Draw(t, "age"), 0),
				}
				s.Set("shop", &Entry[string]{Name: o.name, Created: o.created, Selector: CompileSelector(o.selector), Object: o.name})
				model[o.name] = o
				require.False(t, versions[s.Version("shop")], "each change has a version of its own")
				versions[s.Version("shop")] = true
			},
			"delete": func(t *rapid.T) {
				name := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "name"))
				s.Delete("shop", name)
				delete(model, name)
			},
			"": func(t *rapid.T) {
				var all []object
				for _, o := range model {
					all = append(all, o)
				}
				slices.SortFunc(all, func(a, b object) int {
					if c := a.created.Compare(b.created); c != 0 {
						return c
					}
					return strings.Compare(a.name, b.name)
				})
				for i, o := range all {
					require.Equal(t, i >= most, s.Exceeds("shop", o.name))
				}
				all = all[:min(len(all), most)]
				set := rapid.MapOfN(drawKey, drawValue, 0, 3).Draw(t, "set")
				if rapid.Bool().Draw(t, "more labels") {
					for i := range 5 {
						set[fmt.Sprint("other-", i)] = "x"
					}
				}
				var want []string
				for _, o := range all {
					if o.selector.Matches(labels.Set(set)) {
						want = append(want, o.name)
					}
				}
				var got []string
				for e := range s.Selecting("shop", set) {
					got = append(got, e.Name)
				}
				require.ElementsMatch(t, want, got)
				for range 2 { // the second result is remembered
					oldest, found := s.Oldest("shop", set)
					require.Equal(t, len(want) > 0, found)
					if found {
						require.Equal(t, want[0], oldest)
					}
				}
				_, found := s.Oldest("other", set)
				require.False(t, found)
			},
		})
	})
}

// hostile is a selector with as many requirements as the API allows, none of which an index can use.
func hostile(values int) *Selector {
	s := &metav1.LabelSelector{}
	for i := range 16 {
		r := metav1.LabelSelectorRequirement{Key: fmt.Sprint("key-", i), Operator: metav1.LabelSelectorOpNotIn}
		for v := range values {
			r.Values = append(r.Values, fmt.Sprint("v", v))
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err)
	}
	return CompileSelector(selector)
}

func hostileNamespace(n int) *Selectors[int] {
	s := NewSelectors[int](1000)
	for i := range n {
		s.Set("shop", &Entry[int]{Name: fmt.Sprintf("%04d", i), Created: time.Unix(int64(i), 0), Selector: hostile(32), Object: i})
	}
	return s
}

func TestSelectorsBeyondTheBudgetSelectNothing(t *testing.T) {
	s := hostileNamespace(300)
	n := s.of("shop")
	require.Equal(t, MaxSelectorCost/17, n.affordable)
	assert.False(t, s.Exceeds("shop", "0000"))
	assert.True(t, s.Exceeds("shop", "0299"))
	count := 0
	for range s.Selecting("shop", nil) {
		count++
	}
	assert.Equal(t, n.affordable, count)
	s.Set("shop", &Entry[int]{Name: "old", Created: time.Unix(-1, 0), Object: -1})
	s.Delete("shop", "0000")
	assert.False(t, s.Exceeds("shop", fmt.Sprintf("%04d", n.affordable)), "a place is free again")
}

// The pods of a workload differ in labels that no selector reads, such as that of a StatefulSet's pod.
func TestPodsOfOneWorkloadAreMatchedOnce(t *testing.T) {
	s := hostileNamespace(100)
	for i := range 3 * maxMemo {
		s.Oldest("shop", map[string]string{"app": "db", "pod-name": fmt.Sprint(i)})
	}
	n := s.of("shop")
	assert.Len(t, n.memo, 1)
	for i := range 3 * maxMemo {
		s.Oldest("shop", map[string]string{"key-0": fmt.Sprint(i)})
	}
	assert.LessOrEqual(t, len(n.memo), maxMemo, "labels are a tenant's")
	set := map[string]string{"app": "db", "pod-name": "1"}
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Oldest("shop", set) }))
}

func BenchmarkOldest(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		s := hostileNamespace(n)
		b.Run(fmt.Sprint("known labels, ", n, " selectors"), func(b *testing.B) {
			set := map[string]string{"app": "db", "pod-name": "1"}
			b.ReportAllocs()
			for b.Loop() {
				s.Oldest("shop", set)
			}
		})
		b.Run(fmt.Sprint("new labels, ", n, " selectors"), func(b *testing.B) {
			sets := make([]map[string]string, 4*maxMemo)
			for i := range sets {
				sets[i] = map[string]string{}
				for k := range 16 {
					sets[i][fmt.Sprint("key-", k)] = "other"
				}
				sets[i]["key-15"], sets[i]["key-9"] = fmt.Sprint(i), "v31" // the last requirement fails
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Oldest("shop", sets[i%len(sets)])
			}
		})
		b.Run(fmt.Sprint("a change, ", n, " selectors"), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Set("shop", &Entry[int]{Name: "0000", Selector: hostile(32), Object: i})
			}
		})
	}
}
