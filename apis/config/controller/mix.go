// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Mix is how CapacityMixes are kept.
type Mix struct {
	// rebalance says when and how replicas on the wrong capacity type are moved.
	//
	// +optional
	Rebalance Rebalance `json:"rebalance"`

	// annotationRepairsPerMinute is how many pods may have a stale slot annotation repaired in a minute, from 0 to 6000.
	// 0 repairs none. Default: 60.
	//
	// +optional
	AnnotationRepairsPerMinute int32 `json:"annotationRepairsPerMinute"`

	// gates is what happens to pods whose scheduling gate no scheduler removes.
	//
	// +optional
	Gates Gates `json:"gates"`
}

func defaultMix() Mix {
	return Mix{
		Rebalance: Rebalance{
			Mode:                 v1alpha1.RebalanceModeEvict,
			MaxConcurrent:        1,
			StabilizationSeconds: 60,
			Provisioning:         v1alpha1.ProvisioningWait,
			PlaceholderImage:     "registry.k8s.io/pause:3.10",
			ClusterMaxConcurrent: 10,
			StartupGraceSeconds:  60,
			MoveTimeoutSeconds:   600,
			BackoffSeconds:       30,
			MaxBackoffSeconds:    1800,
			Storm:                Storm{SharePercent: 20, MinNodes: 2, WindowSeconds: 60, QuietSeconds: 120},
		},
		AnnotationRepairsPerMinute: 60,
		Gates:                      Gates{FailOpenSeconds: 60},
	}
}

func (m *Mix) validate(path *field.Path) field.ErrorList {
	all := m.Rebalance.validate(path.Child("rebalance"))
	all = append(all, inRange(path.Child("annotationRepairsPerMinute"), m.AnnotationRepairsPerMinute, 0, 6000)...)
	return append(all, m.Gates.validate(path.Child("gates"))...)
}

// Rebalance is when and how replicas on the wrong capacity type are moved. The first four fields are the defaults of
// spec.rebalance of CapacityMixes.
type Rebalance struct {
	// mode is Evict, Report (decide and report it, evict nothing) or Off, for mixes that do not say. Default: Evict.
	//
	// +optional
	Mode v1alpha1.RebalanceMode `json:"mode"`

	// maxConcurrent is how many replicas of one mix may be being moved at a time, from 1 to 100, for mixes that do not say.
	// Default: 1.
	//
	// +optional
	MaxConcurrent int32 `json:"maxConcurrent"`

	// stabilizationSeconds is how long a workload must have been out of its mix before a replica is moved, from 0 to 86400
	// seconds, for mixes that do not say. Default: 60.
	//
	// +optional
	StabilizationSeconds int32 `json:"stabilizationSeconds"`

	// provisioning is Wait (move a replica only to nodes that are there) or Placeholder (ask an autoscaler for the room
	// first, by a placeholder pod), for mixes that do not say. Placeholder needs manifests/rbac/placeholders. Default: Wait.
	//
	// +optional
	Provisioning v1alpha1.Provisioning `json:"provisioning"`

	// placeholderImage is the image of placeholder pods, which has to run until it is stopped and nothing else. Default:
	// registry.k8s.io/pause:3.10.
	//
	// +optional
	PlaceholderImage string `json:"placeholderImage"`

	// clusterMaxConcurrent is how many replicas of the whole cluster may be being moved at a time, from 1 to 1000.
	// Default: 10.
	//
	// +optional
	ClusterMaxConcurrent int32 `json:"clusterMaxConcurrent"`

	// startupGraceSeconds is how long nothing is moved after this replica became the leader, or the API server came back,
	// from 0 to 3600 seconds. Default: 60.
	//
	// +optional
	StartupGraceSeconds int32 `json:"startupGraceSeconds"`

	// moveTimeoutSeconds is how long the replacement of an evicted replica may take to be Ready before the move counts as
	// failed, and how long a placeholder pod may take to run and its replica to be let go, from 1 to 86400 seconds.
	// Default: 600.
	//
	// +optional
	MoveTimeoutSeconds int32 `json:"moveTimeoutSeconds"`

	// backoffSeconds is how long a workload rests after a failed move, from 1 to 86400 seconds. It doubles with every
	// further failure. Default: 30.
	//
	// +optional
	BackoffSeconds int32 `json:"backoffSeconds"`

	// maxBackoffSeconds is where the doubling ends, from backoffSeconds to 604800 seconds. Default: 1800.
	//
	// +optional
	MaxBackoffSeconds int32 `json:"maxBackoffSeconds"`

	// storm says when spot capacity is being taken back on a large scale. Nothing is moved then.
	//
	// +optional
	Storm Storm `json:"storm"`
}

