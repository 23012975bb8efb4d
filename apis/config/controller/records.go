// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Records configures how DeploymentRecords are rendered, measured and scaled.
type Records struct {
	// profile sets the features that are not set individually: dev, edge or full. prod and production mean full, any
	// other name means dev. It also affects the selection of templates. Defaults to full.
	//
	// +optional
	Profile string `json:"profile"`

	// features enables or disables individual features, overriding the profile. Defaults to none.
	//
	// +optional
	Features Features `json:"features"`

	// environment describes the location of the cluster. It affects the selection of templates.
	//
	// +optional
	Environment Environment `json:"environment"`

	// templateNamespace is the namespace of the DeploymentTemplates for all records. Defaults to empty, which means the
	// namespace of the controller.
	//
	// +optional
	TemplateNamespace string `json:"templateNamespace"`

	// schedulerName is the schedulerName of the pods of records whose template sets none. If empty, none is set.
	// Defaults to berth-scheduler.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// defaultFunctionImage is the image of functions that set none. Defaults to empty, which means that their record is
	// Degraded.
	//
	// +optional
	DefaultFunctionImage string `json:"defaultFunctionImage"`

	// odgmImage is the image of the object data grid manager (ODGM). Defaults to empty, which means that a record with
	// an ODGM is Degraded.
	//
	// +optional
	ODGMImage string `json:"odgmImage"`

	// router is the Service of the zenoh router that functions and ODGMs connect to, as namespace/name or
	// namespace/name:port. The port defaults to 17447. Defaults to empty, which means none.
	//
	// +optional
	Router string `json:"router"`

	// otlpEndpoint is the http or https URL of the OpenTelemetry collector that functions and ODGMs with telemetry send
	// to (OTLP). Defaults to empty, which means the default of their SDK.
	//
	// +optional
	OTLPEndpoint string `json:"otlpEndpoint"`

	// reliability describes the reliability of nodes. It determines the percentage of a record's replicas on spot
	// nodes.
	//
	// +optional
	Reliability Reliability `json:"reliability"`

	// prometheus is the server from which the metrics of records are read. Defaults to none, which disables
	// measurements.
	//
	// +optional
	Prometheus Prometheus `json:"prometheus"`

	// nfr configures how recommendations are made and applied.
	//
	// +optional
	NFR NFR `json:"nfr"`
}

// Features are the features of the controller. Unset features default to the profile.
type Features struct {
	// nfrEnforcement applies the recommendations of records whose mode is Enforce.
	//
	// +optional
	NFREnforcement *bool `json:"nfrEnforcement"`

	// hpa creates a HorizontalPodAutoscaler for every function whose requirements are enforced.
	//
	// +optional
	HPA *bool `json:"hpa"`

	// knative enables templates that render Knative Services, if the API server serves them. No profile enables it.
	//
	// +optional
	Knative *bool `json:"knative"`

	// odgm enables the object data grid manager (ODGM) of records.
	//
	// +optional
	ODGM *bool `json:"odgm"`
}

// Environment describes the location of the cluster.
type Environment struct {
	// edge specifies that the cluster is at the edge. Defaults to false.
	//
	// +optional
	Edge bool `json:"edge"`

	// datacenter specifies that the cluster is in a data center. Defaults to false.
	//
	// +optional
	Datacenter bool `json:"datacenter"`
}

// Reliability describes the reliability of nodes.
type Reliability struct {
	// onDemandAvailability is the fraction of time in which a replica on an on-demand node is available, above 0 and
	// below 1. Defaults to "0.99".
	//
	// +optional
	OnDemandAvailability string `json:"onDemandAvailability"`

	// interruptionsPerHour is the average number of times per hour that a spot node is reclaimed, from 0 to 60.
	// Defaults to "0.05", once in twenty hours.
	//
	// +optional
	InterruptionsPerHour string `json:"interruptionsPerHour"`

	// recoveryMinutes is the time until a replica of a reclaimed node is available on another node, in minutes from 1
	// to 1440. Defaults to 5.
	//
	// +optional
	RecoveryMinutes int32 `json:"recoveryMinutes"`
}

// Prometheus configures the connection to the Prometheus server.
type Prometheus struct {
	// url is the http or https URL of the server. Defaults to empty.
	//
	// +optional
	URL string `json:"url"`

	// bearerTokenFile is the path of a bearer token, which is read for every request. Defaults to empty.
	//
	// +optional
	BearerTokenFile string `json:"bearerTokenFile"`

	// caFile is the path of the certificate authorities of the server, PEM. Defaults to empty, which means those of the
	// system.
	//
	// +optional
	CAFile string `json:"caFile"`
}

