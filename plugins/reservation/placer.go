// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/internal/metrics"
)

const (
	// placements bounds how many nodes are looked for in a second, each of which takes as long as a scheduling cycle: so
	// Reservations that no node has capacity for delay pods little, however many there are. burst may come at once.
	placements, burst = 20, 200
	// interval is how often expirations are looked for.
	interval = time.Second
)

// Placer chooses the nodes of Reservations in the process that leads. It uses the scheduler's own algorithm, on its snapshot
// and between two scheduling cycles: so no pod takes a node's capacity while it is given to a Reservation.
type Placer struct {
	shared *shared
	limit  flowcontrol.RateLimiter

	// cycle is held during a scheduling cycle, inCycle by the goroutine of the cycles.
	cycle   sync.Mutex
	inCycle bool
	// verified is when what is held was compared with the nodes.
	verified time.Time
}

// reasons are those that the condition Reserved can have: a Reservation that is gone is counted nowhere.
var reasons = []string{
	v1alpha1.ReasonReserved, v1alpha1.ReasonUnschedulable, v1alpha1.ReasonTooMany, v1alpha1.ReasonInvalid, v1alpha1.ReasonUsed,
	v1alpha1.ReasonExpired,
}

// NewPlacer returns a Placer. It belongs to the plugin that is created with it.
func NewPlacer() *Placer {
	return &Placer{limit: flowcontrol.NewTokenBucketRateLimiter(placements, burst)}
}

// NextEntity is the function by which a scheduler gets the next pod.
type NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error)

// Between returns the scheduler's function for the next pod, which lets the Placer work until there is one.
func (p *Placer) Between(next NextEntity) NextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if p.inCycle {
			p.cycle.Unlock()
		}
		entity, err := next(logger)
		p.cycle.Lock()
		p.inCycle = true
		return entity, err
	}
}

// Run holds capacity until the context ends. It must be called when the process comes to lead. Where no profile has the
// plugin, it does nothing.
func (p *Placer) Run(ctx context.Context, s *scheduler.Scheduler) {
	if p.shared == nil || p.shared.writer == nil || p.shared.Wait(ctx) != nil {
		return
	}
	p.shared.ledger.Lead()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		p.round(ctx, s)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.shared.ledger.Changed():
		}
	}
}

// round looks for nodes, writes what has changed and wakes the pods that this concerns.
func (p *Placer) round(ctx context.Context, s *scheduler.Scheduler) {
	sh := p.shared
	if err := p.verify(ctx, s); err != nil {
		klog.FromContext(ctx).Error(err, "Compare what Reservations hold with what the pods of their nodes request")
	}
	for p.limit.TryAccept() {
		r := sh.ledger.Next(sh.clock.Now())
		if r == nil {
			break
		}
		node, err := p.place(ctx, s, r)
		switch why := (*framework.FitError)(nil); {
		case err == nil:
			sh.ledger.Hold(r, node, sh.clock.Now())
		case errors.As(err, &why), errors.Is(err, errNoProfile), errors.Is(err, scheduler.ErrNoNodesAvailable):
			sh.ledger.NotHeld(r, events.Truncate(err.Error()), sh.clock.Now())
		default:
			klog.FromContext(ctx).Error(err, "Hold capacity", "reservation", klog.KObj(r.Object))
			sh.ledger.NotHeld(r, "", sh.clock.Now())
		}
	}
	for _, u := range sh.ledger.Updates(sh.clock.Now()) {
		p.write(ctx, u)
	}
	sh.waiting.wake(sh.ledger.Freed(sh.clock.Now()))
	report(sh.ledger.Totals(sh.clock.Now()))
}

// report sets the metrics of Reservations.
func report(t reservations.Totals) {
	for _, reason := range reasons {
		metrics.Reservations.WithLabelValues(reason).Set(float64(t.Reservations[reason]))
	}
	metrics.ReservationReplicas.WithLabelValues("held").Set(float64(t.Held))
	metrics.ReservationReplicas.WithLabelValues("used").Set(float64(t.Used))
	metrics.ReservationReplicas.WithLabelValues("missing").Set(float64(t.Missing))
}

