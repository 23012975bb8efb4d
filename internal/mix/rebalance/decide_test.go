// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// reasonHeld is a reason that callers give.
var reasonHeld = &rebalance.Reason{Name: "Held"}

// noon is when these decisions are made.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const placing = "berth-scheduler"

// replica is a settled, Ready pod on its slot.
func replica(m split.Mix, slot int, on capacity.Type) clusterstate.Assignment {
	name := fmt.Sprintf("web-%d", slot)
	p := &clusterstate.Pod{Namespace: "shop", Name: name, UID: types.UID(name), Node: "node", Ready: true, Labels: map[string]string{"app": "web"}, SchedulerName: placing, Owner: ownerOf("rs")}
	return clusterstate.Assignment{Pod: p, Assignment: split.Assignment{Wants: m.TypeOf(slot), Pod: split.Pod{ID: name, Slot: slot, On: on}}}
}

// groupOn is a group whose replica on slot i runs on the i-th type.
func groupOn(m split.Mix, on ...capacity.Type) clusterstate.Group {
	g := clusterstate.Group{
		Key: governing.GroupKey{Namespace: "shop", ID: "rs"}, Workload: clusterstate.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web"},
		Governing: &governing.Mix{Source: "capacitymix/web", Mix: m}, Replicas: len(on), SchedulerName: placing,
	}
	for i, t := range on {
		g.Assignments = append(g.Assignments, replica(m, i, t))
	}
	return g
}

// unite makes a unit of a replica and one more pod, which is as the first one and is younger.
func unite(a *clusterstate.Assignment, unit string) *clusterstate.Pod {
	more := *a.Pod
	more.Name, more.UID = more.Name+"-more", more.UID+"-more"
	a.Unit, a.Pods = unit, []*clusterstate.Pod{a.Pod, &more}
	return &more
}

// ownerOf is the controller of a pod.
func ownerOf(uid types.UID) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: string(uid), UID: uid, Controller: new(true)}
}

const (
	sp = capacity.Spot
	od = capacity.OnDemand
)

// outOfMix is a group of 5 with 2 of 3 spot replicas on on-demand, and nothing
// that keeps them there. Slots 0 and 1 are on-demand, 2 to 4 spot.
func outOfMix() *rebalance.Input {
	return &rebalance.Input{
		Cluster:  rebalance.Cluster{Now: noon, Limit: 5, SchedulerNames: []string{placing}, RolloutDeadline: 10 * time.Minute},
		Settings: rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 2, Stabilization: time.Minute},
		History:  rebalance.History{WrongSince: noon.Add(-time.Hour)},
		Group:    groupOn(split.New(70, 2), od, od, od, sp, od),
		MayFit:   func(capacity.Type, *clusterstate.Pod) bool { return true },
	}
}

// decide returns which replica moves next, or why none does.
func decide(in *rebalance.Input) rebalance.Verdict { return in.Effect(rebalance.Choose(in)) }

func budgetOf(allowed int32) []rebalance.DisruptionBudget {
	b, err := rebalance.FromPDB(pdb(figures(allowed, 5, 5, 5)))
	if err != nil {
		panic(err)
	}
	return []rebalance.DisruptionBudget{b}
}

// cause is one thing that keeps a replica from moving.
type cause struct {
	name    string
	spoil   func(*rebalance.Input)
	want    *rebalance.Reason
	message string
	retryAt time.Time
	// then is the reason from that time on; nil for ReasonMove.
	then *rebalance.Reason
	// effect: it is what is done about the verdict that the chain gives.
	effect bool
}

func ofPods(change func(*clusterstate.Pod)) func(*rebalance.Input) {
	return func(in *rebalance.Input) {
		for _, s := range in.Group.Assignments {
			change(s.Pod)
		}
	}
}

