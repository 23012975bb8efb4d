// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/internal/mix/split"
)

// web is a workload of which nothing is special: a Deployment with a budget.
func web(changes ...func(*Workload)) *Workload {
	w := &Workload{
		Namespace: "shop", Kind: "Deployment", Name: "web", Replicas: 10, Unit: 1, Pods: 10, Releasable: true,
		Budgets: []Budget{{Name: "web", MaxUnavailable: Amount{Set: true, Percent: true, Value: 100}, Workloads: 1, Pods: 10}},
		Grace:   30 * time.Second, Notice: LongestNotice, Starts: []time.Duration{time.Second}, Age: 10 * day,
		Bands:    []Band{{InstanceType: "m5.large", Band: 1, Pods: 10}},
		Money:    Money{Priced: 10, Available: 1},
		Selector: &Selector{MatchLabels: map[string]string{"app": "web"}},
	}
	for _, change := range changes {
		change(w)
	}
	return w
}

func percent(n int) Amount { return Amount{Set: true, Percent: true, Value: n} }
func count(n int) Amount   { return Amount{Set: true, Value: n} }

// cause is a reason with a workload that has it alone, the field that would have to change, and the change.
type cause struct {
	reason        *Reason
	change        func(*Workload)
	field, remedy string
}

var causes = []cause{
	{ReasonNoController, func(w *Workload) { w.Replaced, w.Kind = ByNobody, "Pod" }, "metadata.ownerReferences", "create the pods with"},
	{ReasonRunsToCompletion, func(w *Workload) { w.RunsOnce, w.Kind = true, "CronJob" }, "spec.jobTemplate.spec.podFailurePolicy", "DisruptionTarget"},
	{ReasonSingleReplica, func(w *Workload) { w.Replicas = 1 }, "spec.replicas", "at least 2"},
	{ReasonSystemCritical, func(w *Workload) { w.Priority = systemCritical }, "spec.template.spec.priorityClassName", "a lower one"},
	{ReasonDoNotDisrupt, func(w *Workload) { w.Keep = "karpenter.sh/do-not-disrupt" }, "spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]", "remove it"},
	{ReasonPinned, func(w *Workload) { w.Pinned = true }, "spec.template.spec.nodeSelector", "remove the capacity type"},
	{ReasonPodGroup, func(w *Workload) { w.Grouped = true }, "spec.template.spec.schedulingGroup", "unit"},
	{ReasonLocalStorage, func(w *Workload) { w.LocalData = "cache" }, "spec.template.metadata.annotations", "safe-to-evict-local-volumes"},
	{ReasonLocalVolume, func(w *Workload) { w.LocalClaim = "data-0" }, "spec.volumeClaimTemplates", "storage class"},
	{ReasonVolumesUnknown, func(w *Workload) { w.VolumesUnread = true }, "RBAC", "persistentvolumes"},
	{ReasonLongTermination, func(w *Workload) { w.Grace = 121 * time.Second }, "spec.template.spec.terminationGracePeriodSeconds", "at most 120"},
	{ReasonRestarting, func(w *Workload) { w.Restarts = 10 }, "spec.template.spec.containers", "why containers restart"},
	{ReasonBudgetsUnknown, func(w *Workload) { w.BudgetsUnread, w.Budgets = true, nil }, "RBAC", "list poddisruptionbudgets"},
	{ReasonMixesUnknown, func(w *Workload) { w.MixesUnread = true }, "RBAC", "list capacitymixes"},
	{ReasonOverlappingBudgets, func(w *Workload) { w.Budgets = append(w.Budgets, w.Budgets[0]) }, "PodDisruptionBudget", "keep one"},
	{ReasonBudgetAllowsNone, func(w *Workload) { w.Budgets[0].MaxUnavailable = count(0) }, "PodDisruptionBudget/web spec.maxUnavailable", "at least 1 pod"},
	{ReasonNoSelector, func(w *Workload) { w.Selector = nil }, "spec.template.metadata.labels", "add a label"},
	{ReasonTooFewReplicas, func(w *Workload) { w.Replicas, w.AttachedClaim = 2, "data" }, "spec.replicas", "run at least 4"},
	{ReasonBudget, func(w *Workload) { w.Budgets[0].MaxUnavailable = count(3) }, "PodDisruptionBudget/web spec.maxUnavailable", "allow more"},
	{ReasonStateful, func(w *Workload) { w.Stateful = true }, "", ""},
	{ReasonAttachedVolume, func(w *Workload) { w.AttachedClaim = "data-0" }, "", ""},
	{ReasonUnit, func(w *Workload) { w.Unit = 2 }, "", ""},
	{ReasonUnknownOwner, func(w *Workload) { w.Replaced, w.Kind = ByUnknown, "GameServer" }, "", ""},
	{ReasonSlowStart, func(w *Workload) { w.Starts = []time.Duration{time.Second, 121 * time.Second, 130 * time.Second} }, "spec.template.spec.containers", "sooner"},
	{ReasonVerySlowStart, func(w *Workload) { w.Starts = []time.Duration{verySlow} }, "spec.template.spec.containers", "sooner"},
	{ReasonRestarts, func(w *Workload) { w.Restarts, w.Age = 3, 30*day }, "spec.template.spec.containers", "why containers restart"},
	{ReasonHighPriority, func(w *Workload) { w.Priority, w.PriorityClass = 1000, "gold" }, "spec.template.spec.priorityClassName", "default priority"},
	{ReasonFrequent, func(w *Workload) { w.Bands[0].Band = 4 }, "Node", "other instance types"},
	{ReasonVeryFrequent, func(w *Workload) { w.Bands[0].Band = 5 }, "Node", "other instance types"},
	{ReasonNoBudget, func(w *Workload) { w.Budgets = nil }, "PodDisruptionBudget", "maxUnavailable"},
	{ReasonNoPreemption, func(w *Workload) { w.NeverPreempts = true }, "spec.template.spec.preemptionPolicy", ""},
	{ReasonNotPlaced, func(w *Workload) { w.SchedulerName, w.BerthsName = "default-scheduler", "berth-scheduler" }, "spec.template.spec.schedulerName", "berth-scheduler"},
	{ReasonQuarantine, func(w *Workload) { w.Quarantined = []string{"a/m5"} }, "Node", "later"},
	{ReasonNodesUnknown, func(w *Workload) { w.NodesUnread, w.Bands = true, nil }, "RBAC", "list nodes"},
	{ReasonUnknownType, func(w *Workload) { w.UnknownNodes = []string{"x"} }, "Node metadata.labels", "node.kubernetes.io/lifecycle"},
	{ReasonBandUnknown, func(w *Workload) { w.Bands[0].Band = 0 }, "", ""},
	{ReasonStartUnknown, func(w *Workload) { w.Starts = nil }, "spec.template.spec.containers", ""},
}

