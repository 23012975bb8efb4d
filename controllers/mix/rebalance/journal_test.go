// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/rebalance"
)

// kept is the ConfigMap of a fake API server, and what it answers instead if that is not nil.
type kept struct {
	object  *corev1.ConfigMap
	version int
	refuse  error
}

// keepJournal has a fake API server keep one ConfigMap.
func keepJournal(c *fake.Clientset) *kept {
	k := &kept{}
	c.AddReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		switch {
		case k.refuse != nil:
			return true, nil, k.refuse
		case k.object == nil:
			return true, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), "moves")
		}
		return true, k.object.DeepCopy(), nil
	})
	c.AddReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if k.refuse != nil {
			return true, nil, k.refuse
		}
		var o corev1.ConfigMap
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &o); err != nil {
			return true, nil, err
		}
		if o.ResourceVersion != "" && (k.object == nil || o.ResourceVersion != k.object.ResourceVersion) {
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), "moves", nil)
		}
		k.version++
		o.ResourceVersion = fmt.Sprint(k.version)
		k.object = &o
		return true, o.DeepCopy(), nil
	})
	return k
}

// journaled is strayController with a journal.
func journaled(t *testing.T, pods int) (*fixture, *server, *kept) {
	t.Helper()
	p, s := strayController(t, pods)
	k := keepJournal(p.Client.(*fake.Clientset))
	p.Journal = types.NamespacedName{Namespace: "berth-system", Name: "moves"}
	p.Defaults.Stabilization = 0
	return p, s, k
}

// successor is a new leader of the same cluster.
func successor(t *testing.T, of *fixture) *fixture {
	t.Helper()
	o := of.Options
	o.Workloads = workloads.NewStore()
	c, err := New(o)
	require.NoError(t, err)
	c.proof.take, c.storm = of.proof.take, of.storm
	o.State.Changed = c.Changed
	return fixtureOf(c)
}

// byAnnotation takes the CapacityMix away: the pods get their mix by annotations, and no status keeps anything.
func byAnnotation(p *fixture, s *server) {
	p.State.Mixes.Delete("shop", "web")
	for name, pod := range s.pods {
		pod = pod.DeepCopy()
		pod.Annotations[v1alpha1.SpotPercentAnnotation] = "100"
		s.pods[name] = pod
		p.State.SetPod(pod)
	}
}

// S2, L2: the replacement of the evicted pod does not come, and leader follows leader.
func TestLeadersThatFollowEachOtherEvictOnePod(t *testing.T) {
	p, s, _ := journaled(t, 4)
	byAnnotation(p, s)
	for range 6 {
		p.reconcile(t, "shop")
		for _, name := range s.evicted {
			delete(s.pods, name)
			p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: name}, "")
		}
		p.Clock.(*clocktesting.FakeClock).Step(3 * time.Minute)
		p = successor(t, p)
	}
	p.reconcile(t, "shop")
	assert.Len(t, s.evicted, 1)
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, 4, e.Had)
	assert.Equal(t, int32(1), e.Failures, "it timed out once")
	assert.Equal(t, rebalance.ReasonReplicasMissing, e.Verdict.Reason)
}

func TestANewLeaderCountsTheMovesOfTheLastOne(t *testing.T) {
	p, s, _ := journaled(t, 4)
	byAnnotation(p, s)
	p.reconcile(t, "shop")
	require.Len(t, s.evicted, 1)
	next := successor(t, p)
	next.ClusterMaxConcurrent = 1
	next.Changed(strayKey)
	next.drain(t)
	e, _ := next.Workloads.Get(strayKey)
	require.Len(t, e.Moves, 1)
	assert.Equal(t, types.UID("shop-"+s.evicted[0]+"-0"), e.Moves[0].UID)
	inFlight := next.Workloads.Budgets(entryIn("other")).InFlight
	assert.Equal(t, 1, inFlight)
	assert.False(t, e.Restored)
}

