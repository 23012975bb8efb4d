// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Mix configures the controller of CapacityMixes.
type Mix struct {
	// rebalance specifies when and how replicas on the wrong capacity type are moved.
	//
	// +optional
	Rebalance Rebalance `json:"rebalance"`

	// interruptions specifies when an interruption domain is in quarantine, because its spot nodes were reclaimed.
	//
	// +optional
	Interruptions Interruptions `json:"interruptions"`

	// annotationRepairsPerMinute is the maximum number of pods per minute whose stale slot annotation is repaired, and of
	// those of which only the deletion cost is restored, from 0 to 6000. 0 disables both. Defaults to 60.
	//
	// +optional
	AnnotationRepairsPerMinute int32 `json:"annotationRepairsPerMinute"`

	// scaleIn is Pack (replicas of a ReplicaSet exchange their slots, so that a scale-in empties one node after the
	// other), Keep (each replica keeps its slot) or Auto (Pack if Karpenter or cluster-autoscaler is found, which remove
	// the empty nodes, otherwise Keep). annotationRepairsPerMinute also bounds these writes. Defaults to Auto.
	//
	// +optional
	ScaleIn ScaleIn `json:"scaleIn"`

	// gates specifies what happens to pods whose scheduling gate no scheduler removes.
	//
	// +optional
	Gates Gates `json:"gates"`

	// savings specifies the metrics of what mixes save, and where the prices of nodes are from.
	//
	// +optional
	Savings Savings `json:"savings"`
}

// ScaleIn is what the controller does with the slots of running replicas before a scale-in.
type ScaleIn string

const (
	// ScaleInAuto is ScaleInPack while an autoscaler removes empty nodes, otherwise ScaleInKeep.
	ScaleInAuto ScaleIn = "Auto"
	// ScaleInPack exchanges slots between replicas of one capacity type.
	ScaleInPack ScaleIn = "Pack"
	// ScaleInKeep exchanges none.
	ScaleInKeep ScaleIn = "Keep"
)

// Eviction is how the controller evicts the replicas that it moves.
type Eviction string

const (
	// EvictionAPI is the Eviction API.
	EvictionAPI Eviction = "API"
	// EvictionRequest is an EvictionRequest for pods that name responders, otherwise EvictionAPI.
	EvictionRequest Eviction = "Request"
)

func defaultMix() Mix {
	return Mix{
		Rebalance: Rebalance{
			Mode:                 v1alpha1.RebalanceModeEvict,
			MaxConcurrent:        1,
			StabilizationSeconds: 60,
			Provisioning:         v1alpha1.ProvisioningWait,
			Strategy:             v1alpha1.RebalanceStrategyEvict,
			Eviction:             EvictionAPI,
			PlaceholderImage:     "registry.k8s.io/pause:3.10",
			ClusterMaxConcurrent: 10,
			StartupGraceSeconds:  60,
			MoveTimeoutSeconds:   600,
			BackoffSeconds:       30,
			MaxBackoffSeconds:    1800,
			Canary:               Canary{Percent: 100, Namespaces: []string{}},
			HealthGate:           HealthGate{IntervalSeconds: 30, TimeoutSeconds: 5},
			Storm:                Storm{SharePercent: 20, MinNodes: 2, WindowSeconds: 60, QuietSeconds: 120},
		},
		Interruptions:              Interruptions{SharePercent: 20, QuarantineSeconds: 600, MaxQuarantineSeconds: 3600},
		AnnotationRepairsPerMinute: 60,
		ScaleIn:                    ScaleInAuto,
		Gates:                      Gates{FailOpenSeconds: 60},
		Savings:                    defaultSavings(),
	}
}

func (m *Mix) validate(path *field.Path) field.ErrorList {
	all := m.Rebalance.validate(path.Child("rebalance"))
	all = append(all, m.Interruptions.validate(path.Child("interruptions"))...)
	all = append(all, inRange(path.Child("annotationRepairsPerMinute"), m.AnnotationRepairsPerMinute, 0, 6000)...)
	if kinds := sets.New(ScaleInAuto, ScaleInPack, ScaleInKeep); !kinds.Has(m.ScaleIn) {
		all = append(all, field.NotSupported(path.Child("scaleIn"), m.ScaleIn, sets.List(kinds)))
	}
	all = append(all, m.Gates.validate(path.Child("gates"))...)
	return append(all, m.Savings.validate(path.Child("savings"))...)
}