func find(s *Suggestion, r *Reason) *Finding {
	for i := range s.Findings {
		if s.Findings[i].Reason == r.Name {
			return &s.Findings[i]
		}
	}
	return nil
}

func TestEachReasonHasItsEffectAndNamesWhatToChange(t *testing.T) {
	tested := sets.New[*Reason]()
	base := Of(web())
	require.NotNil(t, base.Mix)
	for _, c := range causes {
		t.Run(c.reason.Name, func(t *testing.T) {
			tested.Insert(c.reason)
			s := Of(web(c.change))
			f := find(&s, c.reason)
			require.NotNil(t, f, "%+v", s.Findings)
			assert.Equal(t, c.field, f.Field)
			if c.remedy == "" {
				assert.Empty(t, f.Change)
			}
			assert.Contains(t, f.Change, c.remedy)
			assert.NotEmpty(t, f.Message)
			switch c.reason.Effect {
			case Blocks:
				assert.Nil(t, s.Mix)
				assert.Equal(t, Blocked, s.Risk)
				assert.Zero(t, s.Spot)
			case Limits:
				require.NotNil(t, s.Mix)
				assert.Less(t, s.Spot, base.Spot, "fewer than without the reason")
			default:
				assert.Equal(t, base.Mix, s.Mix)
				assert.Equal(t, Low, s.Risk)
			}
			assert.Equal(t, c.reason.Raises, c.reason.Effect == Limits && s.Risk == Medium)
		})
	}
	for _, r := range Reasons() {
		assert.True(t, tested.Has(r), "no test has the reason %s", r)
	}
}

