// SPDX-License-Identifier: Apache-2.0

// Package oaas reads the environment variables of the class runtime manager of OaaS, so that its Deployment needs another image only.
package oaas

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/apis/config/controller"
)

// prefix begins the variables of the class runtime manager.
const prefix = "OPRC_CRM_"

// variable is how a variable changes a configuration. The error explains what cannot be honored, and is preceded by the name and the
// value. A noEffect does not stop the start.
type variable func(c *controller.Configuration, value string) error

// variables are those of the class runtime manager, by their names.
var variables = map[string]variable{
	"OPRC_CRM_PROFILE":       profile,
	"OPRC_CRM_K8S_NAMESPACE": text(func(c *controller.Configuration) *string { return &c.Services.Records.Namespace }),
	"OPRC_CRM_SECURITY_MTLS": mutualTLS,

	"OPRC_CRM_FEATURES_NFR_ENFORCEMENT": feature(func(f *controller.Features) **bool { return &f.NFREnforcement }),
	"OPRC_CRM_FEATURES_HPA":             feature(func(f *controller.Features) **bool { return &f.HPA }),
	"OPRC_CRM_FEATURES_KNATIVE":         feature(func(f *controller.Features) **bool { return &f.Knative }),
	"OPRC_CRM_FEATURES_ODGM":            feature(func(f *controller.Features) **bool { return &f.ODGM }),
	"OPRC_CRM_FEATURES_PROMETHEUS":      prometheus,
	"OPRC_CRM_FEATURES_LEADER_ELECTION": set(func(c *controller.Configuration) *bool { return &c.LeaderElection.Enabled }),
	"OPRC_CRM_FEATURES_FSM":             boolean(func(*controller.Configuration, bool) error { return nil }), // readiness is always evaluated

	"OPRC_CRM_ANALYZER_INTERVAL_SECS":        number(func(n *controller.NFR) *int32 { return &n.IntervalSeconds }),
	"OPRC_CRM_ENFORCEMENT_COOLDOWN_SECS":     number(func(n *controller.NFR) *int32 { return &n.CooldownSeconds }),
	"OPRC_CRM_ENFORCEMENT_STABILITY_SECS":    number(func(n *controller.NFR) *int32 { return &n.StabilitySeconds }),
	"OPRC_CRM_ENFORCEMENT_MAX_REPLICA_DELTA": number(func(n *controller.NFR) *int32 { return &n.MaxReplicaDeltaPercent }),
	"OPRC_CRM_LIMITS_MAX_REPLICAS":           number(func(n *controller.NFR) *int32 { return &n.MaxReplicas }),
	"OPRC_CRM_REQ_CPU_PER_POD_M":             fixed("500", "a replica is expected to use 500 millicores"),

	"OPRC_CRM_PROM_URL":                text(func(c *controller.Configuration) *string { return &c.Records.Prometheus.URL }),
	"OPRC_CRM_PROM_QUERY_TIMEOUT_SECS": fixed("5", "a query is given up after 5 seconds"),
	"OPRC_CRM_PROM_RANGE":              fixed("10m", "the range of a query is 10 minutes"),
	"OPRC_CRM_PROM_STEP":               fixed("30s", "the step of a query is 30 seconds"),
	"OPRC_CRM_PROM_MATCH_LABELS":       ignored("no ServiceMonitors and PodMonitors are created: create them yourself"),
	"OPRC_CRM_PROM_SCRAPE_KIND":        ignored("no ServiceMonitors and PodMonitors are created: create them yourself", "auto", "service", "pod"),

	"OPRC_CRM_OTEL_ENABLED":               telemetry,
	"OPRC_CRM_OTEL_ENDPOINT":              text(func(c *controller.Configuration) *string { return &c.Records.OTLPEndpoint }),
	"OPRC_CRM_TEMPLATES_ODGM_IMAGE":       text(func(c *controller.Configuration) *string { return &c.Records.ODGMImage }),
	"OPRC_CRM_TEMPLATES_ODGM_EXTRA_ENV":   ignored("spec.odgmConfig.options of a record, or a DeploymentTemplate, sets variables of its ODGM"),
	"OPRC_CRM_TEMPLATES_ODGM_PULL_POLICY": ignored("a DeploymentTemplate sets imagePullPolicy", "IfNotPresent", "Always", "Never"),

	"OPRC_ENV_IS_DATACENTER":         set(func(c *controller.Configuration) *bool { return &c.Records.Environment.Datacenter }),
	"OPRC_ENV_IS_EDGE":               set(func(c *controller.Configuration) *bool { return &c.Records.Environment.Edge }),
	"OPRC_MOCK_CLUSTER_AVAILABILITY": unsupported("the availability of the cluster is that of its nodes"),

	"HTTP_PORT": port,
	"GRPC_PORT": port,
}

// noEffect is why a valid value, which the published chart sets, changes nothing.
type noEffect string

func (e noEffect) Error() string { return "it has no effect: " + string(e) }