// annotate keeps the annotations that a pod has: causes are combined.
func annotate(p *clusterstate.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

// causes are in the order of the chain.
var causes = []cause{
	{
		name: "the mix switches moves off", spoil: func(in *rebalance.Input) { in.Settings.Mode = rebalance.Off },
		want: rebalance.ReasonOff, message: "rebalance.mode is Off",
	}, {
		name: "moves are paused", spoil: func(in *rebalance.Input) {
			in.Cluster.Pauses = []rebalance.Pause{
				{Scope: rebalance.PausedCluster, By: "alice", Since: noon.Add(-time.Hour), Why: "incident 4711"},
				{Scope: rebalance.PausedNamespace, Name: "shop"},
			}
			in.Settings.Paused = &rebalance.Pause{Scope: rebalance.PausedMix, Name: "web", Why: "migration"}
		},
		want: rebalance.ReasonPaused,
		message: "moves are paused for the cluster, by alice since 2026-06-01T11:00:00Z: incident 4711; and for namespace shop; and for mix web: " +
			"migration",
	}, {
		name: "the mix is not in the canary", spoil: func(in *rebalance.Input) {
			in.Cluster.Canary = &rebalance.Canary{Namespaces: []string{"test", "stage"}}
		},
		want:    rebalance.ReasonNotInCanary,
		message: "CapacityMix web is not in the canary: mix.rebalance.canary moves 0 % of the mixes, and those of 2 namespaces",
	}, {
		name: "the pods have no controller", spoil: ofPods(func(p *clusterstate.Pod) { p.Owner = nil }),
		want: rebalance.ReasonNoController, message: "pods without a controller are not evicted: no one would make new ones",
	}, {
		name: "another scheduler places the pods", spoil: func(in *rebalance.Input) { in.Group.SchedulerName = "default-scheduler" },
		want: rebalance.ReasonOtherScheduler, message: "schedulerName is default-scheduler, which does not place by the mix",
	}, {
		name: "the controller has just started", spoil: func(in *rebalance.Input) { in.Cluster.GraceUntil = noon.Add(30 * time.Second) },
		want: rebalance.ReasonStartupGrace, retryAt: noon.Add(30 * time.Second),
		message: "the controller has just started, or the API server was away: nothing is moved until 12:00:30Z",
	}, {
		name: "a spot storm is on", spoil: func(in *rebalance.Input) { in.Cluster.StormUntil = noon.Add(5 * time.Minute) },
		want: rebalance.ReasonStorm, retryAt: noon.Add(5 * time.Minute),
		message: "spot storm: many spot nodes are departing; nothing is moved before 12:05:00Z",
	}, {
		name: "the health gate is closed", spoil: func(in *rebalance.Input) {
			in.Cluster.Health = &rebalance.Health{State: rebalance.Unhealthy, Detail: "1 of 2 values is 0", At: noon.Add(-time.Minute)}
		},
		want: rebalance.ReasonHealthGate, message: "the query of mix.rebalance.healthGate is not good since 11:59:00Z: 1 of 2 values is 0",
	}, {
		name: "the workload is rolling out", spoil: func(in *rebalance.Input) {
			in.Group.Rollout.Rolling, in.History.RollingSince = true, noon.Add(-time.Minute)
		},
		want: rebalance.ReasonRollingOut, message: "a rollout is in progress", retryAt: noon.Add(9 * time.Minute),
	}, {
		name: "the mix is broken for too short a time", spoil: func(in *rebalance.Input) { in.History.WrongSince = noon.Add(-59 * time.Second) },
		want: rebalance.ReasonStabilizing, message: "out of its mix since 11:59:01Z; moves begin at 12:00:01Z", retryAt: noon.Add(time.Second),
	}, {
		name: "earlier moves failed", spoil: func(in *rebalance.Input) { in.History.Failures, in.History.RetryAt = 3, noon.Add(4*time.Minute) },
		want: rebalance.ReasonBackingOff, message: "3 moves in a row failed; the next is tried at 12:04:00Z", retryAt: noon.Add(4 * time.Minute),
	}, {
		name: "one move failed", spoil: func(in *rebalance.Input) { in.History.Failures, in.History.RetryAt = 1, noon.Add(time.Minute) },
		want: rebalance.ReasonBackingOff, message: "1 move in a row failed; the next is tried at 12:01:00Z", retryAt: noon.Add(time.Minute),
	}, {
		name: "no window is open", spoil: func(in *rebalance.Input) { in.Settings.Windows = window("0 3 * * *") },
		want: rebalance.ReasonOutsideWindow, retryAt: time.Date(2026, 6, 2, 3, 0, 0, 0, time.UTC),
		message: "outside the windows for moves; the next opens at 2026-06-02T03:00:00Z",
	}, {
		name: "as many replicas of the mix as allowed are being moved", spoil: func(in *rebalance.Input) { in.History.InFlight = 2 },
		want: rebalance.ReasonMixBudget, message: "2 of at most 2 replicas of this mix are being moved",
	}, {
		name: "as many replicas of the cluster as allowed are being moved", spoil: func(in *rebalance.Input) { in.Cluster.InFlight = 5 },
		want: rebalance.ReasonClusterBudget, message: "5 of at most 5 replicas of the cluster are being moved",
	}, {
		name: "as many moves of the mix as allowed began", spoil: func(in *rebalance.Input) {
			in.History.Pace = rebalance.Pace{Limit: 2, Begun: begunAt(30*time.Minute, 20*time.Minute)}
		},
		want: rebalance.ReasonPace, retryAt: noon.Add(31 * time.Minute),
		message: "2 moves of this mix began within the last hour, and at most 2 may; the next may begin at 12:31:00Z",
	}, {
		name: "as many moves of the cluster as allowed began", spoil: func(in *rebalance.Input) {
			in.Cluster.Pace = rebalance.Pace{Limit: 1, Begun: begunAt(40 * time.Minute)}
		},
		want: rebalance.ReasonClusterPace, retryAt: noon.Add(21 * time.Minute),
		message: "1 move of the cluster began within the last hour, and at most 1 may; the next may begin at 12:21:00Z",
	}, {
		name: "a replica has no pod yet", spoil: func(in *rebalance.Input) { in.Group.Replicas++ },
		want: rebalance.ReasonNotReady, message: "1 of 6 replicas have no pod yet",
	}, {
		name: "a replica is not Ready", spoil: func(in *rebalance.Input) { in.Group.Assignments[3].Pod.Ready = false },
		want: rebalance.ReasonNotReady, message: "pod web-3 is not Ready",
	}, {
		name: "the replica alone has no controller", spoil: func(in *rebalance.Input) {
			for _, s := range in.Group.Assignments[1:] {
				s.Pod.Owner = nil
			}
		},
		want: rebalance.ReasonNoController, message: "pod web-4 has no controller: no one would make a new one",
	}, {
		name: "the owner of the replicas is one of many, and has ended", spoil: func(in *rebalance.Input) {
			in.Group.EndedOwners = map[types.UID]bool{"rs": true}
		},
		want:    rebalance.ReasonOwnerEnded,
		message: "ReplicaSet rs creates no more pods: it finished, failed, was suspended or deleted, or requests no replicas",
	}, {
		name: "the replicas are units", spoil: func(in *rebalance.Input) {
			for i := range in.Group.Assignments {
				unite(&in.Group.Assignments[i], "gang")
			}
		},
		want:    rebalance.ReasonUnitWouldRestart,
		message: "pod web-4 is one of 2 pods of unit gang, which run on one capacity type: no operator is known that would create all 2 of them again",
	}, {
		name: "the pods name a capacity type", spoil: ofPods(func(p *clusterstate.Pod) { p.Pinned = true }),
		want: rebalance.ReasonPinned, message: "pod web-4 names a capacity type in its own nodeSelector or affinity",
	}, {
		name: "the pods are members of a PodGroup", spoil: ofPods(func(p *clusterstate.Pod) { p.Grouped = true }),
		want: rebalance.ReasonPodGroupMember, message: "pod web-4 is a member of a PodGroup, which may need all of its members",
	}, {
		name: "an annotation forbids to disrupt the pods", spoil: ofPods(func(p *clusterstate.Pod) { annotate(p, pods.DoNotDisrupt, "true") }),
		want: rebalance.ReasonDoNotDisrupt, message: "pod web-4 has the annotation karpenter.sh/do-not-disrupt",
	}, {
		name: "the pods have data on their nodes", spoil: ofPods(func(p *clusterstate.Pod) { p.LocalData = "scratch" }),
		want:    rebalance.ReasonLocalStorage,
		message: `pod web-4 has data on its node in volume scratch (annotation cluster-autoscaler.kubernetes.io/safe-to-evict: "true" lets it move)`,
	}, {
		name: "the replacement would run on the same type", spoil: func(in *rebalance.Input) {
			m := in.Group.Governing.Mix // slot 0 is free, and of on-demand
			in.Group.Assignments, in.Group.Replicas = []clusterstate.Assignment{replica(m, 1, od), replica(m, 2, od), replica(m, 3, od)}, 3
		},
		want: rebalance.ReasonNoGain, message: "the replacement of pod web-3 would take a free slot of type on-demand again",
	}, {
		name: "spot nodes did not come", spoil: func(in *rebalance.Input) {
			in.MayFit = nowhere
			for i := range in.Group.Assignments {
				p := in.Group.Assignments[i].Pod
				annotate(p, v1alpha1.ClaimAnnotation, string(p.UID)+"/on-demand")
				annotate(p, v1alpha1.FallbackAnnotation, "3/2026-06-01T12:20:00Z")
			}
		},
		want: rebalance.ReasonSpotUnavailable, message: "spot nodes did not come; spot is tried again at 12:20:00Z", retryAt: noon.Add(20 * time.Minute),
		then: rebalance.ReasonInsufficientCapacity,
	}, {
		name: "too few Ready replicas would stay on on-demand", spoil: func(in *rebalance.Input) {
			for _, i := range []int{0, 1} { // two more are there, but on nodes that go away
				in.Group.Assignments[i].Place = clusterstate.Departing
			}
		},
		want: rebalance.ReasonFloor, message: "2 available replicas are on on-demand, and 2 must stay there",
	}, {
		name: "it cannot be released", spoil: func(in *rebalance.Input) { in.Settings.Strategy = rebalance.Surge },
		want:    rebalance.ReasonNotReleasable,
		message: "rebalance.strategy is Surge, and pod web-4 is not of a ReplicaSet that a Deployment or a Rollout made",
	}, {
		name: "a PodDisruptionBudget forbids it", spoil: func(in *rebalance.Input) { in.Budgets = budgetOf(0) },
		want:    rebalance.ReasonPDB,
		message: `PodDisruptionBudget "web" allows 0 disruptions: 5 of 5 pods are healthy and it needs 5, which is all of them, so waiting does not help`,
	}, {
		name: "the replicas are held", spoil: func(in *rebalance.Input) {
			in.Skip = map[string]rebalance.Verdict{}
			for _, s := range in.Group.Assignments {
				in.Skip[s.ID] = rebalance.Verdict{Reason: reasonHeld, Message: "as I said", Pod: s.Pod, RetryAt: noon.Add(time.Second)}
			}
		},
		want: reasonHeld, message: "as I said", retryAt: noon.Add(time.Second),
	}, {
		name: "no node has room", spoil: func(in *rebalance.Input) { in.MayFit = func(capacity.Type, *clusterstate.Pod) bool { return false } },
		want: rebalance.ReasonInsufficientCapacity, message: "no spot node has free capacity for the replacement of pod web-4",
	}, {
		name: "the mix is only to report", spoil: func(in *rebalance.Input) { in.Settings.Mode = rebalance.Report }, effect: true,
		want: rebalance.ReasonReport, message: "rebalance.mode is Report: pod web-4 moves from on-demand to spot",
	}, {
		name: "the controller is not to evict", spoil: func(in *rebalance.Input) { in.Cluster.DryRun = true }, effect: true,
		want: rebalance.ReasonDryRun, message: "the controller runs with --dry-run: pod web-4 moves from on-demand to spot",
	},
}

func window(schedule string) rebalance.Windows {
	w, err := rebalance.ParseWindows([]rebalance.Window{{Schedule: schedule, Duration: time.Hour}})
	if err != nil {
		panic(err)
	}
	return w
}

func TestEveryCauseHasItsReason(t *testing.T) {
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			in := outOfMix()
			c.spoil(in)
			v := decide(in)
			assert.Equal(t, c.want, v.Reason)
			assert.Equal(t, c.message, v.Message)
			assert.True(t, c.retryAt.Equal(v.RetryAt), "retry at %s", v.RetryAt)
			if c.effect {
				assert.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason, "what would be moved is found out all the same")
			}
		})
	}
}

