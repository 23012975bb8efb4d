// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	answers "berth.dev/berth/internal/mix/evictions"
	"berth.dev/berth/internal/mix/rebalance"
)

// others request evictions.
type others struct {
	pods      map[types.UID]time.Time
	withdrawn error
	fates     map[types.UID]answers.Fate
}

func (o *others) Of(namespace string) map[types.UID]time.Time {
	if namespace != "shop" {
		return nil
	}
	return o.pods
}
func (o *others) Confirm(context.Context, *corev1.Pod) error { return o.withdrawn }
func (o *others) Decided(_ string, pod types.UID, f answers.Fate) {
	if o.fates == nil {
		o.fates = map[types.UID]answers.Fate{}
	}
	o.fates[pod] = f
}

// The watch may be behind a withdrawal.
func TestARequestIsConfirmedBeforeTheRelease(t *testing.T) {
	for _, withdrawn := range []error{nil, errors.New("withdrawn")} {
		p, s := strayController(t, 1)
		p.Requests = &others{withdrawn: withdrawn}
		g := p.State.Group(strayKey)
		a := rebalance.Action{
			Step: rebalance.StepFlee, Of: rebalance.Entry{Group: *g}, Verdict: rebalance.Verdict{Pod: g.Assignments[0].Pod}, Flees: true, Requested: true,
		}
		require.Len(t, s.pods, 1)
		r := p.flee(t.Context(), a)
		patches := 0
		for _, call := range p.Client.(*fake.Clientset).Actions() {
			if call.GetVerb() == "patch" {
				patches++
			}
		}
		if withdrawn == nil {
			require.NoError(t, r.Err)
			assert.Equal(t, 1, patches)
			continue
		}
		require.Error(t, r.Err)
		assert.Zero(t, patches)
	}
}

// What becomes of a pod that is named is reported each time its workload is reconciled, also where nothing else changed.
func TestTheFateOfARequestIsReported(t *testing.T) {
	p, _ := strayController(t, 2)
	p.DryRun = true // nothing moves
	p.reconcile(t, "shop")
	g := p.State.Group(strayKey)
	uid := g.Assignments[0].Pod.UID
	o := &others{pods: map[types.UID]time.Time{uid: time.Unix(1, 0), "another": time.Unix(1, 0)}}
	p.Requests = o
	p.reconcile(t, "shop")
	require.Contains(t, o.fates, uid)
	assert.Equal(t, answers.Refused, o.fates[uid].State)
	assert.Contains(t, o.fates[uid].Why, "rebalance.strategy")
	assert.NotContains(t, o.fates, types.UID("another"))
}
