// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// withoutFilter are the in-tree plugins that filter no node. Without them, what only they read, such as disruption
// budgets, is not listed.
var withoutFilter = []string{
	names.PrioritySort, names.SchedulingGates, names.DefaultPreemption, names.DefaultBinder,
	names.ImageLocality, names.NodeResourcesBalancedAllocation,
}

// ours are Berth's own plugins: those that filter nodes are replayed without the plugin, the others only score.
var ours = []string{capacityMix, reservation, resourceLimit, schedulingPolicy, topologySpreadScore}

// replayable keeps the in-tree plugins of a profile that filter nodes. Their order is kept, because it determines the
// reason for which a node is rejected.
func replayable(p *schedconfig.KubeSchedulerProfile, extenders []schedconfig.Extender) replayed {
	inTree := plugins.NewInTreeRegistry()
	r := replayed{}
	keep := func(set schedconfig.PluginSet) schedconfig.PluginSet {
		kept := schedconfig.PluginSet{Disabled: set.Disabled}
		for _, pl := range set.Enabled {
			_, known := inTree[pl.Name]
			switch {
			case !known && !slices.Contains(ours, pl.Name):
				r.skipped = append(r.skipped, pl.Name)
			case known && !slices.Contains(withoutFilter, pl.Name):
				kept.Enabled = append(kept.Enabled, pl)
			}
		}
		return kept
	}
	off := schedconfig.PluginSet{Disabled: []schedconfig.Plugin{{Name: "*"}}}
	// The framework requires these two plugins. They never run.
	only := func(name string) schedconfig.PluginSet {
		return schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: name}}, Disabled: off.Disabled}
	}
	r.profile = schedconfig.KubeSchedulerProfile{SchedulerName: p.SchedulerName, Plugins: &schedconfig.Plugins{
		MultiPoint: keep(p.Plugins.MultiPoint), PreFilter: keep(p.Plugins.PreFilter), Filter: keep(p.Plugins.Filter),
		PreEnqueue: off, PostFilter: off, PreScore: off, Score: off, Reserve: off, Permit: off, PreBind: off, PostBind: off,
		QueueSort: only(names.PrioritySort), Bind: only(names.DefaultBinder),
	}}
	for _, c := range p.PluginConfig {
		if _, known := inTree[c.Name]; known {
			r.profile.PluginConfig = append(r.profile.PluginConfig, forFilter(c))
		}
	}
	for i := range extenders {
		if extenders[i].FilterVerb != "" {
			r.skipped = append(r.skipped, "extender "+extenders[i].URLPrefix)
		}
	}
	slices.Sort(r.skipped)
	r.skipped = slices.Compact(r.skipped)
	return r
}

// forFilter removes the arguments of a plugin that only scoring uses. For PodTopologySpread these are the soft default
// constraints: with any default constraint it lists all ReplicaSets, StatefulSets and Services, to determine which pods
// the constraint applies to.
func forFilter(c schedconfig.PluginConfig) schedconfig.PluginConfig {
	args, ok := c.Args.(*schedconfig.PodTopologySpreadArgs)
	if !ok {
		return c
	}
	hard := &schedconfig.PodTopologySpreadArgs{TypeMeta: args.TypeMeta, DefaultingType: schedconfig.ListDefaulting}
	if args.DefaultingType == schedconfig.ListDefaulting {
		for _, constraint := range args.DefaultConstraints {
			if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
				hard.DefaultConstraints = append(hard.DefaultConstraints, constraint)
			}
		}
	}
	return schedconfig.PluginConfig{Name: c.Name, Args: hard}
}

// enables reports whether a profile enables a plugin at any extension point.
func enables(p *schedconfig.Plugins, name string) bool {
	for _, set := range []schedconfig.PluginSet{
		p.MultiPoint, p.PreEnqueue, p.QueueSort, p.PreFilter, p.Filter, p.PostFilter, p.PreScore, p.Score,
		p.Reserve, p.Permit, p.PreBind, p.Bind, p.PostBind,
	} {
		if slices.ContainsFunc(set.Enabled, func(pl schedconfig.Plugin) bool { return pl.Name == name }) {
			return true
		}
	}
	return false
}

// runsAt reports whether a profile runs a plugin at an extension point: it is enabled there, or at all points and not
// disabled at this one.
func runsAt(p *schedconfig.Plugins, at schedconfig.PluginSet, name string) bool {
	in := func(list []schedconfig.Plugin, names ...string) bool {
		return slices.ContainsFunc(list, func(pl schedconfig.Plugin) bool { return slices.Contains(names, pl.Name) })
	}
	return in(at.Enabled, name) || in(p.MultiPoint.Enabled, name) && !in(at.Disabled, name, "*")
}

// enabled reports whether the replay runs an in-tree plugin.
func (r replayed) enabled(name string) bool { return enables(r.profile.Plugins, name) }

// spreadsByDefault reports whether the profile has constraints for spreading pods that have none. Which pods they count is
// determined by the selectors of Services and controllers.
func (r replayed) spreadsByDefault() bool {
	return slices.ContainsFunc(r.profile.PluginConfig, func(c schedconfig.PluginConfig) bool {
		args, is := c.Args.(*schedconfig.PodTopologySpreadArgs)
		return is && len(args.DefaultConstraints) > 0
	})
}
