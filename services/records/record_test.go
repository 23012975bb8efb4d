// SPDX-License-Identifier: Apache-2.0

package records

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	oaasruntime "berth.dev/berth/apis/proto/oaas/runtime"
	"berth.dev/berth/apis/v1alpha1"
)

func TestIDsHaveNames(t *testing.T) {
	for id, want := range map[string]string{
		"My_Deployment.ID@Prod":              "my-deployment-id-prod",
		"plain":                              "plain",
		"UPPER":                              "upper",
		"--a--b--":                           "a--b",
		"a b\tc":                             "a-b-c",
		"ünïcode-Ä":                          "n-code",
		"日本1":                                "1",
		"\u212a":                             "k", // KELVIN SIGN, whose lower case is the letter
		strings.Repeat("a", 253):             strings.Repeat("a", 253),
		"_" + strings.Repeat("a", 253) + "_": strings.Repeat("a", 253),
		"":                                   "",
		"---":                                "",
		"@_.":                                "",
		"日本":                                 "",
		strings.Repeat("a", 254):             "",
		strings.Repeat("a", 253) + "ä" + "b": "",
		strings.Repeat("ä", 300) + "b":       "b",
		strings.Repeat("x", 100) + strings.Repeat("ä", 200) + "y": "",
	} {
		name, err := nameOf("deployment_id", id)
		if want == "" {
			requireInvalid(t, err, "deployment_id")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}
}

func TestFieldsHaveTheNamesOfTheProto(t *testing.T) {
	for field, want := range map[string]string{
		"metadata.name":                                                     "deployment_unit.id",
		"metadata.annotations":                                              "metadata.annotations",
		"spec.deploymentUnit.id":                                            "deployment_unit.id",
		"spec.deploymentUnit.classKey":                                      "deployment_unit.class_key",
		"spec.deploymentUnit.targetCluster":                                 "deployment_unit.target_cluster",
		"spec.deploymentUnit.functions":                                     "deployment_unit.functions",
		"spec.targetEnvironment":                                            "deployment_unit.target_env",
		"spec.templateHint":                                                 "deployment_unit.selected_template",
		"spec.nfrRequirements.availability":                                 "deployment_unit.nfr_requirements.availability",
		"spec.nfrRequirements.maxLatencyMS":                                 "deployment_unit.nfr_requirements.max_latency_ms",
		"spec.nfrRequirements.cpuUtilizationTarget":                         "deployment_unit.nfr_requirements.cpu_utilization_target",
		"spec.telemetry.samplingRate":                                       "deployment_unit.telemetry.sampling_rate",
		"spec.deploymentUnit.functions[0].functionKey":                      "deployment_unit.functions[0].function_key",
		"spec.deploymentUnit.functions[3].maxScale":                         "deployment_unit.functions[3].provision_config.max_scale",
		"spec.deploymentUnit.functions[3].resources.memoryLimit":            "deployment_unit.functions[3].provision_config.memory_limit",
		"spec.deploymentUnit.functions[3].resources.cpu":                    "deployment_unit.functions[3].provision_config.cpu_request",
		"spec.deploymentUnit.functions[3].nfrRequirements.minThroughputRPS": "deployment_unit.functions[3].nfr_requirements.min_throughput_rps",
		"spec.deploymentUnit.functions[3].config.minScale":                  "deployment_unit.functions[3].config.minScale",
		"spec.deploymentUnit.functions[3].config[minScale]":                 "deployment_unit.functions[3].config[minScale]",
		"spec.deploymentUnit.functionBindings[1].accessModifier":            "deployment_unit.function_bindings[1].access_modifier",
		"spec.odgmConfig.partitionCount":                                    "deployment_unit.odgm_config.partition_count",
		"spec.odgmConfig.nodeIDs.myEnv[2]":                                  "deployment_unit.odgm_config.env_node_ids.myEnv[2]",
		"spec.odgmConfig.invocations.routes.minScale.activeGroup[0]":        "deployment_unit.odgm_config.invocations.fn_routes.minScale.active_group[0]",
		"deployment_unit.created_at.nanos":                                  "deployment_unit.created_at.nanos",
		"namespace":                                                         "namespace",
	} {
		assert.Equal(t, want, wireField(field))
	}
}

func condition(kind string, is metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, Reason: reason, Message: message}
}