// Interruptions configures when an interruption domain is in quarantine: berth-scheduler prefers spot nodes of other domains.
type Interruptions struct {
	// sharePercent is the percentage of the spot nodes of a domain, from 1 to 100, whose interruption starts a quarantine. One
	// interrupted node is the minimum. Defaults to 20.
	//
	// +optional
	SharePercent int32 `json:"sharePercent"`

	// quarantineSeconds is the duration of a quarantine for sharePercent of the nodes, in seconds from 0 to 86400. It is in
	// proportion to the interruptions of the last hours. 0 disables quarantines. Defaults to 600.
	//
	// +optional
	QuarantineSeconds int32 `json:"quarantineSeconds"`

	// maxQuarantineSeconds is the maximum duration of a quarantine, in seconds from 1 to 86400. Defaults to 3600.
	//
	// +optional
	MaxQuarantineSeconds int32 `json:"maxQuarantineSeconds"`
}

func (i *Interruptions) validate(path *field.Path) (all field.ErrorList) {
	all = append(all, inRange(path.Child("sharePercent"), i.SharePercent, 1, 100)...)
	all = append(all, inRange(path.Child("quarantineSeconds"), i.QuarantineSeconds, 0, 86400)...)
	return append(all, inRange(path.Child("maxQuarantineSeconds"), i.MaxQuarantineSeconds, 1, 86400)...)
}

// Rebalance configures how replicas on the wrong capacity type are moved. The first six fields are the defaults of
// spec.rebalance of CapacityMixes.
type Rebalance struct {
	// mode is Evict, Report (decide and report, but evict nothing) or Off, for mixes that do not set it. Defaults to
	// Evict.
	//
	// +optional
	Mode v1alpha1.RebalanceMode `json:"mode"`

	// maxConcurrent is the maximum number of replicas of one mix that are moved at the same time, from 1 to 100, for
	// mixes that do not set it. Defaults to 1.
	//
	// +optional
	MaxConcurrent int32 `json:"maxConcurrent"`

	// stabilizationSeconds is the time for which a workload must not have satisfied its mix before a replica is moved,
	// in seconds from 0 to 86400, for mixes that do not set it. Defaults to 60.
	//
	// +optional
	StabilizationSeconds int32 `json:"stabilizationSeconds"`

	// maxMovesPerHour is the maximum number of moves of one mix that begin within an hour, from 0 to 1000, for mixes that
	// do not set it. 0 means no maximum. Defaults to 0.
	//
	// +optional
	MaxMovesPerHour int32 `json:"maxMovesPerHour"`

	// provisioning is Wait (move a replica only to existing nodes) or Placeholder (first make an autoscaler launch a
	// node, by a placeholder pod), for mixes that do not set it. Placeholder requires manifests/rbac/placeholders.
	// Defaults to Wait.
	//
	// +optional
	Provisioning v1alpha1.Provisioning `json:"provisioning"`

	// strategy is Evict (evict a replica before its replacement is created), Surge (release it from its ReplicaSet, and evict it
	// once its replacement is available) or SurgeOrEvict (Evict for replicas that cannot be released), for mixes that do not set
	// it. Defaults to Evict.
	//
	// +optional
	Strategy v1alpha1.RebalanceStrategy `json:"strategy"`

	// eviction is API (evict a replica through the Eviction API) or Request (create an EvictionRequest for a pod that names
	// responders, where the API server has them, so that the operator of the pod answers in its own way). Defaults to API.
	//
	// +optional
	Eviction Eviction `json:"eviction"`

	// placeholderImage is the image of placeholder pods. Its entrypoint must run until it is stopped, without doing
	// anything. Defaults to registry.k8s.io/pause:3.10.
	//
	// +optional
	PlaceholderImage string `json:"placeholderImage"`

	// clusterMaxConcurrent is the maximum number of replicas in the cluster that are moved at the same time, from 1 to
	// 1000. Defaults to 10.
	//
	// +optional
	ClusterMaxConcurrent int32 `json:"clusterMaxConcurrent"`

	// clusterMaxMovesPerHour is the maximum number of moves in the cluster that begin within an hour, from 0 to 10000. 0
	// means no maximum. Defaults to 0.
	//
	// +optional
	ClusterMaxMovesPerHour int32 `json:"clusterMaxMovesPerHour"`

	// startupGraceSeconds is the time for which nothing is moved after the controller became the leader or the API
	// server became available again, in seconds from 0 to 3600. Defaults to 60.
	//
	// +optional
	StartupGraceSeconds int32 `json:"startupGraceSeconds"`

	// moveTimeoutSeconds is the time in which the replacement of an evicted replica must become Ready, otherwise the
	// move fails, and in which a placeholder pod must run and its replica must be evicted, in seconds from 1 to 86400.
	// Defaults to 600.
	//
	// +optional
	MoveTimeoutSeconds int32 `json:"moveTimeoutSeconds"`

	// backoffSeconds is the time between a failed move of a workload and its next move, in seconds from 1 to 86400. It
	// doubles with every consecutive failure. Defaults to 30.
	//
	// +optional
	BackoffSeconds int32 `json:"backoffSeconds"`

	// maxBackoffSeconds is the maximum of the doubled time, in seconds from backoffSeconds to 604800. Defaults to 1800.
	//
	// +optional
	MaxBackoffSeconds int32 `json:"maxBackoffSeconds"`

	// canary restricts moves to some mixes.
	//
	// +optional
	Canary Canary `json:"canary"`

	// healthGate is a query that must be good before a replica is moved.
	//
	// +optional
	HealthGate HealthGate `json:"healthGate"`

	// storm defines a spot storm: spot capacity that is reclaimed on a large scale. Nothing is moved during a storm.
	//
	// +optional
	Storm Storm `json:"storm"`
}