func TestAReplicaWithoutACauseMoves(t *testing.T) {
	in := outOfMix()
	v := decide(in)
	assert.Equal(t, rebalance.ReasonMove, v.Reason)
	assert.Equal(t, "pod web-4 moves from on-demand to spot", v.Message)
	assert.Equal(t, "web-4", v.Pod.Name, "of two borrowed ones the higher slot goes first")
	assert.Equal(t, capacity.Spot, v.Target)
	assert.Zero(t, v.RetryAt)
}

func TestAGroupThatHasItsMixIsOnTarget(t *testing.T) {
	in := outOfMix()
	in.Group = groupOn(split.New(70, 2), od, od, sp, sp, sp)
	for _, c := range causes {
		if c.want != rebalance.ReasonNotReady && c.want != rebalance.ReasonNoGain && c.want != rebalance.ReasonFloor {
			c.spoil(in)
		}
	}
	assert.Equal(t, rebalance.Verdict{Reason: rebalance.ReasonOnTarget}, decide(in))
}

func TestTheFirstOfTwoCausesIsTheReason(t *testing.T) {
	for i, first := range causes {
		for _, second := range causes[i+1:] {
			if changesGroup(first) || changesGroup(second) {
				continue
			}
			in := outOfMix()
			second.spoil(in) // so that where one mode excludes the other the first counts
			first.spoil(in)
			assert.Equal(t, first.want, decide(in).Reason, "%s, and %s", first.name, second.name)
		}
	}
}

