// SPDX-License-Identifier: Apache-2.0

package oaasimport

import "berth.dev/berth/apis/v1alpha1"

// The specs of both generations, as the class runtime manager writes them. Fields have the names of its JSON.

type runtimeSpec struct {
	PackageClassKey  string        `json:"package_class_key"`
	ClassKey         string        `json:"class_key"` // of some versions between the generations
	SelectedTemplate string        `json:"selected_template"`
	Addons           *[]string     `json:"addons"`
	ODGM             *odgm         `json:"odgm_config"`
	Functions        []function    `json:"functions"`
	Requirements     *requirements `json:"nfr_requirements"`
	Enforcement      *enforcement  `json:"enforcement"`
	// NFR has the enforcement in the earlier generation.
	NFR       *nfr       `json:"nfr"`
	Telemetry *telemetry `json:"telemetry"`
}

type nfr struct {
	Enforcement *enforcement `json:"enforcement"`
}

type enforcement struct {
	Mode       string   `json:"mode"`
	Dimensions []string `json:"dimensions"`
}

type requirements struct {
	MinThroughputRPS *int32 `json:"min_throughput_rps"`
	MaxLatencyMS     *int32 `json:"max_latency_ms"`
	// AvailabilityPercent is from 0 to 100.
	AvailabilityPercent *float64 `json:"availability_pct"`
	Consistency         string   `json:"consistency"`
}

type function struct {
	FunctionKey       string                          `json:"function_key"`
	Description       string                          `json:"description"`
	AvailableLocation string                          `json:"available_location"`
	QoS               *qos                            `json:"qos_requirement"`
	Provision         provision                       `json:"provision_config"`
	Config            map[string]v1alpha1.ConfigValue `json:"config"`
	// These have been part of provision_config since the later generation.
	Replicas       *int32    `json:"replicas"`
	ContainerImage string    `json:"container_image"`
	Resources      resources `json:"resource_requirements"`
}

type qos struct {
	Throughput *int32 `json:"throughput"`
	// Availability is from 0 to 1.
	Availability *float64 `json:"availability"`
}

type resources struct {
	CPURequest    string `json:"cpu_request"`
	MemoryRequest string `json:"memory_request"`
	CPULimit      string `json:"cpu_limit"`
	MemoryLimit   string `json:"memory_limit"`
}

type provision struct {
	resources
	ContainerImage string `json:"container_image"`
	WASMModuleURL  string `json:"wasm_module_url"`
	Port           int32  `json:"port"`
	MaxConcurrency int32  `json:"max_concurrency"`
	NeedHTTP2      bool   `json:"need_http2"`
	MinScale       *int32 `json:"min_scale"`
	MaxScale       *int32 `json:"max_scale"`
}

type odgm struct {
	Collections    []string                           `json:"collections"`
	PartitionCount *int32                             `json:"partition_count"`
	ReplicaCount   *int32                             `json:"replica_count"`
	ShardType      string                             `json:"shard_type"`
	Invocations    *invocations                       `json:"invocations"`
	Options        map[string]v1alpha1.AttributeValue `json:"options"`
	Log            string                             `json:"log"`
	NodeID         *uint64                            `json:"node_id"`
	NodeIDs        map[string][]uint64                `json:"env_node_ids"`
	Assignments    map[string][]assignment            `json:"collection_assignments"`
}

type assignment struct {
	Primary  *uint64  `json:"primary"`
	Replica  []uint64 `json:"replica"`
	ShardIDs []uint64 `json:"shard_ids"`
}

type invocations struct {
	Routes   map[string]route `json:"fn_routes"`
	Disabled []string         `json:"disabled_fn"`
}

type route struct {
	URL           string   `json:"url"`
	FunctionKey   string   `json:"function_key"`
	WASMModuleURL string   `json:"wasm_module_url"`
	Stateless     *bool    `json:"stateless"`
	Standby       *bool    `json:"standby"`
	ActiveGroup   []uint64 `json:"active_group"`
}

type telemetry struct {
	Enabled            *bool                              `json:"enabled"`
	Traces             *bool                              `json:"traces"`
	Metrics            *bool                              `json:"metrics"`
	Logs               *bool                              `json:"logs"`
	SamplingRate       *float64                           `json:"sampling_rate"`
	ServiceName        string                             `json:"service_name"`
	ResourceAttributes map[string]v1alpha1.AttributeValue `json:"resource_attributes"`
}