func TestNothingIsEvictedThatIsNotRecorded(t *testing.T) {
	for name, refuse := range map[string]error{
		"the right is missing":           apierrors.NewForbidden(corev1.Resource("configmaps"), "moves", nil),
		"the API server does not answer": apierrors.NewTimeoutError("slow", 1),
	} {
		t.Run(name, func(t *testing.T) {
			p, s, k := journaled(t, 4)
			p.Grace = 0
			k.refuse = refuse
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			assert.Equal(t, rebalance.ReasonUnrecorded, p.reasonOf(t, ""))
			e, _ := p.Workloads.Get(strayKey)
			for _, h := range e.Held {
				assert.Contains(t, h.Verdict.Message, "journal of moves")
			}
			k.refuse = nil
			p.Clock.(*clocktesting.FakeClock).Step(rebalance.HoldRefused)
			p.reconcile(t, "shop")
			assert.NotEmpty(t, s.evicted)
		})
	}
}

// A leader that another one has followed without its notice.
func TestALeaderThatWasFollowedEvictsNothing(t *testing.T) {
	p, s, k := journaled(t, 4)
	p.reconcile(t, "shop") // it has written
	require.NotEmpty(t, s.evicted)
	n := len(s.evicted)
	next := successor(t, p)
	next.drain(t)
	k.version++
	k.object.ResourceVersion, k.object.Data[writerKey] = fmt.Sprint(k.version), next.journal.writer

	for i := range 3 {
		pod := podOf("shop", sceneOwner{"clone.example/v1", "CloneSet", "late"}, i, 0)
		pod.Spec.NodeName = "on-demand"
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	for range 3 {
		p.reconcile(t, "shop")
		p.Clock.(*clocktesting.FakeClock).Step(rebalance.HoldRefused)
	}
	assert.Len(t, s.evicted, n)
}

// A conflict of its first write does not have a new leader take the one before it for another one that has followed.
func TestANewLeaderWritesAgainAfterAConflict(t *testing.T) {
	for name, conflict := range map[string]func(*kept){
		"the request was refused on its way": func(k *kept) { k.refuse = apierrors.NewConflict(corev1.Resource("configmaps"), "moves", nil) },
		"a user has labeled the ConfigMap": func(k *kept) {
			k.version++
			k.object.ResourceVersion = fmt.Sprint(k.version)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, k := journaled(t, 4)
			p.reconcile(t, "shop")
			n := len(s.evicted)
			require.NotZero(t, n)
			for _, name := range s.evicted {
				delete(s.pods, name)
				p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: name}, "")
			}
			next := successor(t, p)
			next.reconcile(t, "other") // it has read the journal, and had nothing to write
			require.NotEqual(t, next.journal.writer, k.object.Data[writerKey])
			conflict(k)
			next.journal.dirty = true
			next.reconcile(t, "other")
			k.refuse = nil
			next.Clock.(*clocktesting.FakeClock).Step(rebalance.HoldRefused)
			next.reconcile(t, "other")
			assert.Equal(t, next.journal.writer, k.object.Data[writerKey])
		})
	}
}

func TestAJournalThatWasDeletedIsWrittenAgain(t *testing.T) {
	p, s, k := journaled(t, 2)
	p.reconcile(t, "shop")
	require.NotEmpty(t, s.evicted)
	k.object = nil
	e, _ := p.Workloads.Get(strayKey)
	e.Failures++
	p.Workloads.Put(e)
	p.journal.note(rebalance.RecordOf(&e, p.Clock.Now()))
	p.reconcile(t, "other")
	require.NotNil(t, k.object)
	assert.Contains(t, k.object.Data[journalKey], `"failures":1`)
}

func TestTheRecordOfAWorkloadThatIsGoneIsForgotten(t *testing.T) {
	p, _, k := journaled(t, 1)
	p.reconcile(t, "shop")
	p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "web-0"}, "")
	p.Clock.(*clocktesting.FakeClock).Step(forgetAfter / 2)
	p.reconcile(t, "shop")
	p.reconcile(t, "shop")
	assert.Contains(t, k.object.Data[journalKey], strayKey.ID, "its pods may come back")
	p.Clock.(*clocktesting.FakeClock).Step(forgetAfter)
	p.journal.dirty = true
	p.reconcile(t, "other")
	assert.NotContains(t, k.object.Data[journalKey], strayKey.ID)
}
