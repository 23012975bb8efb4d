// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Validate returns everything that is wrong with the values.
func (c *Configuration) Validate() field.ErrorList {
	all := inRange(field.NewPath("resyncSeconds"), c.ResyncSeconds, 5, 3600)
	all = append(all, inRange(field.NewPath("annotationRepairsPerMinute"), c.AnnotationRepairsPerMinute, 0, 6000)...)
	all = append(all, validateNamespaces(field.NewPath("namespaces"), c.Namespaces)...)
	all = append(all, c.LeaderElection.validate(field.NewPath("leaderElection"))...)
	all = append(all, c.Metrics.validate(field.NewPath("metrics"))...)
	all = append(all, validateBindAddress(field.NewPath("health", "bindAddress"), c.Health.BindAddress)...)
	all = append(all, c.ClientConnection.validate(field.NewPath("clientConnection"))...)
	all = append(all, c.Gates.validate(field.NewPath("gates"))...)
	all = append(all, c.ResourceLimits.validate(field.NewPath("resourceLimits"))...)
	all = append(all, c.Webhook.validate(field.NewPath("webhook"))...)
	all = append(all, c.Services.validate(field.NewPath("services"))...)
	all = append(all, c.Deployments.validate(field.NewPath("deployments"))...)
	all = append(all, c.Environments.validate(field.NewPath("environments"))...)
	return append(all, c.Rebalance.validate(field.NewPath("rebalance"))...)
}

func (l LeaderElection) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("leaseDurationSeconds"), l.LeaseDurationSeconds, 2, 600)
	all = append(all, inRange(path.Child("renewDeadlineSeconds"), l.RenewDeadlineSeconds, 1, 600)...)
	all = append(all, inRange(path.Child("retryPeriodSeconds"), l.RetryPeriodSeconds, 1, 600)...)
	if len(all) == 0 && l.RenewDeadlineSeconds >= l.LeaseDurationSeconds {
		all = append(all, field.Invalid(path.Child("renewDeadlineSeconds"), l.RenewDeadlineSeconds,
			fmt.Sprintf("must be less than leaseDurationSeconds, %d", l.LeaseDurationSeconds)))
	}
	// client-go waits up to 1.2 times the period, and refuses to start if a deadline leaves no time for that.
	if len(all) == 0 && 12*l.RetryPeriodSeconds >= 10*l.RenewDeadlineSeconds {
		all = append(all, field.Invalid(path.Child("retryPeriodSeconds"), l.RetryPeriodSeconds,
			fmt.Sprintf("1.2 times of it must be less than renewDeadlineSeconds, %d", l.RenewDeadlineSeconds)))
	}
	if l.Namespace != "" {
		all = append(all, named(path.Child("namespace"), l.Namespace, validation.IsDNS1123Label)...)
	}
	return append(all, named(path.Child("name"), l.Name, validation.IsDNS1123Subdomain)...)
}

func (m Metrics) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), m.BindAddress)
	if m.CertDirectory != "" && !m.Secure {
		all = append(all, field.Forbidden(path.Child("certDirectory"), "may be set only with secure"))
	}
	return all
}

func (c ClientConnection) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("qps"), c.QPS, 1, 10000)
	if len(all) > 0 {
		return append(all, inRange(path.Child("burst"), c.Burst, 1, 20000)...)
	}
	return inRange(path.Child("burst"), c.Burst, c.QPS, 20000)
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

func validateNamespaces(path *field.Path, namespaces []string) field.ErrorList {
	var all field.ErrorList
	seen := sets.New[string]()
	for i, namespace := range namespaces {
		all = append(all, named(path.Index(i), namespace, validation.IsDNS1123Label)...)
		if seen.Has(namespace) {
			all = append(all, field.Duplicate(path.Index(i), namespace))
		}
		seen.Insert(namespace)
	}
	return all
}

// validateBindAddress refuses the empty address, which libraries take for a port of their own choice.
func validateBindAddress(path *field.Path, address string) field.ErrorList {
	if address == Disabled {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be host:port, :port, or "0" for none`)}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return field.ErrorList{field.Invalid(path, address, "its port must be a number from 1 to 65535")}
	}
	if host != "" && net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return field.ErrorList{field.Invalid(path, address, "its host must be empty, an IP address or a name")}
	}
	return nil
}

func named(path *field.Path, name string, check func(string) []string) field.ErrorList {
	var all field.ErrorList
	for _, message := range check(name) {
		all = append(all, field.Invalid(path, name, message))
	}
	return all
}

func inRange(path *field.Path, value, least, most int32) field.ErrorList {
	switch {
	case value < least:
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be at least %d", least))}
	case value > most:
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be at most %d", most))}
	}
	return nil
}