// Storm is when spot nodes go away in numbers: at least minNodes of them, and more than sharePercent of all spot nodes,
// within windowSeconds.
type Storm struct {
	// sharePercent is the share of the spot nodes that must be exceeded, from 1 to 100 percent; 100 means that nothing is a
	// storm. Default: 20.
	//
	// +optional
	SharePercent int32 `json:"sharePercent"`

	// minNodes is the number of spot nodes that must go, from 1 to 10000, so that a small cluster has no storm for each
	// of its nodes. Default: 2.
	//
	// +optional
	MinNodes int32 `json:"minNodes"`

	// windowSeconds is the time in which they must go, from 1 to 3600 seconds. Default: 60.
	//
	// +optional
	WindowSeconds int32 `json:"windowSeconds"`

	// quietSeconds is how long a storm lasts after the last spot node went, from 0 to 86400 seconds. Default: 120.
	//
	// +optional
	QuietSeconds int32 `json:"quietSeconds"`
}

// Gates is what happens to pods with the scheduling gate berth.dev/capacity-mix when no scheduler opens it.
type Gates struct {
	// failOpenSeconds is how long no scheduler must have led, and a pod have waited, before its gate is opened without a
	// slot, from 0 to 3600 seconds. 0 opens none, ever. Where the schedulers run without leader election, a pod that has
	// waited 120 seconds more than that is let go. Default: 60.
	//
	// +optional
	FailOpenSeconds int32 `json:"failOpenSeconds"`

	// schedulerLease is the lease by which the schedulers agree on their leader.
	//
	// +optional
	SchedulerLease SchedulerLease `json:"schedulerLease"`
}

// SchedulerLease names a lease. Default: empty, which means the one in leaderElection of schedulerConfig, or without that
// file berth-scheduler in berth-system.
type SchedulerLease struct {
	// namespace is where the lease is. It is set together with name.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease.
	//
	// +optional
	Name string `json:"name"`
}

func (g Gates) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("failOpenSeconds"), g.FailOpenSeconds, 0, 3600)
	lease, l := path.Child("schedulerLease"), g.SchedulerLease
	switch {
	case l.Name == "" && l.Namespace == "":
		return all
	case l.Name == "":
		return append(all, field.Required(lease.Child("name"), "namespace is set"))
	case l.Namespace == "":
		return append(all, field.Required(lease.Child("namespace"), "name is set"))
	}
	all = append(all, named(lease.Child("namespace"), l.Namespace, validation.IsDNS1123Label)...)
	return append(all, named(lease.Child("name"), l.Name, validation.IsDNS1123Subdomain)...)
}

func (r Rebalance) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	modes := sets.New(v1alpha1.RebalanceModeEvict, v1alpha1.RebalanceModeReport, v1alpha1.RebalanceModeOff)
	if !modes.Has(r.Mode) {
		all = append(all, field.NotSupported(path.Child("mode"), r.Mode, sets.List(modes)))
	}
	provisioning := sets.New(v1alpha1.ProvisioningWait, v1alpha1.ProvisioningPlaceholder)
	if !provisioning.Has(r.Provisioning) {
		all = append(all, field.NotSupported(path.Child("provisioning"), r.Provisioning, sets.List(provisioning)))
	}
	if image := r.PlaceholderImage; image == "" || strings.TrimSpace(image) != image {
		all = append(all, field.Invalid(path.Child("placeholderImage"), image, "must be an image, without blanks around it"))
	}
	storm := path.Child("storm")
	for _, n := range []struct {
		path               *field.Path
		value, least, most int32
	}{
		{path.Child("maxConcurrent"), r.MaxConcurrent, 1, 100},
		{path.Child("stabilizationSeconds"), r.StabilizationSeconds, 0, 86400},
		{path.Child("clusterMaxConcurrent"), r.ClusterMaxConcurrent, 1, 1000},
		{path.Child("startupGraceSeconds"), r.StartupGraceSeconds, 0, 3600},
		{path.Child("moveTimeoutSeconds"), r.MoveTimeoutSeconds, 1, 86400},
		{path.Child("backoffSeconds"), r.BackoffSeconds, 1, 86400},
		// A backoff out of its bounds is one mistake, not two.
		{path.Child("maxBackoffSeconds"), r.MaxBackoffSeconds, min(max(r.BackoffSeconds, 1), 86400), 604800},
		{storm.Child("sharePercent"), r.Storm.SharePercent, 1, 100},
		{storm.Child("minNodes"), r.Storm.MinNodes, 1, 10000},
		{storm.Child("windowSeconds"), r.Storm.WindowSeconds, 1, 3600},
		{storm.Child("quietSeconds"), r.Storm.QuietSeconds, 0, 86400},
	} {
		all = append(all, inRange(n.path, n.value, n.least, n.most)...)
	}
	return all
}