// NFR configures how recommendations are made and applied.
type NFR struct {
	// intervalSeconds is the time between two measurements of a record, in seconds from 5 to 3600. Defaults to 60.
	//
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds"`

	// stabilitySeconds is the time for which a recommendation must be stable before it is applied, in seconds from 0 to
	// 86400. Defaults to 180.
	//
	// +optional
	StabilitySeconds int32 `json:"stabilitySeconds"`

	// cooldownSeconds is the time for which nothing is applied after a recommendation was applied, in seconds from 0 to
	// 86400. Defaults to 120.
	//
	// +optional
	CooldownSeconds int32 `json:"cooldownSeconds"`

	// maxReplicas is the maximum number of replicas that a recommendation sets, from 1 to 10000. Defaults to 20.
	//
	// +optional
	MaxReplicas int32 `json:"maxReplicas"`

	// maxReplicaDeltaPercent is the maximum change of replicas at a time, from 1 to 1000 percent, but at least one
	// replica. Defaults to 30.
	//
	// +optional
	MaxReplicaDeltaPercent int32 `json:"maxReplicaDeltaPercent"`

	// tolerancePercent is the difference up to which nothing is changed, from 0 to 100 percent. Defaults to 10.
	//
	// +optional
	TolerancePercent int32 `json:"tolerancePercent"`
}

func defaultRecords() Records {
	return Records{
		Profile:       "full",
		SchedulerName: "berth-scheduler",
		Reliability:   Reliability{OnDemandAvailability: "0.99", InterruptionsPerHour: "0.05", RecoveryMinutes: 5},
		NFR: NFR{
			IntervalSeconds: 60, StabilitySeconds: 180, CooldownSeconds: 120,
			MaxReplicas: 20, MaxReplicaDeltaPercent: 30, TolerancePercent: 10,
		},
	}
}

// zenohPort is the default port of zenoh routers.
const zenohPort = "17447"

// RouterAddress returns the locator of the zenoh router, "" if there is none.
func (r *Records) RouterAddress() string {
	if r.Router == "" {
		return ""
	}
	namespace, name, port := r.router()
	return fmt.Sprintf("tcp/%s.%s.svc.cluster.local:%s", name, namespace, port)
}

func (r *Records) router() (namespace, name, port string) {
	namespace, name, _ = strings.Cut(r.Router, "/")
	name, port, is := strings.Cut(name, ":")
	if !is {
		port = zenohPort
	}
	return namespace, name, port
}

func (r *Records) validateRouter(path *field.Path) field.ErrorList {
	if r.Router == "" {
		return nil
	}
	namespace, name, port := r.router()
	problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1035Label(name)...)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		problems = append(problems, "the port must be a number from 1 to 65535")
	}
	var all field.ErrorList
	for _, problem := range problems {
		all = append(all, field.Invalid(path, r.Router, "must be namespace/name or namespace/name:port of a Service: "+problem))
	}
	return all
}

func (r *Records) validate(path *field.Path) field.ErrorList {
	all := namedIfSet(path.Child("templateNamespace"), r.TemplateNamespace, validation.IsDNS1123Label)
	all = append(all, namedIfSet(path.Child("schedulerName"), r.SchedulerName, validation.IsDNS1123Subdomain)...)
	all = append(all, r.validateRouter(path.Child("router"))...)
	all = append(all, httpURL(path.Child("otlpEndpoint"), r.OTLPEndpoint)...)
	all = append(all, r.Reliability.validate(path.Child("reliability"))...)
	all = append(all, r.Prometheus.validate(path.Child("prometheus"))...)
	return append(all, r.NFR.validate(path.Child("nfr"))...)
}

func (r *Reliability) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if n, err := strconv.ParseFloat(r.OnDemandAvailability, 64); err != nil || !(n > 0 && n < 1) {
		all = append(all, field.Invalid(path.Child("onDemandAvailability"), r.OnDemandAvailability, "must be a number above 0 and below 1"))
	}
	if n, err := strconv.ParseFloat(r.InterruptionsPerHour, 64); err != nil || !(n >= 0 && n <= 60) {
		all = append(all, field.Invalid(path.Child("interruptionsPerHour"), r.InterruptionsPerHour, "must be a number from 0 to 60"))
	}
	return append(all, inRange(path.Child("recoveryMinutes"), r.RecoveryMinutes, 1, 1440)...)
}

func (p *Prometheus) validate(path *field.Path) field.ErrorList {
	return httpURL(path.Child("url"), p.URL)
}

// httpURL refuses what is neither empty nor an address of HTTP.
func httpURL(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return field.ErrorList{field.Invalid(path, text, "must be an http or https address")}
	}
	return nil
}

func (n *NFR) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("intervalSeconds"), n.IntervalSeconds, 5, 3600)
	all = append(all, inRange(path.Child("stabilitySeconds"), n.StabilitySeconds, 0, 86400)...)
	all = append(all, inRange(path.Child("cooldownSeconds"), n.CooldownSeconds, 0, 86400)...)
	all = append(all, inRange(path.Child("maxReplicas"), n.MaxReplicas, 1, 10000)...)
	all = append(all, inRange(path.Child("maxReplicaDeltaPercent"), n.MaxReplicaDeltaPercent, 1, 1000)...)
	return append(all, inRange(path.Child("tolerancePercent"), n.TolerancePercent, 0, 100)...)
}