// changesGroup: such a cause is no addition to others.
func changesGroup(c cause) bool {
	return c.want == rebalance.ReasonNoGain || c.want == rebalance.ReasonFloor
}

// Of several causes the first in the chain speaks.
func TestTheFirstCauseOfTheChainWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := outOfMix()
		var first *cause
		for i := range causes {
			c := &causes[i]
			if changesGroup(*c) {
				continue
			}
			if c.want == rebalance.ReasonReport && in.Settings.Mode == rebalance.Off { // one mode excludes the other
				continue
			}
			if rapid.IntRange(0, 3).Draw(t, c.name) == 0 {
				c.spoil(in)
				if first == nil {
					first = c
				}
			}
		}
		v := decide(in)
		if first == nil {
			require.Equal(t, rebalance.ReasonMove, v.Reason)
			return
		}
		require.Equal(t, first.want, v.Reason)
	})
}

func TestTimeAloneEndsWhatNamesATime(t *testing.T) {
	for _, c := range causes {
		if c.retryAt.IsZero() || c.want == reasonHeld { // holds are dropped by who keeps them
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			in := outOfMix()
			c.spoil(in)
			in.Cluster.Now = c.retryAt.Add(-time.Second)
			assert.Equal(t, c.want, decide(in).Reason, "just before")
			in.Cluster.Now = c.retryAt
			assert.Equal(t, cmp.Or(c.then, rebalance.ReasonMove), decide(in).Reason, "from then on")
		})
	}
}