// errNoProfile is the error for a Reservation of another scheduler.
var errNoProfile = errors.New("spec.schedulerName: the scheduler has no such profile")

// verify releases what is held on nodes where it is not there any more.
func (p *Placer) verify(ctx context.Context, s *scheduler.Scheduler) error {
	now := p.shared.clock.Now()
	if now.Sub(p.verified) < interval || p.shared.ledger.View(now).Empty() {
		return nil
	}
	p.verified = now
	for _, profile := range s.Profiles { // they share the snapshot
		p.cycle.Lock()
		defer p.cycle.Unlock()
		snapshot, err := refreshed(ctx, s, profile)
		if err != nil {
			return err
		}
		p.shared.ledger.Verify(func(name string) fwk.NodeInfo {
			if node, err := snapshot.NodeInfos().Get(name); err == nil {
				return node
			}
			return nil
		}, now)
		break
	}
	return nil
}

// refreshed returns the scheduler's snapshot as of now. The caller holds Placer.cycle.
func refreshed(ctx context.Context, s *scheduler.Scheduler, profile framework.Framework) (*schedcache.Snapshot, error) {
	snapshot, ok := profile.SnapshotSharedLister().(*schedcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("want the scheduler's snapshot, got %T", profile.SnapshotSharedLister())
	}
	return snapshot, s.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

// place returns the node that the scheduler chooses for a pod that would use the capacity.
func (p *Placer) place(ctx context.Context, s *scheduler.Scheduler, r *reservations.Reservation) (string, error) {
	profile := s.Profiles[r.SchedulerName()]
	if profile == nil {
		return "", fmt.Errorf("%w: %q", errNoProfile, r.SchedulerName())
	}
	pod, err := framework.NewPodInfo(r.Pod())
	if err != nil {
		return "", err
	}
	p.cycle.Lock()
	defer p.cycle.Unlock()
	if _, err := refreshed(ctx, s, profile); err != nil {
		return "", err
	}
	result, err := s.SchedulePod(ctx, profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: pod})
	return result.SuggestedHost, err
}

// write writes a status or deletes a Reservation, and records an event if its condition has another reason. Conflicts are
// written again after the watch has delivered what changed.
func (p *Placer) write(ctx context.Context, u reservations.Update) {
	logger := klog.FromContext(ctx)
	if u.Delete {
		if err := p.shared.writer.remove(ctx, u.Object); err != nil {
			logger.Error(err, "Delete a finished Reservation", "reservation", klog.KObj(u.Object))
		}
		return
	}
	for _, cause := range u.Released {
		p.event(u.Object, corev1.EventTypeWarning, v1alpha1.ReasonReleased, cause)
	}
	written, err := p.shared.writer.status(ctx, u.Object)
	if err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			logger.Error(err, "Write the status of a Reservation", "reservation", klog.KObj(u.Object))
		}
		return
	}
	p.shared.ledger.Written(written)
	if u.Reason == "" {
		return
	}
	c := meta.FindStatusCondition(written.Status.Conditions, v1alpha1.ConditionReserved)
	kind := corev1.EventTypeNormal
	if u.Reason == v1alpha1.ReasonUnschedulable || u.Reason == v1alpha1.ReasonInvalid || u.Reason == v1alpha1.ReasonTooMany {
		kind = corev1.EventTypeWarning
	}
	p.event(written, kind, u.Reason, c.Message)
}

func (p *Placer) event(r *v1alpha1.Reservation, kind, reason, message string) {
	of := r.DeepCopy()
	of.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Reservation"))
	p.shared.recorder.Eventf(of, nil, kind, reason, "Reserving", "%s", events.Truncate(message))
}
