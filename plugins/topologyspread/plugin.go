// SPDX-License-Identifier: Apache-2.0

// Package topologyspread is the scoring of kube-scheduler's PodTopologySpread
// for pods whose siblings CapacityMix does not count.
//
// By default PodTopologySpread prefers zones and nodes with few pods of the same
// ReplicaSet, StatefulSet or Service, and looks at every pod of the cluster for
// every pod that it places. CapacityMix prefers them as well, from counts that
// its ledger keeps. So in the profiles that Berth ships, this plugin replaces
// the scoring of PodTopologySpread. It does the same, except for pods with a mix
// and without constraints of their own, for which it does nothing.
package topologyspread

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/internal/cyclestate"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "TopologySpreadScore"

// Plugin implements the extension points.
type Plugin struct {
	inTree *podtopologyspread.PodTopologySpread
}

var (
	_ fwk.PreScorePlugin    = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// New returns the plugin. It has no arguments: the constraints are those that
// PodTopologySpread has by default. A profile with other default constraints
// leaves this plugin out.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("want no args, got %T", args)
	}
	pl, err := podtopologyspread.New(ctx, &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.SystemDefaulting}, handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("PodTopologySpread: %w", err)
	}
	inTree, ok := pl.(*podtopologyspread.PodTopologySpread)
	if !ok {
		return nil, fmt.Errorf("PodTopologySpread is a %T", pl)
	}
	return &Plugin{inTree: inTree}, nil
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// EventsToRegister returns none: the plugin refuses no pod.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod is that of PodTopologySpread, which signs no pod while it has default constraints.
func (pl *Plugin) SignPod(ctx context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return pl.inTree.SignPod(ctx, pod)
}

// skip is shared: the framework does not change a status that reports it.
var skip = fwk.NewStatus(fwk.Skip)

// PreScore leaves pods to SchedulingPolicy that have a policy, whose scores replace all others, and to CapacityMix pods that
// it has counted, unless they state themselves how they are to be spread.
func (pl *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if cyclestate.ReadPolicy(state) != nil || len(pod.Spec.TopologySpreadConstraints) == 0 && capacitymix.Governs(state) {
		return skip
	}
	return pl.inTree.PreScore(ctx, state, pod, nodes)
}

// Score is that of PodTopologySpread.
func (pl *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return pl.inTree.Score(ctx, state, pod, node)
}

// ScoreExtensions normalises as PodTopologySpread does.
func (pl *Plugin) ScoreExtensions() fwk.ScoreExtensions {
	return pl.inTree.ScoreExtensions()
}