func TestARolloutThatIsStuckOrEndlessDoesNotKeepReplicas(t *testing.T) {
	in := outOfMix()
	in.Group.Rollout = clusterstate.Rollout{Rolling: true, Stuck: true}
	in.History.RollingSince = noon
	assert.Equal(t, rebalance.ReasonMove, decide(in).Reason, "its controller gave up")
	in.Group.Rollout.Stuck = false
	in.History.RollingSince = time.Time{}
	v := decide(in)
	assert.Equal(t, rebalance.ReasonRollingOut, v.Reason)
	assert.Zero(t, v.RetryAt, "since when it rolls is not known, so neither is the end")
}

func TestAWindowThatNeverOpensNamesNoTime(t *testing.T) {
	in := outOfMix()
	in.Settings.Windows = window("0 3 29 2 *")
	in.Cluster.Now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	v := decide(in)
	assert.Equal(t, rebalance.ReasonOutsideWindow, v.Reason)
	assert.Equal(t, "no window for moves opens within a year", v.Message)
	assert.Zero(t, v.RetryAt)
}

func TestAReplicaThatIsKeptDoesNotKeepTheNext(t *testing.T) {
	in := outOfMix()
	in.Group.Assignments[4].Pod.LocalData = "scratch"
	v := decide(in)
	assert.Equal(t, rebalance.ReasonMove, v.Reason)
	assert.Equal(t, "web-2", v.Pod.Name)
	in.Group.Assignments[2].Pod.Pinned = true
	assert.Equal(t, rebalance.ReasonLocalStorage, decide(in).Reason, "the first of them speaks where none may move")
}

