// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	_ "berth.dev/berth/internal/mix/arguments/scheme" // decodes the plugins' arguments
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/reservation"
	"berth.dev/berth/plugins/resourcelimit"
	"berth.dev/berth/plugins/schedulingpolicy"
	"berth.dev/berth/plugins/topologyspread"
	"berth.dev/berth/scheduler/upstream"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

// manifest is the profile that Berth ships.
const manifest = "manifests/scheduler/second-scheduler.yaml"

// profileOf returns the profile that a peer schedules with.
func profileOf(peer string, s Scenario) (*schedconfig.KubeSchedulerProfile, error) {
	if size, ok := samples[peer]; ok {
		p, err := shipped(size)
		if err != nil {
			return nil, err
		}
		switch peer {
		case BerthBatching:
			withoutDefaultConstraints(p)
		case BerthNoPolicies:
			withoutPlugin(p, schedulingpolicy.Name)
		case BerthNoReservations:
			withoutPlugin(p, reservation.Name)
		}
		return p, nil
	}
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	p := &defaults.Profiles[0]
	p.SchedulerName = builders.Scheduler
	switch peer {
	case Batching:
		withoutDefaultConstraints(p)
	case FewNodes:
		p.PercentageOfNodesToScore = new(int32(max(1, 10_000/s.Nodes)))
	case Floor:
		*p = schedconfig.KubeSchedulerProfile{SchedulerName: builders.Scheduler, Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			PreFilter: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: oneNodeName}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
		}}
	}
	return p, nil
}

// samples are the peers that are Berth, with their nodeSampleSize.
var samples = map[string]int32{
	Berth16: 16, Berth32: 32, Berth100: 100, BerthAll: 0, BerthBatching: 16, BerthPolicy: 16, BerthSelector: 16, BerthNoPolicies: 16,
	BerthNoReservations: 16,
}

// withoutPlugin takes a plugin out of the shipped profile.
func withoutPlugin(p *schedconfig.KubeSchedulerProfile, name string) {
	for _, at := range []*schedconfig.PluginSet{&p.Plugins.MultiPoint, &p.Plugins.PostFilter, &p.Plugins.Bind} {
		at.Enabled = slices.DeleteFunc(at.Enabled, func(e schedconfig.Plugin) bool { return e.Name == name })
	}
	p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c schedconfig.PluginConfig) bool { return c.Name == name })
}

// withoutDefaultConstraints takes the default constraints out of a profile, and the plugin that replaces
// PodTopologySpread while it has them: either signs no pod with them.
func withoutDefaultConstraints(p *schedconfig.KubeSchedulerProfile) {
	for _, c := range p.PluginConfig {
		if args, ok := c.Args.(*schedconfig.PodTopologySpreadArgs); ok {
			args.DefaultingType, args.DefaultConstraints = schedconfig.ListDefaulting, nil
		}
	}
	for _, at := range []*schedconfig.PluginSet{&p.Plugins.PreScore, &p.Plugins.Score} {
		at.Enabled = slices.DeleteFunc(at.Enabled, func(e schedconfig.Plugin) bool { return e.Name == topologyspread.Name })
		at.Disabled = slices.DeleteFunc(at.Disabled, func(e schedconfig.Plugin) bool { return e.Name == names.PodTopologySpread })
	}
}

// shipped is the profile of the manifest, with another nodeSampleSize.
func shipped(sampleSize int32) (*schedconfig.KubeSchedulerProfile, error) {
	root, err := bench.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, manifest))
	if err != nil {
		return nil, err
	}
	o, _, err := schedscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	c, ok := o.(*schedconfig.KubeSchedulerConfiguration)
	if !ok || len(c.Profiles) != 1 {
		return nil, fmt.Errorf("%s is a %T, not a configuration with one profile", manifest, o)
	}
	for _, pc := range c.Profiles[0].PluginConfig {
		if args, ok := pc.Args.(*config.CapacityMixArgs); ok {
			args.NodeSampleSize = sampleSize
		}
	}
	return &c.Profiles[0], nil
}

func registry() frameworkruntime.Registry {
	recorder := schedulingpolicy.NewRecorder(decision.NewStore(clock.RealClock{}))
	return frameworkruntime.Registry{
		capacitymix.Name:      capacitymix.NewFactory(),
		resourcelimit.Name:    resourcelimit.NewFactory(),
		reservation.Name:      reservation.NewFactory(nil, nil),
		schedulingpolicy.Name: schedulingpolicy.NewFactory(recorder, nil, nil, upstream.Admission{}),
		topologyspread.Name:   topologyspread.New,
		oneNodeName:           newOneNode,
	}
}

const oneNodeName = "OneNode"

// oneNode names the node of each pod, one after the other: what is left of the
// cycle is what every scheduler of this framework pays.
type oneNode struct{ next int }

func newOneNode(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &oneNode{}, nil
}

func (*oneNode) Name() string { return oneNodeName }

func (p *oneNode) PreFilter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	p.next++
	return &fwk.PreFilterResult{NodeNames: sets.New(nodes[p.next%len(nodes)].Node().Name)}, nil
}

func (*oneNode) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
