// SPDX-License-Identifier: Apache-2.0

package oaas

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
)

func withRecords() *controller.Configuration {
	c := controller.Default()
	c.Controllers = []string{"*", controller.ControllerRecords}
	c.Services.Insecure = true
	return c
}

func TestEveryVariableChangesItsField(t *testing.T) {
	c := withRecords()
	require.NoError(t, applied(c, []string{
		"OPRC_CRM_PROFILE=edge", "OPRC_CRM_K8S_NAMESPACE=oaas", "OPRC_CRM_SECURITY_MTLS=false",
		"OPRC_CRM_FEATURES_NFR_ENFORCEMENT=true", "OPRC_CRM_FEATURES_HPA=false", "OPRC_CRM_FEATURES_KNATIVE=true", "OPRC_CRM_FEATURES_ODGM=true",
		"OPRC_CRM_FEATURES_PROMETHEUS=true", "OPRC_CRM_FEATURES_LEADER_ELECTION=false", "OPRC_CRM_FEATURES_FSM=true",
		"OPRC_CRM_ANALYZER_INTERVAL_SECS=30", "OPRC_CRM_ENFORCEMENT_COOLDOWN_SECS=31", "OPRC_CRM_ENFORCEMENT_STABILITY_SECS=32",
		"OPRC_CRM_ENFORCEMENT_MAX_REPLICA_DELTA=33", "OPRC_CRM_LIMITS_MAX_REPLICAS=34", "OPRC_CRM_REQ_CPU_PER_POD_M=500",
		"OPRC_CRM_PROM_URL=http://prometheus:9090", "OPRC_CRM_PROM_QUERY_TIMEOUT_SECS=5", "OPRC_CRM_PROM_RANGE=10m", "OPRC_CRM_PROM_STEP=30s",
		"OPRC_CRM_OTEL_ENABLED=true", "OPRC_CRM_TEMPLATES_ODGM_IMAGE=odgm:1", "OPRC_CRM_TEMPLATES_ODGM_PULL_POLICY=IfNotPresent",
		"OPRC_ENV_IS_DATACENTER=true", "OPRC_ENV_IS_EDGE=false", "GRPC_PORT=7088", "HTTP_PORT=8088", "OPRC_CRM_PROM_SCRAPE_KIND=", "HOME=/",
	}))
	r := &c.Records
	assert.Equal(t, "edge", r.Profile)
	assert.Equal(t, "oaas", c.Services.Records.Namespace)
	assert.Equal(t, []bool{true, false, true, true}, []bool{
		*r.Features.NFREnforcement, *r.Features.HPA, *r.Features.Knative, *r.Features.ODGM,
	})
	assert.False(t, c.LeaderElection.Enabled)
	assert.Equal(t, []int32{30, 31, 32, 33, 34}, []int32{
		r.NFR.IntervalSeconds, r.NFR.CooldownSeconds, r.NFR.StabilitySeconds, r.NFR.MaxReplicaDeltaPercent, r.NFR.MaxReplicas,
	})
	assert.Equal(t, "http://prometheus:9090", r.Prometheus.URL)
	assert.Equal(t, "http://otel-collector:4317", r.OTLPEndpoint)
	assert.Equal(t, "odgm:1", r.ODGMImage)
	assert.True(t, r.Environment.Datacenter)
	assert.Equal(t, ":7088", c.Services.BindAddress)
	assert.Equal(t, []string{":8088"}, c.Services.ExtraBindAddresses)
	assert.Empty(t, c.Validate())
}

func TestWhatEnablesIsReadAfterWhatItEnables(t *testing.T) {
	c := withRecords()
	require.NoError(t, applied(c, []string{
		"OPRC_CRM_FEATURES_PROMETHEUS=false", "OPRC_CRM_PROM_URL=http://x", "OPRC_CRM_OTEL_ENABLED=false", "OPRC_CRM_OTEL_ENDPOINT=http://y",
	}))
	assert.Empty(t, c.Records.Prometheus.URL)
	assert.Empty(t, c.Records.OTLPEndpoint)
	c = withRecords()
	require.NoError(t, applied(c, []string{"OPRC_CRM_OTEL_ENABLED=true", "OPRC_CRM_OTEL_ENDPOINT=http://y"}))
	assert.Equal(t, "http://y", c.Records.OTLPEndpoint)
}