func TestTheMixOfAWorkload(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Workload)
		want     Mix
		spot     int
		strategy string
	}{
		"nothing is special": {func(*Workload) {}, Mix{SpotPercent: 80, MinOnDemand: 1}, 8, ""},
		"few replicas, each of which counts, have their replacement first": {
			func(w *Workload) { w.Replicas = 2 }, Mix{SpotPercent: 80, MinOnDemand: 1}, 1, "SurgeOrEvict",
		},
		"a StatefulSet keeps its majority": {func(w *Workload) { w.Stateful = true }, Mix{SpotPercent: 49, MinOnDemand: 1}, 4, ""},
		"a percentage of a budget is one of the mix": {
			func(w *Workload) { w.Budgets[0] = Budget{Name: "b", MinAvailable: percent(75), Workloads: 1} }, Mix{SpotPercent: 25, MinOnDemand: 1}, 2, "",
		},
		"a percentage that may be missing is one of the mix, too": {
			func(w *Workload) { w.Budgets[0].MaxUnavailable = percent(35) }, Mix{SpotPercent: 35, MinOnDemand: 1}, 3, "",
		},
		"minAvailable is the floor": {
			func(w *Workload) { w.Budgets[0] = Budget{Name: "b", MinAvailable: count(6), Workloads: 1} }, Mix{SpotPercent: 80, MinOnDemand: 6}, 4, "",
		},
		"maxUnavailable is the most on spot nodes": {
			func(w *Workload) { w.Budgets[0].MaxUnavailable = count(2) }, Mix{SpotPercent: 80, MinOnDemand: 1, MaxSpot: new(int32(2))}, 2, "",
		},
		"workloads share what a budget allows to be missing": {
			func(w *Workload) { w.Budgets[0].MaxUnavailable, w.Budgets[0].Workloads = count(5), 2 },
			Mix{SpotPercent: 80, MinOnDemand: 1, MaxSpot: new(int32(2))},
			2, "",
		},
		"a budget counts the pods of units": {
			func(w *Workload) { w.Budgets[0].MaxUnavailable, w.Unit = count(5), 2 }, Mix{SpotPercent: 50, MinOnDemand: 1, MaxSpot: new(int32(2))}, 2, "",
		},
		"the lowest bound counts": {
			func(w *Workload) { w.Stateful, w.AttachedClaim, w.Releasable = true, "data", false }, Mix{SpotPercent: 30, MinOnDemand: 1}, 3, "",
		},
		"a slow start has its replacement first": {
			func(w *Workload) { w.Starts = []time.Duration{3 * time.Minute} }, Mix{SpotPercent: 50, MinOnDemand: 1}, 5, "SurgeOrEvict",
		},
		"pods that cannot be released are evicted": {
			func(w *Workload) { w.Starts, w.Releasable = []time.Duration{3 * time.Minute}, false }, Mix{SpotPercent: 50, MinOnDemand: 1}, 5, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Of(web(c.change))
			c.want.Strategy = c.strategy
			require.NotNil(t, s.Mix, "%+v", s.Findings)
			assert.Equal(t, c.want, *s.Mix)
			assert.Equal(t, c.spot, s.Spot)
		})
	}
}

func TestAMixThatGovernsAlreadyIsNamed(t *testing.T) {
	s := Of(web(func(w *Workload) {
		w.Governed, w.Now, w.SchedulerName = "capacitymix/web", split.New(50, 2), "default-scheduler"
	}))
	assert.Equal(t, "capacitymix/web", s.GovernedBy)
	assert.Equal(t, "50% spot, at least 2 on-demand", s.Rule)
	require.NotNil(t, s.Mix, "it is compared")
	assert.Nil(t, find(&s, ReasonNotPlaced))
	all := []Suggestion{s}
	Sort(all)
	Name(all, map[[2]string]bool{})
	assert.Zero(t, all[0].Step)
	assert.Empty(t, all[0].MixName, "a second mix would conflict with the first")
}

func TestWhatIsUnknownIsNotInvented(t *testing.T) {
	s := Of(web(func(w *Workload) { w.Money = Money{} }))
	assert.Nil(t, s.SavingPerMonth)
	s = Of(web(func(w *Workload) { w.Bands = append(w.Bands, Band{InstanceType: "own", Pods: 1}) }))
	assert.Nil(t, s.Interruptions, "one type is unknown")
	assert.Contains(t, find(&s, ReasonBandUnknown).Message, "own")
	s = Of(web(func(w *Workload) { w.Bands = nil }))
	assert.Nil(t, s.Interruptions)
	s = Of(web(func(w *Workload) { w.UnknownNodes = []string{"c", "a", "d", "b"} }))
	assert.Contains(t, find(&s, ReasonUnknownType).Message, "4 nodes of unknown type: a, b, c and 1 more")
}