// Canary specifies the mixes whose replicas are moved: all mixes in namespaces, and percent of the others. A workload
// without a CapacityMix counts as a mix of its name.
type Canary struct {
	// percent is the share of mixes, from 0 to 100, by a hash of namespace and name. A larger percentage adds mixes, and
	// removes none. 100 means all mixes. Defaults to 100.
	//
	// +optional
	Percent int32 `json:"percent"`

	// namespaces are namespaces all mixes of which are included. Defaults to none.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces"`
}

// HealthGate specifies a query of Prometheus that decides whether replicas are moved. If the answer is a scalar or a
// vector of at least one value, and none is 0 or NaN, replicas are moved. Without an answer, no replica is moved.
type HealthGate struct {
	// prometheusURL is the http or https URL of the server. Defaults to empty, which disables the gate.
	//
	// +optional
	PrometheusURL string `json:"prometheusURL"`

	// query is the query, in PromQL. It is required with prometheusURL.
	//
	// +optional
	Query string `json:"query"`

	// bearerTokenFile is the path of a bearer token, which is read for every request. Defaults to empty.
	//
	// +optional
	BearerTokenFile string `json:"bearerTokenFile"`

	// caFile is the path of the certificate authorities of the server, PEM. Defaults to empty, which means those of the
	// system.
	//
	// +optional
	CAFile string `json:"caFile"`

	// intervalSeconds is the time between two queries, in seconds from 5 to 3600. Defaults to 30.
	//
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds"`

	// timeoutSeconds is the maximum time of a query, in seconds from 1 to 60. Defaults to 5.
	//
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds"`
}

func (g *HealthGate) validate(path *field.Path) field.ErrorList {
	all := httpURL(path.Child("prometheusURL"), g.PrometheusURL)
	switch query := path.Child("query"); {
	case g.PrometheusURL != "" && strings.TrimSpace(g.Query) == "":
		all = append(all, field.Required(query, "must be set together with prometheusURL"))
	case g.PrometheusURL == "" && g.Query != "":
		all = append(all, field.Required(path.Child("prometheusURL"), "must be set together with query"))
	}
	all = append(all, inRange(path.Child("intervalSeconds"), g.IntervalSeconds, 5, 3600)...)
	return append(all, inRange(path.Child("timeoutSeconds"), g.TimeoutSeconds, 1, 60)...)
}

func (c *Canary) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("percent"), c.Percent, 0, 100)
	for i, name := range c.Namespaces {
		all = append(all, named(path.Child("namespaces").Index(i), name, validation.IsDNS1123Label)...)
	}
	return all
}