func TestUnsupportedVariablesAreRefusedByName(t *testing.T) {
	for entry, says := range map[string]string{
		"OPRC_CRM_FEATURES_HPA=yes":                  `OPRC_CRM_FEATURES_HPA is "yes": must be true or false`,
		"OPRC_CRM_LIMITS_MAX_REPLICAS=many":          "must be a whole number",
		"OPRC_CRM_REQ_CPU_PER_POD_M=250":             "must be 500 or unset",
		"OPRC_CRM_PROM_RANGE=1h":                     "must be 10m or unset",
		"OPRC_CRM_PROM_SCRAPE_KIND=node":             `OPRC_CRM_PROM_SCRAPE_KIND is "node": must be one of auto, service, pod, or unset`,
		"OPRC_CRM_PROFILE=prdo":                      `OPRC_CRM_PROFILE is "prdo": must be one of dev, edge, full, prod, production`,
		"OPRC_CRM_FEATURES_PROMETHEUS=true":          "set OPRC_CRM_PROM_URL",
		"OPRC_CRM_SECURITY_MTLS=true":                "services.clientCAFile",
		"OPRC_CRM_TEMPLATES_ODGM_PULL_POLICY=always": "must be one of IfNotPresent, Always, Never, or unset",
		"OPRC_CRM_FEATURES_TIME_TRAVEL=true":         "OPRC_CRM_FEATURES_TIME_TRAVEL is unknown",
		"OPRC_MOCK_CLUSTER_AVAILABILITY=0.5":         "must be unset",
		"GRPC_PORT=tcp://10.0.0.1:7088":              "must be a port",
		"HTTP_PORT=0":                                "must be a port",
	} {
		require.ErrorContains(t, applied(withRecords(), []string{entry}), says)
	}
	err := applied(withRecords(), []string{"OPRC_CRM_X=1", "OPRC_CRM_Y=1"})
	require.ErrorContains(t, err, "OPRC_CRM_X")
	require.ErrorContains(t, err, "OPRC_CRM_Y", "all at once")
}

// The published chart sets them: they do not stop the program, and a warning has what they would have done.
func TestAVariableWithoutEffectIsAWarning(t *testing.T) {
	for entry, says := range map[string]string{
		"OPRC_CRM_PROM_MATCH_LABELS=release=x":       `OPRC_CRM_PROM_MATCH_LABELS is "release=x": it has no effect`,
		"OPRC_CRM_PROM_SCRAPE_KIND=auto":             "no ServiceMonitors",
		"OPRC_CRM_TEMPLATES_ODGM_PULL_POLICY=Always": "a DeploymentTemplate sets imagePullPolicy",
		"OPRC_CRM_TEMPLATES_ODGM_EXTRA_ENV=A=b":      "odgmConfig.options",
	} {
		c := withRecords()
		warnings, err := Apply(c, []string{entry})
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		assert.Contains(t, warnings[0], says)
		assert.Equal(t, withRecords(), c)
	}
}

func applied(c *controller.Configuration, environ []string) error {
	_, err := Apply(c, environ)
	return err
}

// Variables with general names belong to other programs, where the records do not run.
func TestOnlyTheControllerOfRecordsReadsThem(t *testing.T) {
	c := controller.Default()
	before := controller.Default()
	require.NoError(t, applied(c, []string{"GRPC_PORT=7088", "HTTP_PORT=x", "OPRC_ENV_IS_EDGE=true"}))
	assert.Equal(t, before, c)
	require.ErrorContains(t, applied(c, []string{"OPRC_CRM_PROFILE=edge"}), "the controller records does not run")
}

func TestVerbosity(t *testing.T) {
	for _, c := range []struct {
		service, rust string
		want          int
		is            bool
	}{
		{"", "", 0, false},
		{"debug", "", 4, true},
		{"", "INFO,oprc_crm=debug", 0, true},
		{"info", "trace", 0, true},
		{"oprc_crm=debug", "", 0, false},
		{"", "oprc_crm=info, trace", 6, true},
	} {
		got, is := Verbosity(func(name string) (string, bool) {
			value := map[string]string{"SERVICE_LOG": c.service, "RUST_LOG": c.rust}[name]
			return value, value != ""
		})
		assert.Equal(t, c.want, got, "%+v", c)
		assert.Equal(t, c.is, is, "%+v", c)
	}
}

func TestTheDocumentationHasEveryVariable(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/migrate.md")
	require.NoError(t, err)
	for name := range variables {
		assert.True(t, strings.Contains(string(doc), "`"+name+"`"), name)
	}
}
