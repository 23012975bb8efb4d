// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/rebalance"
)

// An admission webhook may react to each attempt: one that refuses is called less and less often.
func TestARefusedEvictionBacksOffLikeAMoveThatFailed(t *testing.T) {
	p, s := strayController(t, 4)
	attempts := 0
	s.on["evict"] = func() error { attempts++; return apierrors.NewInternalError(errors.New("failed calling webhook")) }
	began := p.Clock.Now()
	for p.Clock.Now().Before(began.Add(6 * time.Hour)) {
		p.reconcile(t, "shop")
		p.Clock.(*clocktesting.FakeClock).Step(10 * time.Second)
	}
	// The longest pause of the tests is shorter than half an hour; each hour has a few attempts.
	assert.LessOrEqual(t, attempts, int(6*time.Hour/p.MaxBackoff)+10)
	assert.GreaterOrEqual(t, attempts, 3)
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, rebalance.ReasonEvictionFailed, e.Verdict.Reason)
	assert.Contains(t, e.Verdict.Message, "failed calling webhook")
	assert.Equal(t, int32(attempts), e.Failures)

	s.on["evict"] = func() error {
		attempts++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("denied"))
	}
	p.Clock.(*clocktesting.FakeClock).Step(p.MaxBackoff)
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(strayKey)
	assert.Equal(t, rebalance.ReasonRefused, e.Verdict.Reason)
	assert.Equal(t, int32(1), e.Failures, "another cause")

	delete(s.on, "evict")
	p.Clock.(*clocktesting.FakeClock).Step(p.MaxBackoff)
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(strayKey)
	assert.NotEmpty(t, s.evicted)
	assert.Zero(t, e.Refusal)
}
