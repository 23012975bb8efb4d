// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns every error in the values.
func (c *Configuration) Validate() field.ErrorList {
	all := inRange(field.NewPath("resyncSeconds"), c.ResyncSeconds, 5, 3600)
	all = append(all, validateNamespaces(field.NewPath("namespaces"), c.Namespaces)...)
	all = append(all, c.LeaderElection.validate(field.NewPath("leaderElection"))...)
	all = append(all, c.Metrics.validate(field.NewPath("metrics"))...)
	all = append(all, validateBindAddress(field.NewPath("health", "bindAddress"), c.Health.BindAddress)...)
	all = append(all, c.ClientConnection.validate(field.NewPath("clientConnection"))...)
	all = append(all, validateControllers(field.NewPath("controllers"), c.Controllers, c.Services.Enabled())...)
	all = append(all, c.Mix.validate(field.NewPath("mix"))...)
	all = append(all, c.Limits.validate(field.NewPath("limits"))...)
	all = append(all, c.Webhook.validate(field.NewPath("webhook"))...)
	all = append(all, c.Services.validate(field.NewPath("services"))...)
	all = append(all, c.Console.validate(field.NewPath("console"))...)
	all = append(all, c.Records.validate(field.NewPath("records"))...)
	if c.Webhook.Enabled && !c.Runs(ControllerMix) && !c.Runs(ControllerLimits) {
		all = append(all, field.Invalid(field.NewPath("webhook", "enabled"), true, "requires the controller mix or limits"))
	}
	return append(all, c.Environments.validate(field.NewPath("environments"))...)
}

func (l LeaderElection) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("leaseDurationSeconds"), l.LeaseDurationSeconds, 2, 600)
	all = append(all, inRange(path.Child("renewDeadlineSeconds"), l.RenewDeadlineSeconds, 1, 600)...)
	all = append(all, inRange(path.Child("retryPeriodSeconds"), l.RetryPeriodSeconds, 1, 600)...)
	if len(all) == 0 && l.RenewDeadlineSeconds >= l.LeaseDurationSeconds {
		all = append(all, field.Invalid(path.Child("renewDeadlineSeconds"), l.RenewDeadlineSeconds,
			fmt.Sprintf("must be less than leaseDurationSeconds, %d", l.LeaseDurationSeconds)))
	}
	// client-go waits up to 1.2 times the period, and does not start if a deadline is shorter.
	if len(all) == 0 && 12*l.RetryPeriodSeconds >= 10*l.RenewDeadlineSeconds {
		all = append(all, field.Invalid(path.Child("retryPeriodSeconds"), l.RetryPeriodSeconds,
			fmt.Sprintf("1.2 times of it must be less than renewDeadlineSeconds, %d", l.RenewDeadlineSeconds)))
	}
	all = append(all, namedIfSet(path.Child("namespace"), l.Namespace, validation.IsDNS1123Label)...)
	return append(all, namedIfSet(path.Child("name"), l.Name, validation.IsDNS1123Subdomain)...)
}

func (m Metrics) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), m.BindAddress)
	if m.CertDirectory != "" && !m.Secure {
		all = append(all, field.Forbidden(path.Child("certDirectory"), "may be set only with secure"))
	}
	return all
}

func (c ClientConnection) validate(path *field.Path) field.ErrorList {
	all, leastBurst := inRange(path.Child("qps"), c.QPS, 1, 10000), c.QPS
	if len(all) > 0 {
		leastBurst = 1
	}
	return append(all, inRange(path.Child("burst"), c.Burst, leastBurst, 20000)...)
}

func validateNamespaces(path *field.Path, namespaces []string) field.ErrorList {
	var all field.ErrorList
	for i, namespace := range namespaces {
		all = append(all, named(path.Index(i), namespace, validation.IsDNS1123Label)...)
		if slices.Contains(namespaces[:i], namespace) {
			all = append(all, field.Duplicate(path.Index(i), namespace))
		}
	}
	return all
}

// validateBindAddress rejects the empty address, for which libraries choose a port of their own.
func validateBindAddress(path *field.Path, address string) field.ErrorList {
	if address == Disabled {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be host:port, :port, or "0" to disable the server`)}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return field.ErrorList{field.Invalid(path, address, "the port must be a number from 1 to 65535")}
	}
	if host != "" && net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return field.ErrorList{field.Invalid(path, address, "the host must be empty, an IP address or a name")}
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

// namedIfSet is named for a field that may be empty.
func namedIfSet(path *field.Path, name string, check func(string) []string) field.ErrorList {
	if name == "" {
		return nil
	}
	return named(path, name, check)
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
