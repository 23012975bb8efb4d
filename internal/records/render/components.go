// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// Components of a record.
const (
	ComponentFunction = "function"
	ComponentODGM     = "odgm"
)

// Function is what is rendered of a function.
type Function struct {
	Spec *v1alpha1.FunctionSpec
	// Name is that of its workload and of its Service, "" for a function that runs in the ODGM.
	Name string
	// URL is where the function is reached within the cluster.
	URL      string
	Port     int32
	Replicas int32
	// MaxReplicas bounds them, 0 for no bound.
	MaxReplicas int32
	NFR         v1alpha1.NFRRequirements
	// Availability is that of NFR as a number, 0 for none.
	Availability float64
	// Utilization is the share of its CPU, in percent, that a replica should use.
	Utilization int64
	// Split is how much of it may be on spot capacity, nil if it requires no availability.
	Split *Split
	// Metrics is how its requests are measured, nil for the default.
	Metrics *v1alpha1.FunctionMetrics
}

// defaultUtilization is the share of its CPU, in percent, that a replica should use by default.
const defaultUtilization = 70

// defaultPort is where a function listens if neither record nor template has a port, as published function images do.
const defaultPort = 80

// noFunctionImage names what to set.
const noFunctionImage = "the function has no image: set this field (provision_config.container_image in a call of Deploy), " +
	"or records.defaultFunctionImage in the configuration of the controller"

// functionsOf returns the functions of a record.
func functionsOf(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings, n names) ([]Function, error) {
	spec := &record.Spec
	list := make([]Function, len(spec.DeploymentUnit.Functions))
	for i := range list {
		f := &spec.DeploymentUnit.Functions[i]
		list[i] = Function{Spec: f, Name: n.functions[i], URL: "wasm://" + f.FunctionKey, NFR: RequirementsOf(spec, f)}
		if list[i].Name == "" {
			continue
		}
		if cmp.Or(f.Image, s.DefaultFunctionImage) == "" {
			path := field.NewPath("spec", "deploymentUnit", "functions").Key(f.FunctionKey).Child("image")
			return nil, &Error{v1alpha1.ReasonImageMissing, field.Required(path, noFunctionImage)}
		}
		if a := list[i].NFR.Availability; a != nil {
			list[i].Availability = Number(*a)
			list[i].Split = new(SplitFor(list[i].Availability, s.Reliability))
		}
		list[i].Utilization = defaultUtilization
		if target := list[i].NFR.CPUUtilizationTarget; target != nil {
			list[i].Utilization = max(1, int64(100*Number(*target)+0.5))
		}
		list[i].URL = "http://" + list[i].Name + "." + record.Namespace + ".svc.cluster.local/"
		list[i].Port = cmp.Or(f.Port, configuredPort(f), t.Spec.DefaultPort, defaultPort)
		list[i].Metrics = cmp.Or(f.Metrics, t.Spec.Metrics)
		list[i].MaxReplicas = max(0, ptr.Deref(f.MaxScale, 0))
		list[i].Replicas = replicasOf(&list[i], s.Reliability)
	}
	return list, nil
}

// configuredPort returns the port that the configuration of a published image has it listen on, 0 for none.
func configuredPort(f *v1alpha1.FunctionSpec) int32 {
	port, err := strconv.ParseUint(string(f.Config["HTTP_PORT"]), 10, 16)
	if err != nil {
		return 0
	}
	return int32(port)
}

// replicasOf returns the replicas of a function: its minimum, else what its availability requires, within its bounds.
func replicasOf(f *Function, r Reliability) int32 {
	if f.Spec.MinScale != nil {
		return *f.Spec.MinScale
	}
	n := ReplicasFor(f.Availability, f.NFR.Consistency == v1alpha1.ConsistencyStrong, r)
	if f.MaxReplicas > 0 {
		n = min(n, f.MaxReplicas)
	}
	return n
}

// RequirementsOf returns the requirements of a function: its own, and for the others those of the record.
func RequirementsOf(spec *v1alpha1.DeploymentRecordSpec, f *v1alpha1.FunctionSpec) v1alpha1.NFRRequirements {
	own, all := ptr.Deref(f.NFRRequirements, v1alpha1.NFRRequirements{}), ptr.Deref(spec.NFRRequirements, v1alpha1.NFRRequirements{})
	return v1alpha1.NFRRequirements{
		MinThroughputRPS:     cmp.Or(own.MinThroughputRPS, all.MinThroughputRPS),
		MaxLatencyMS:         cmp.Or(own.MaxLatencyMS, all.MaxLatencyMS),
		Availability:         cmp.Or(own.Availability, all.Availability),
		CPUUtilizationTarget: cmp.Or(own.CPUUtilizationTarget, all.CPUUtilizationTarget),
		Consistency:          cmp.Or(own.Consistency, all.Consistency),
	}
}

const (
	// ODGMPort is where the ODGM serves; its Service has it under this number and under 80.
	ODGMPort = 8080
	// ZenohPort is where ODGMs, and functions with them, exchange data.
	ZenohPort = 17447
)

// ErrNoODGMImage is why a record with an ODGM cannot be rendered while no image is configured.
var ErrNoODGMImage = errors.New("the record has an ODGM, and records.odgmImage of the controller's configuration is empty: " +
	"set that field to an image, or spec.addons of the record to a list without odgm")

// ODGM is that of a record. The zero value is none.
type ODGM struct {
	// Members are its nodes. Each has a workload of its own, because each has a number among its peers.
	Members []Member
	// Service is the Service of all members, Address where functions reach it.
	Service, Address string
}

