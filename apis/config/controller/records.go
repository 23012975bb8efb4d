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

// Records is how DeploymentRecords are rendered, measured and scaled.
type Records struct {
	// profile sets the features that are not set one by one: dev, edge, full, or prod and production, which are full; any
	// other name is dev. Templates are chosen by it too. Default: full.
	//
	// +optional
	Profile string `json:"profile"`

	// features turns single features on or off, whatever the profile says. Default: none.
	//
	// +optional
	Features Features `json:"features"`

	// environment says in what kind of place the cluster is. Templates are chosen by it.
	//
	// +optional
	Environment Environment `json:"environment"`

	// templateNamespace has the DeploymentTemplates of all records. Default: empty, which means the namespace that the
	// controller runs in.
	//
	// +optional
	TemplateNamespace string `json:"templateNamespace"`

	// schedulerName is put on the pods of records whose template names none; empty puts none. Default: berth-scheduler.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// defaultFunctionImage is the image of functions that name none. Default: empty, which means that such a record is
	// Degraded.
	//
	// +optional
	DefaultFunctionImage string `json:"defaultFunctionImage"`

	// odgmImage is the image of the object data grid manager. Default: empty, which means that a record that has one is
	// Degraded.
	//
	// +optional
	ODGMImage string `json:"odgmImage"`

	// router is the Service of the zenoh router that functions and object data grid managers connect to, as namespace/name or
	// namespace/name:port. Without a port it is 17447. Default: empty, which means none.
	//
	// +optional
	Router string `json:"router"`

	// reliability is what is known of the nodes: how much of a record may be on spot follows from it.
	//
	// +optional
	Reliability Reliability `json:"reliability"`

	// prometheus is where the records are measured. Default: none, which measures nothing.
	//
	// +optional
	Prometheus Prometheus `json:"prometheus"`

	// nfr is how recommendations are made and applied.
	//
	// +optional
	NFR NFR `json:"nfr"`
}

// Features are what a profile sets, if they are absent.
type Features struct {
	// nfrEnforcement applies recommendations of records whose mode is Enforce.
	//
	// +optional
	NFREnforcement *bool `json:"nfrEnforcement"`

	// hpa makes a HorizontalPodAutoscaler for every function that is enforced.
	//
	// +optional
	HPA *bool `json:"hpa"`

	// knative lets templates be used that make Knative Services, once the API server has them.
	//
	// +optional
	Knative *bool `json:"knative"`

	// odgm lets records have an object data grid manager.
	//
	// +optional
	ODGM *bool `json:"odgm"`
}

// Environment says in what kind of place the cluster is.
type Environment struct {
	// edge says that it is at the edge. Default: false.
	//
	// +optional
	Edge bool `json:"edge"`

	// datacenter says that it is in a data center. Default: false.
	//
	// +optional
	Datacenter bool `json:"datacenter"`
}

// Reliability is what is known of the nodes.
type Reliability struct {
	// onDemandAvailability is the share of time that a replica on an on-demand node answers, more than 0 and less than 1.
	// Default: "0.99".
	//
	// +optional
	OnDemandAvailability string `json:"onDemandAvailability"`

	// interruptionsPerHour is how often a spot node is taken back in an hour, from 0 to 60. Default: "0.05", once in twenty
	// hours.
	//
	// +optional
	InterruptionsPerHour string `json:"interruptionsPerHour"`

	// recoveryMinutes is how long it takes until a replica that was on it answers elsewhere, from 1 to 1440 minutes.
	// Default: 5.
	//
	// +optional
	RecoveryMinutes int32 `json:"recoveryMinutes"`
}

// Prometheus is how the Prometheus server is reached.
type Prometheus struct {
	// url is its address, http or https. Default: empty.
	//
	// +optional
	URL string `json:"url"`

	// bearerTokenFile is the path of a token that is sent along, read for every request. Default: empty.
	//
	// +optional
	BearerTokenFile string `json:"bearerTokenFile"`

	// caFile is the path of the certificate authorities of the server, PEM. Default: empty, which means the system's.
	//
	// +optional
	CAFile string `json:"caFile"`
}

// NFR is how recommendations are made and applied.
type NFR struct {
	// intervalSeconds is how often every record is measured, from 5 to 3600 seconds. Default: 60.
	//
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds"`

	// stabilitySeconds is how long a recommendation must stand before it is applied, from 0 to 86400 seconds. Default: 180.
	//
	// +optional
	StabilitySeconds int32 `json:"stabilitySeconds"`

	// cooldownSeconds is how long nothing is applied after something was, from 0 to 86400 seconds. Default: 120.
	//
	// +optional
	CooldownSeconds int32 `json:"cooldownSeconds"`

	// maxReplicas is the most replicas that are set, from 1 to 10000. Default: 20.
	//
	// +optional
	MaxReplicas int32 `json:"maxReplicas"`

	// maxReplicaDeltaPercent is by how much replicas change at a time, from 1 to 1000 per cent, at least by one.
	// Default: 30.
	//
	// +optional
	MaxReplicaDeltaPercent int32 `json:"maxReplicaDeltaPercent"`

	// tolerancePercent is the difference up to which nothing is changed, from 0 to 100 per cent. Default: 10.
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

// zenohPort is where zenoh routers listen by default.
const zenohPort = "17447"

// RouterAddress is the locator of the zenoh router, "" if there is none.
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
		problems = append(problems, "its port must be a number from 1 to 65535")
	}
	var all field.ErrorList
	for _, problem := range problems {
		all = append(all, field.Invalid(path, r.Router, "must be namespace/name or namespace/name:port of a Service: "+problem))
	}
	return all
}

func (r *Records) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if r.TemplateNamespace != "" {
		all = append(all, named(path.Child("templateNamespace"), r.TemplateNamespace, validation.IsDNS1123Label)...)
	}
	if r.SchedulerName != "" {
		all = append(all, named(path.Child("schedulerName"), r.SchedulerName, validation.IsDNS1123Subdomain)...)
	}
	all = append(all, r.validateRouter(path.Child("router"))...)
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
	if p.URL == "" {
		return nil
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return field.ErrorList{field.Invalid(path.Child("url"), p.URL, "must be an http or https address")}
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