func TestSavingsAndInterruptionsAreThoseOfTheMix(t *testing.T) {
	// 8 of 10 pods; the difference of the prices of all is a dollar an hour.
	s := Of(web())
	assert.InDelta(t, 0.8*730, *s.SavingPerMonth, 0.01)
	assert.Equal(t, "<0.40", s.Interruptions.String(), "5 % of 8 at most")
	s = Of(web(func(w *Workload) { w.Money.Saved, w.Money.Available = 1, 0 }))
	assert.InDelta(t, -0.2*730, *s.SavingPerMonth, 0.01, "all run on spot nodes now")
	s = Of(web(func(w *Workload) { w.Bands = []Band{{"a", 5, 1}, {"b", 5, 3}} }))
	assert.Equal(t, "0.40-0.80", s.Interruptions.String(), "5 to 10 % of 8: half of the pods in the first band, and half in the third")
	s = Of(web(func(w *Workload) { w.Bands[0].Band = 5 }))
	assert.Equal(t, ">=0.60", s.Interruptions.String(), "20 % of 3, and no upper bound")
	s = Of(web(func(w *Workload) { w.Unit, w.Bands[0].Band = 2, 2 }))
	assert.Equal(t, "0.50-1.00", s.Interruptions.String(), "5 units of 2 pods on 10 nodes")
}

func TestTheOrderOfAdoptionBeginsWithTheLeastRisk(t *testing.T) {
	named := func(name string, changes ...func(*Workload)) Suggestion {
		w := web(changes...)
		w.Name = name
		return Of(w)
	}
	all := []Suggestion{
		named("blocked", func(w *Workload) { w.Keep = "karpenter.sh/do-not-disrupt" }),
		named("governed", func(w *Workload) { w.Governed = "default" }),
		named("high", func(w *Workload) { w.Stateful, w.AttachedClaim = true, "data" }),
		named("medium", func(w *Workload) { w.Stateful = true }),
		named("unpriced", func(w *Workload) { w.Money = Money{} }),
		named("quarantined", func(w *Workload) { w.Quarantined, w.Money.Available = []string{"a"}, 100 }),
		named("low-b"), named("low-a"),
		named("saves-more", func(w *Workload) { w.Money.Available = 2 }),
	}
	Sort(all)
	var order []string
	for i, s := range all {
		order = append(order, s.Name)
		if i < 7 {
			assert.Equal(t, i+1, s.Step)
			continue
		}
		assert.Zero(t, s.Step)
	}
	assert.Equal(t, []string{"saves-more", "low-a", "low-b", "unpriced", "quarantined", "medium", "high", "governed", "blocked"}, order)
}

func TestMixesHaveTheNamesOfTheirWorkloads(t *testing.T) {
	all := []Suggestion{Of(web()), Of(web(func(w *Workload) { w.Kind = "StatefulSet" })), Of(web(func(w *Workload) { w.Namespace = "back" }))}
	Sort(all)
	Name(all, map[[2]string]bool{{"shop", "web"}: true})
	var names []string
	for i := range all {
		names = append(names, all[i].Namespace+"/"+all[i].CapacityMix().Name)
	}
	assert.Equal(t, []string{"back/web", "shop/web-deployment", "shop/web-statefulset"}, names)
}

func TestANoticeIsThatOfTheProvider(t *testing.T) {
	assert.Equal(t, 2*time.Minute, NoticeOf("aws:///us-east-1a/i-1"))
	assert.Equal(t, 30*time.Second, NoticeOf("gce://p/z/n"))
	assert.Equal(t, 30*time.Second, NoticeOf("azure:///subscriptions/x"))
	assert.Equal(t, LongestNotice, NoticeOf(""))
	s := Of(web(func(w *Workload) { w.Notice, w.Grace = 30*time.Second, time.Minute }))
	assert.Contains(t, find(&s, ReasonLongTermination).Message, "may take 60 s to end, and an interruption is announced 30 s before")
}