// Member is a node of an ODGM.
type Member struct {
	// Name is that of its workload.
	Name string
	// ID is its number, nil for the only member of a record that sets none.
	ID *v1alpha1.NodeID
}

// workloads returns the names of the workloads.
func (o *ODGM) workloads() (names []string) {
	for _, m := range o.Members {
		names = append(names, m.Name)
	}
	return names
}

// membersOf returns the nodes that run in this cluster: those that the record assigns to its environment, else as many as a partition
// has replicas. The first keeps its name when their number changes.
func membersOf(record *v1alpha1.DeploymentRecord) (members []Member) {
	c := ptr.Deref(record.Spec.ODGMConfig, v1alpha1.ODGMConfig{})
	var ids []*v1alpha1.NodeID
	switch here := c.NodeIDs[record.Spec.TargetEnvironment]; {
	case len(here) > 0:
		for _, id := range sortedIDs(sets.New(here...)) {
			ids = append(ids, &id)
		}
	case len(c.NodeIDs) > 0 || ptr.Deref(c.ReplicaCount, 1) <= 1: // the others run elsewhere, or there are none
		ids = []*v1alpha1.NodeID{c.NodeID}
	default:
		first, _ := ptr.Deref(c.NodeID, "1").Number() // the API server validates it
		for range *c.ReplicaCount {
			ids = append(ids, new(v1alpha1.NodeIDOf(first)))
			first++
		}
	}
	for i, id := range ids {
		suffix := "-odgm"
		if i > 0 {
			suffix = fmt.Sprintf("-odgm-%d", i)
		}
		members = append(members, Member{Name: ChildName(record.Name, suffix), ID: id})
	}
	return members
}

// memberIDs returns the numbers of all nodes, those of other clusters too, sorted, each once, with commas between them.
func memberIDs(c *v1alpha1.ODGMConfig, members []Member) string {
	ids := sets.New[v1alpha1.NodeID]()
	for _, of := range c.NodeIDs {
		ids.Insert(of...)
	}
	if len(members) > 1 {
		for _, m := range members {
			ids.Insert(*m.ID)
		}
	}
	var texts []string
	for _, id := range sortedIDs(ids) {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, ",")
}

// sortedIDs sorts by number: without leading zeros, the longer one is greater.
func sortedIDs(ids sets.Set[v1alpha1.NodeID]) []v1alpha1.NodeID {
	return slices.SortedFunc(maps.Keys(ids), func(a, b v1alpha1.NodeID) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// odgmOf returns the ODGM of a record.
func odgmOf(record *v1alpha1.DeploymentRecord, s Settings, n names) (ODGM, error) {
	switch on := HasODGM(&record.Spec, s.ODGM); {
	case !on && NeedsODGM(&record.Spec):
		err := errors.New("spec.addons or a WebAssembly function requests an ODGM, which is off (records.features.odgm)")
		return ODGM{}, &Error{v1alpha1.ReasonODGMOff, err}
	case !on:
		return ODGM{}, nil
	case s.ODGMImage == "":
		return ODGM{}, &Error{v1alpha1.ReasonImageMissing, ErrNoODGMImage}
	}
	return ODGM{Members: membersOf(record), Service: n.odgmService, Address: fmt.Sprintf("%s:%d", n.odgmService, ODGMPort)}, nil
}

// HasODGM reports whether a record has an ODGM: it is on, and the record names it or no addons at all.
func HasODGM(spec *v1alpha1.DeploymentRecordSpec, on bool) bool {
	return on && (spec.Addons == nil || slices.Contains(*spec.Addons, v1alpha1.AddonODGM))
}

// NeedsODGM reports whether a record requires an ODGM: it names the addon, or has a function that runs in it.
func NeedsODGM(spec *v1alpha1.DeploymentRecordSpec) bool {
	return spec.Addons != nil && slices.Contains(*spec.Addons, v1alpha1.AddonODGM) ||
		slices.ContainsFunc(spec.DeploymentUnit.Functions, func(f v1alpha1.FunctionSpec) bool { return runsInODGM(&f) })
}

func runsInODGM(f *v1alpha1.FunctionSpec) bool { return f.WASMModuleURL != "" }

// odgmManifests returns those of the template, else the controller's own: a Deployment and a Service, which has the advertised port
// and port 80. The Service selects the pods of all members.
func odgmManifests(t *v1alpha1.DeploymentTemplate) []string {
	if len(t.Spec.ODGMManifests) > 0 {
		return t.Spec.ODGMManifests
	}
	return []string{odgmDeployment, odgmService}
}

const odgmDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  labels: {app: "${name}"}
spec:
  replicas: 1
  selector:
    matchLabels: {app: "${name}"}
  template:
    metadata:
      labels: {app: "${name}"}
    spec:
      containers:
      - name: odgm
        image: ${image}
        env: ${env}
        readinessProbe:
          tcpSocket: {port: "${port}"}
        ports:
        - {name: http, containerPort: "${port}"}
        - {name: zenoh, containerPort: "${zenohPort}"}
`

const odgmService = `
apiVersion: v1
kind: Service
metadata:
  name: ${service}
  labels: {app: "${name}"}
spec:
  selector: {` + v1alpha1.OwnerLabel + `: "${recordLabel}", ` + v1alpha1.ComponentLabel + `: odgm}
  ports:
  - {name: http, port: 80, targetPort: "${port}"}
  - {name: odgm, port: "${port}", targetPort: "${port}"}
  - {name: zenoh, port: "${zenohPort}", targetPort: "${zenohPort}"}
`