// Apply changes a configuration as the variables of an environment do, given as KEY=value. An empty variable changes nothing. It does
// nothing in a process that does not run the controller records, unless a variable with the prefix OPRC_CRM_ is set. The error names
// each variable that is unknown or cannot be honored, and warnings those that have no effect.
func Apply(c *controller.Configuration, environ []string) (warnings []string, err error) {
	var errs []error
	records := c.Runs(controller.ControllerRecords)
	environ = slices.Clone(environ)
	slices.SortFunc(environ, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		apply, known := variables[name]
		own := strings.HasPrefix(name, prefix)
		switch {
		case value == "" || !known && !own:
		case !records && !own: // other programs have variables of that name too
		case !records:
			errs = append(errs, fmt.Errorf("%s is set, but the controller records does not run: add it to controllers", name))
		case !known:
			errs = append(errs, fmt.Errorf("%s is unknown: docs/migrate.md has the variables that are read", name))
		default:
			err := apply(c, value)
			if _, only := errors.AsType[noEffect](err); only {
				warnings = append(warnings, fmt.Sprintf("%s is %q: %s", name, value, err))
			} else if err != nil {
				errs = append(errs, fmt.Errorf("%s is %q: %w", name, value, err))
			}
		}
	}
	return warnings, errors.Join(errs...)
}

// rank puts variables that enable what others configure behind those.
func rank(entry string) int {
	switch name, _, _ := strings.Cut(entry, "="); name {
	case "OPRC_CRM_FEATURES_PROMETHEUS", "OPRC_CRM_OTEL_ENABLED":
		return 1
	}
	return 0
}

// verbosities are the numbers of -v for the levels of logs.
var verbosities = map[string]int{"off": 0, "error": 0, "warn": 0, "info": 0, "debug": 4, "trace": 6}

// Verbosity returns the number of -v that SERVICE_LOG, or else RUST_LOG, requests, and whether one of them does. Of a filter for modules
// (info,oprc_crm=debug) it is that of the level without a module.
func Verbosity(lookup func(string) (string, bool)) (int, bool) {
	for _, name := range []string{"SERVICE_LOG", "RUST_LOG"} {
		value, _ := lookup(name)
		for level := range strings.SplitSeq(value, ",") {
			if v, known := verbosities[strings.ToLower(strings.TrimSpace(level))]; known {
				return v, true
			}
		}
	}
	return 0, false
}

func text(at func(*controller.Configuration) *string) variable {
	return func(c *controller.Configuration, value string) error {
		*at(c) = value
		return nil
	}
}

func boolean(set func(*controller.Configuration, bool) error) variable {
	return func(c *controller.Configuration, value string) error {
		is, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("must be true or false")
		}
		return set(c, is)
	}
}

func set(at func(*controller.Configuration) *bool) variable {
	return boolean(func(c *controller.Configuration, is bool) error {
		*at(c) = is
		return nil
	})
}

func feature(at func(*controller.Features) **bool) variable {
	return boolean(func(c *controller.Configuration, is bool) error {
		*at(&c.Records.Features) = &is
		return nil
	})
}

func number(at func(*controller.NFR) *int32) variable {
	return func(c *controller.Configuration, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return errors.New("must be a whole number")
		}
		*at(&c.Records.NFR) = int32(n) // its bounds are those of the field
		return nil
	}
}

// fixed accepts the only value that is honored.
func fixed(only, because string) variable {
	return func(_ *controller.Configuration, value string) error {
		if value == only {
			return nil
		}
		return fmt.Errorf("must be %s or unset: %s", only, because)
	}
}

// ignored accepts some values, or all if there are none, and has no effect.
func ignored(because string, accepted ...string) variable {
	return func(_ *controller.Configuration, value string) error {
		if len(accepted) > 0 && !slices.Contains(accepted, value) {
			return fmt.Errorf("must be one of %s, or unset", strings.Join(accepted, ", "))
		}
		return noEffect(because)
	}
}

// profiles are those of the class runtime manager. It takes any other name for dev, which hides a typing error.
var profiles = []string{"dev", "edge", "full", "prod", "production"}

func profile(c *controller.Configuration, value string) error {
	if !slices.Contains(profiles, strings.ToLower(value)) {
		return fmt.Errorf("must be one of %s; records.profile may have another name, for DeploymentTemplates that select it",
			strings.Join(profiles, ", "))
	}
	c.Records.Profile = value
	return nil
}

func unsupported(because string) variable {
	return func(*controller.Configuration, string) error { return fmt.Errorf("must be unset: %s", because) }
}

var mutualTLS = boolean(func(c *controller.Configuration, is bool) error {
	switch configured := c.Services.ClientCAFile != ""; {
	case is && !configured:
		return errors.New("set services.clientCAFile, services.certFile and services.keyFile, which need files")
	case !is && configured:
		return errors.New("services.clientCAFile is set: unset one of the two")
	}
	return nil
})

var prometheus = boolean(func(c *controller.Configuration, is bool) error {
	if !is {
		c.Records.Prometheus.URL = ""
	} else if c.Records.Prometheus.URL == "" {
		return errors.New("set OPRC_CRM_PROM_URL or records.prometheus.url: without an address nothing is measured")
	}
	return nil
})

var telemetry = boolean(func(c *controller.Configuration, is bool) error {
	if !is {
		c.Records.OTLPEndpoint = ""
	} else if c.Records.OTLPEndpoint == "" {
		c.Records.OTLPEndpoint = "http://otel-collector:4317" // the default of the class runtime manager
	}
	return nil
})

// port serves the services on a port of all addresses too.
func port(c *controller.Configuration, value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n == 0 {
		return errors.New("must be a port from 1 to 65535")
	}
	address := net.JoinHostPort("", value)
	switch s := &c.Services; {
	case s.BindAddress == controller.Disabled:
		s.BindAddress = address
	case s.BindAddress != address && !slices.Contains(s.ExtraBindAddresses, address):
		s.ExtraBindAddresses = append(s.ExtraBindAddresses, address)
	}
	return nil
}