// Storm defines a spot storm: at least minNodes spot nodes, and more than sharePercent of all spot nodes, depart within
// windowSeconds.
type Storm struct {
	// sharePercent is the percentage of spot nodes that must be exceeded, from 1 to 100. 100 disables the detection of
	// storms. Defaults to 20.
	//
	// +optional
	SharePercent int32 `json:"sharePercent"`

	// minNodes is the minimum number of departing spot nodes, from 1 to 10000, so that in a small cluster a single node
	// is not a storm. Defaults to 2.
	//
	// +optional
	MinNodes int32 `json:"minNodes"`

	// windowSeconds is the time in which the spot nodes depart, in seconds from 1 to 3600. Defaults to 60.
	//
	// +optional
	WindowSeconds int32 `json:"windowSeconds"`

	// quietSeconds is the time for which a storm lasts after the last spot node departed, in seconds from 0 to 86400.
	// Defaults to 120.
	//
	// +optional
	QuietSeconds int32 `json:"quietSeconds"`
}

// Gates specifies what happens to pods whose scheduling gate berth.dev/capacity-mix no scheduler removes.
type Gates struct {
	// failOpenSeconds is the time without a leading scheduler, and with the pod pending, after which the controller
	// removes the gate of the pod without a slot, in seconds from 0 to 3600. 0 disables it. If the schedulers run
	// without leader election, the gate is removed from pods that have been pending for 120 seconds more. Defaults to
	// 60.
	//
	// +optional
	FailOpenSeconds int32 `json:"failOpenSeconds"`

	// schedulerLease is the lease of the schedulers' leader election.
	//
	// +optional
	SchedulerLease SchedulerLease `json:"schedulerLease"`
}

// SchedulerLease identifies a lease. Defaults to the lease of leaderElection in schedulerConfig, or without that file
// to berth-scheduler in berth-system.
type SchedulerLease struct {
	// namespace is the namespace of the lease. It must be set together with name.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease. It must be set together with namespace.
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
		return append(all, field.Required(lease.Child("name"), "must be set together with namespace"))
	case l.Namespace == "":
		return append(all, field.Required(lease.Child("namespace"), "must be set together with name"))
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
	strategies := sets.New(v1alpha1.RebalanceStrategyEvict, v1alpha1.RebalanceStrategySurge, v1alpha1.RebalanceStrategySurgeOrEvict)
	if !strategies.Has(r.Strategy) {
		all = append(all, field.NotSupported(path.Child("strategy"), r.Strategy, sets.List(strategies)))
	}
	if evictions := sets.New(EvictionAPI, EvictionRequest); !evictions.Has(r.Eviction) {
		all = append(all, field.NotSupported(path.Child("eviction"), r.Eviction, sets.List(evictions)))
	}
	if image := r.PlaceholderImage; image == "" || strings.TrimSpace(image) != image {
		all = append(all, field.Invalid(path.Child("placeholderImage"), image, "must be an image without leading or trailing blanks"))
	}
	storm := path.Child("storm")
	for _, n := range []struct {
		path               *field.Path
		value, least, most int32
	}{
		{path.Child("maxConcurrent"), r.MaxConcurrent, 1, 100},
		{path.Child("stabilizationSeconds"), r.StabilizationSeconds, 0, 86400},
		{path.Child("clusterMaxConcurrent"), r.ClusterMaxConcurrent, 1, 1000},
		{path.Child("maxMovesPerHour"), r.MaxMovesPerHour, 0, 1000},
		{path.Child("clusterMaxMovesPerHour"), r.ClusterMaxMovesPerHour, 0, 10000},
		{path.Child("startupGraceSeconds"), r.StartupGraceSeconds, 0, 3600},
		{path.Child("moveTimeoutSeconds"), r.MoveTimeoutSeconds, 1, 86400},
		{path.Child("backoffSeconds"), r.BackoffSeconds, 1, 86400},
		// A backoff out of its bounds is one error, not two.
		{path.Child("maxBackoffSeconds"), r.MaxBackoffSeconds, min(max(r.BackoffSeconds, 1), 86400), 604800},
		{storm.Child("sharePercent"), r.Storm.SharePercent, 1, 100},
		{storm.Child("minNodes"), r.Storm.MinNodes, 1, 10000},
		{storm.Child("windowSeconds"), r.Storm.WindowSeconds, 1, 3600},
		{storm.Child("quietSeconds"), r.Storm.QuietSeconds, 0, 86400},
	} {
		all = append(all, inRange(n.path, n.value, n.least, n.most)...)
	}
	all = append(all, r.Canary.validate(path.Child("canary"))...)
	return append(all, r.HealthGate.validate(path.Child("healthGate"))...)
}