func TestSummaries(t *testing.T) {
	available, progressing := condition("Available", "True", "AllReady", "all is ready"), condition("Progressing", "True", "", "")
	unavailable, degradedBy := condition("Available", "False", "", ""), condition("Degraded", "True", "ImageMissing", "f has no image")
	has := func(phase v1alpha1.DeploymentPhase, message string, conditions ...metav1.Condition) *record {
		return &record{Status: v1alpha1.DeploymentRecordStatus{Phase: phase, Message: message, Conditions: conditions}}
	}
	stale := has("", "", available)
	stale.Generation, stale.Status.ObservedGeneration = 2, 1
	deleted := has("", "", available)
	deleted.DeletionTimestamp = new(metav1.Now())
	const (
		running, deploying = oaasruntime.DeploymentCondition_RUNNING, oaasruntime.DeploymentCondition_DEPLOYING
		pending, down      = oaasruntime.DeploymentCondition_PENDING, oaasruntime.DeploymentCondition_DOWN

		unknown, provisioning = oaasruntime.DeploymentPhase_DEPLOYMENT_PHASE_UNKNOWN, oaasruntime.DeploymentPhase_RESOURCE_PROVISIONING
		runs, failed          = oaasruntime.DeploymentPhase_PHASE_RUNNING, oaasruntime.DeploymentPhase_FAILED
	)
	for name, tc := range map[string]struct {
		record    *record
		want      string
		condition oaasruntime.DeploymentCondition
		phase     oaasruntime.DeploymentPhase
	}{
		"available comes first":       {has("Degraded", "", progressing, degradedBy, available), "Available", running, runs},
		"degraded has the reason":     {has("", "", progressing, degradedBy, unavailable), "Degraded (ImageMissing): f has no image", down, failed},
		"degraded without a message":  {has("", "", condition("Degraded", "True", "ImageMissing", "")), "Degraded (ImageMissing)", down, failed},
		"degraded without a reason":   {has("", "", condition("Degraded", "True", "", "m")), "Degraded: m", down, failed},
		"progressing":                 {has("Pending", "m", progressing), "Progressing", deploying, provisioning},
		"the phase":                   {has("Pending", "m"), "Pending", pending, provisioning},
		"the message":                 {has("", "m"), "m", pending, unknown},
		"nothing":                     {has("", ""), "found", running, unknown},
		"conditions of a spec before": {stale, "Progressing", deploying, provisioning},
		"on its way out":              {deleted, "Deleting", oaasruntime.DeploymentCondition_DELETED, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := toSummary(tc.record)
			assert.Equal(t, tc.want, summary(tc.record))
			assert.Equal(t, tc.want, s.GetStatus().GetMessage())
			assert.Equal(t, tc.condition, s.GetStatus().GetCondition())
			assert.Equal(t, tc.phase, s.GetStatus().GetPhase())
			assert.True(t, wanted(&oaasdeployment.ListClassRuntimesRequest{Status: &tc.want}, tc.record))
			assert.True(t, wanted(&oaasdeployment.ListClassRuntimesRequest{Status: new(state(tc.record))}, tc.record))
			assert.False(t, wanted(&oaasdeployment.ListClassRuntimesRequest{Status: new("x")}, tc.record))
		})
	}
}

// A field whose type differs between revisions is written for clients of a known revision only.
func TestTheEnvironmentIsWrittenForTheRevisionOfTheRecord(t *testing.T) {
	for was, want := range map[string][2]string{"plan": {"prod", ""}, "head": {"", "prod"}, "": {}, "later": {}} {
		r := &record{Spec: v1alpha1.DeploymentRecordSpec{TargetEnvironment: "prod"}}
		if was != "" {
			r.Annotations = map[string]string{v1alpha1.WireRevisionAnnotation: was}
		}
		d := toWire(r)
		assert.Equal(t, want, [2]string{d.GetPlanTargetEnv(), d.GetHeadTargetEnv()})
	}
}