func TestPendingAndDepartingReplicasNeitherMoveNorBlock(t *testing.T) {
	in := outOfMix()
	in.Group.Assignments[4].Place, in.Group.Assignments[4].Pod.Ready = clusterstate.Pending, false
	in.Group.Assignments[4].On = in.Group.Assignments[4].Wants
	v := decide(in)
	assert.Equal(t, rebalance.ReasonMove, v.Reason)
	assert.Equal(t, "web-2", v.Pod.Name)
}

// Ten replicas shrank past a replica that was not Ready: slot 0 is free, and the
// replacement of the highest slot would take it and run on on-demand again.
func TestABorrowedReplicaBelowAFreeSlotMoves(t *testing.T) {
	m := split.New(70, 2) // O O S S S S O S S S O
	in := outOfMix()
	in.Group = groupOn(m, od, od, od, sp, sp, sp)
	in.Group.Assignments = append(in.Group.Assignments, replica(m, 7, od)) // slot 6, of on-demand, is free
	in.Group.Replicas = 7
	wrong := in.Group.WrongSide()
	require.Len(t, wrong, 1)
	assert.Equal(t, "web-7", wrong[0].Pod.Name)
	v := decide(in)
	assert.Equal(t, rebalance.ReasonMove, v.Reason, v.Message)
	assert.Equal(t, "web-2", v.Pod.Name)
	assert.Equal(t, capacity.Spot, v.Target)
}

func TestAReplicaOnANodeOfUnknownTypeGoesToTheTypeOfItsSlot(t *testing.T) {
	in := outOfMix()
	in.Group = groupOn(split.New(70, 2), od, capacity.Unknown, sp, sp, sp)
	v := decide(in)
	assert.Equal(t, rebalance.ReasonMove, v.Reason)
	assert.Equal(t, capacity.OnDemand, v.Target)
	assert.Equal(t, "pod web-1 moves from unknown to on-demand", v.Message)
}

// Pods of a rollout that are not available are not in the group of the old revision.
func TestNothingIsEvictedFromARolloutAtItsMaxUnavailable(t *testing.T) {
	for _, tc := range []struct {
		rollout clusterstate.Rollout
		want    *rebalance.Reason
	}{
		{clusterstate.Rollout{Rolling: true, Stuck: true, Unavailable: 1, MaxUnavailable: 1}, rebalance.ReasonMaxUnavailable},
		{clusterstate.Rollout{Rolling: true, Stuck: true, Unavailable: 1}, rebalance.ReasonMaxUnavailable},
		{clusterstate.Rollout{Rolling: true, Stuck: true, Unavailable: 1, MaxUnavailable: 2}, rebalance.ReasonMove},
		{clusterstate.Rollout{Rolling: true, Stuck: true}, rebalance.ReasonMove},
	} {
		in := outOfMix()
		in.Group.Rollout = tc.rollout
		assert.Equal(t, tc.want, decide(in).Reason, "%+v", tc.rollout)
	}
}
