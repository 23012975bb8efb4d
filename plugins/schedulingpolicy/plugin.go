// SPDX-License-Identifier: Apache-2.0

// Package schedulingpolicy is the scheduler plugin that scores the feasible nodes of a pod by its SchedulingPolicy, selects
// one of the best, and records what it decided.
//
// The framework has no extension point that selects a node: it takes one with the highest total of all plugins. So this
// plugin scores all nodes at once in PreScore, in floating point, and selects in NormalizeScore: the selected node gets 100
// points and every other node less. Its weight in the profile is larger than that of all other plugins together, so one point
// of it outweighs them.
package schedulingpolicy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/config/validation"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/internal/admission"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/plugins/reservation"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "SchedulingPolicy"

// SchedulingPolicy implements the extension points. The policies, the state of their strategies and the records are shared
// by all profiles of a scheduler.
type SchedulingPolicy struct {
	*shared
	handle    fwk.Handle
	admission admission.Check
	// preparer returns what prepares the bindings of groups, false in a profile without the plugin Reservation.
	preparer func() (preparer, bool)
	// governor governs pods without a policy, nil if none does.
	governor *governor
}

var (
	_ fwk.PreEnqueuePlugin  = &SchedulingPolicy{}
	_ fwk.PreFilterPlugin   = &SchedulingPolicy{}
	_ fwk.PreScorePlugin    = &SchedulingPolicy{}
	_ fwk.ScorePlugin       = &SchedulingPolicy{}
	_ fwk.ReservePlugin     = &SchedulingPolicy{}
	_ fwk.PermitPlugin      = &SchedulingPolicy{}
	_ fwk.BindPlugin        = &SchedulingPolicy{}
	_ fwk.PostBindPlugin    = &SchedulingPolicy{}
	_ fwk.EnqueueExtensions = &SchedulingPolicy{}
	_ fwk.SignPlugin        = &SchedulingPolicy{}
)

// Name returns the plugin's name.
func (pl *SchedulingPolicy) Name() string { return Name }

// EventsToRegister names the events after which a group of pods can be complete that was not, or a pod can have a group. The
// plugin rejects no other pod.
func (pl *SchedulingPolicy) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete | fwk.UpdatePodLabel}, QueueingHintFn: pl.sameGroup},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
	}, nil
}

// sameGroup queues a pod after an event of itself, of another pod of its group, or of a pod that can have had capacity for the
// group. Pods of other namespaces wake it only if they had a node: a tenant's new pods wake those of no other.
func (pl *SchedulingPolicy) sameGroup(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	now, _ := newObj.(*corev1.Pod)
	if now == nil {
		old, ok := oldObj.(*corev1.Pod)
		if !ok {
			return fwk.Queue, fmt.Errorf("want pods, got %T and %T", oldObj, newObj)
		}
		if old.Spec.NodeName != "" || old.Namespace == pod.Namespace {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
	if now.UID == pod.UID {
		return fwk.Queue, nil
	}
	if g := pl.governorOf(pod); now.Namespace == pod.Namespace && g != nil && g.groupOf(now) == g.groupOf(pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// NewFactory returns a plugin factory for one scheduler binary. The recorder records the decisions; the classifiers are those
// that CapacityMix shares, the preparers those of the plugin Reservation. The check is made under the lock of a node.
func NewFactory(recorder *Recorder, classifiers *capacitymix.Classifiers, preparers *reservation.Preparers,
	check admission.Check,
) perscheduler.Factory {
	schedulers := &perscheduler.Parts[*shared]{}
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := perscheduler.Args(Name, obj, validation.ValidateSchedulingPolicyArgs)
		if err != nil {
			return nil, err
		}
		pl := &SchedulingPolicy{handle: handle, admission: check, preparer: func() (preparer, bool) { return preparers.Get(handle) }}
		if args.DefaultPolicy != nil {
			compiled, err := rules.Compile(args.DefaultPolicy)
			if err != nil {
				return nil, fmt.Errorf("pluginConfig.%s.args.defaultPolicy.%w", Name, err)
			}
			pl.governor = newGovernor(compiled, "profile "+handle.ProfileName())
		}
		pl.shared, err = schedulers.Join(ctx, handle,
			func() (*shared, error) { return newShared(ctx, handle, args, recorder, classifiers) },
			func(*shared) error { return nil })
		if err != nil {
			return nil, err
		}
		pl.setDefaults(handle.ProfileName(), pl.governor)
		recorder.add(handle.ProfileName(), pl)
		return pl, nil
	}
}