func TestFieldsThatAClientCannotSetStay(t *testing.T) {
	made := metav1.NewTime(time.Unix(1000, 0))
	rps := &v1alpha1.NFRRequirements{MinThroughputRPS: new(int32(5)), Consistency: v1alpha1.ConsistencyStrong}
	before := func(was revision) *draft {
		r := &draft{}
		r.Annotations = map[string]string{v1alpha1.WireRevisionAnnotation: string(was)}
		r.Spec = v1alpha1.DeploymentRecordSpec{
			DeploymentUnit: v1alpha1.DeploymentUnit{
				ID: "x", CreatedAt: &made, FunctionBindings: []v1alpha1.FunctionBinding{{Name: "m"}},
				Functions: []v1alpha1.FunctionSpec{{FunctionKey: "f", NFRRequirements: rps.DeepCopy()}},
			},
			NFRRequirements: rps.DeepCopy(), Addons: &[]v1alpha1.Addon{}, ResourceAllocation: &v1alpha1.ResourceAllocation{CPU: "1"},
			Enforcement: &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementEnforce},
		}
		return r
	}
	changed := func(says revision, nfr *v1alpha1.NFRRequirements, bindings ...v1alpha1.FunctionBinding) *unit {
		return &unit{revision: says, spec: v1alpha1.DeploymentRecordSpec{
			DeploymentUnit:  v1alpha1.DeploymentUnit{ID: "x", ClassKey: "new", FunctionBindings: bindings, Functions: []v1alpha1.FunctionSpec{{FunctionKey: "f"}}},
			NFRRequirements: nfr,
		}}
	}
	for name, tc := range map[string]struct {
		was      revision
		unit     *unit
		rps      bool
		bindings int
	}{
		"the latest has no requirements of a class": {revisionPlan, changed(revisionHead, nil), true, 0},
		"the plan has no bindings":                  {revisionHead, changed(revisionPlan, nil), false, 1},
		"a unit that does not tell, of the plan":    {revisionPlan, changed("", nil), false, 1},
		"a unit that does not tell":                 {"", changed("", nil), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := before(tc.was)
			require.True(t, r.replace(tc.unit))
			assert.Equal(t, "new", r.Spec.DeploymentUnit.ClassKey)
			assert.Equal(t, tc.rps, r.Spec.NFRRequirements.MinThroughputRPS != nil)
			assert.Len(t, r.Spec.DeploymentUnit.FunctionBindings, tc.bindings)
			assert.Equal(t, v1alpha1.ConsistencyStrong, r.Spec.NFRRequirements.Consistency)
			assert.Equal(t, &v1alpha1.NFRRequirements{Consistency: v1alpha1.ConsistencyStrong}, r.Spec.DeploymentUnit.Functions[0].NFRRequirements)
			assert.Equal(t, &[]v1alpha1.Addon{}, r.Spec.Addons)
			assert.Equal(t, "1", r.Spec.ResourceAllocation.CPU)
			assert.Equal(t, v1alpha1.EnforcementEnforce, r.Spec.Enforcement.Mode)
		})
	}
}

func TestARevisionIsRememberedUntilAnotherIsShown(t *testing.T) {
	u := &unit{revision: revisionPlan, spec: v1alpha1.DeploymentRecordSpec{DeploymentUnit: v1alpha1.DeploymentUnit{ID: "x"}}}
	r := newRecord("ns", "x", u)
	r.mark(t.Context(), u)
	assert.Equal(t, revisionPlan, revisionOf(&r.record))
	silent := *u
	silent.revision = ""
	assert.False(t, r.replace(&silent))
	r.mark(t.Context(), &silent)
	assert.Equal(t, revisionPlan, revisionOf(&r.record))
	shown := *u
	shown.revision = revisionHead
	assert.True(t, r.replace(&shown), "there is something to write")
	r.mark(t.Context(), &shown)
	assert.Equal(t, revisionHead, revisionOf(&r.record))
}

func TestPages(t *testing.T) {
	all := []*record{{}, {}, {}, {}, {}}
	for _, tc := range []struct {
		limit, offset *uint32
		want          []*record
	}{
		{nil, nil, all},
		{new(uint32(2)), nil, all[:2]},
		{new(uint32(9)), new(uint32(3)), all[3:]},
		{nil, new(uint32(9)), all[5:]},
		{new(uint32(1)), new(uint32(1)), all[1:2]},
		{new(uint32(0)), nil, all[:0]},
		{new(uint32(1<<32 - 1)), new(uint32(1<<32 - 1)), all[5:]},
	} {
		got := page(&oaasdeployment.ListClassRuntimesRequest{Limit: tc.limit, Offset: tc.offset}, all)
		require.Len(t, got, len(tc.want))
		for i := range got {
			assert.Same(t, tc.want[i], got[i])
		}
	}
}

func TestHealthOfTheCluster(t *testing.T) {
	for _, tc := range []struct {
		ready, nodes int
		want         string
	}{{0, 0, "Degraded"}, {0, 1, "Degraded"}, {1, 2, "Degraded"}, {2, 3, "Healthy"}, {5, 5, "Healthy"}} {
		h := clusterHealth(tc.ready, tc.nodes)
		assert.Equal(t, tc.want, h.GetStatus())
		assert.EqualValues(t, tc.nodes, h.GetNodeCount())
		assert.EqualValues(t, tc.ready, h.GetReadyNodes())
		require.Equal(t, tc.nodes == 0, h.Availability == nil)
		if tc.nodes > 0 {
			assert.InDelta(t, float64(tc.ready)/float64(tc.nodes), h.GetAvailability(), 0)
		}
	}
}
