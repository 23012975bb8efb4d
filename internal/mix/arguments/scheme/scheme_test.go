// SPDX-License-Identifier: Apache-2.0

package scheme_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"berth.dev/berth/apis/config"
	configv1 "berth.dev/berth/apis/config/v1"
	_ "berth.dev/berth/internal/mix/arguments/scheme"
)

// load reads a configuration with the function that kube-scheduler uses for --config.
func load(t *testing.T, yaml string) (*schedconfig.KubeSchedulerConfiguration, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	logger, _ := ktesting.NewTestContext(t)

	return options.LoadConfigFromFile(logger, file)
}

func withArgs(args string) string {
	return `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  pluginConfig:
  - name: CapacityMix
    args: ` + args
}

func pluginArgs(t *testing.T, cfg *schedconfig.KubeSchedulerConfiguration, plugin string) runtime.Object {
	t.Helper()
	for _, entry := range cfg.Profiles[0].PluginConfig {
		if entry.Name == plugin {
			return entry.Args
		}
	}
	require.Fail(t, "no arguments for plugin "+plugin)

	return nil
}

// everyField sets every field of the arguments to another value than its default, in the format of the encoder.
const everyField = `
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: CapacityMixArgs
      annotationPrefixes: [spotalis.io, berth.dev]
      builtinNodeRules: "Off"
      interruptionsNamespace: berth
      defaultMix:
        {spotPercent: 70, minOnDemand: 2, maxSpot: 0, whenSpotUnavailable: Wait, spotWaitSeconds: 5, whenOnDemandUnavailable: Spot}
      nodeRules:
      - {name: pool, key: example.com/pool, operator: In, values: [cheap, cheaper], requires: example.com/cloud, capacityType: spot}
      - {key: example.com/pool, operator: Absent, requires: "*", capacityType: on-demand}
      nodeSampleSize: 0
      onePodKinds:
      - {apiGroup: example.com, kind: Task, setLabel: example.com/queue}
      - {apiGroup: example.com, kind: Probe}
      rankSampleBy: MostAllocated
      spreadSpotOver: [rack]
      syncTimeoutSeconds: 1
`

func TestArgumentsReachThePlugin(t *testing.T) {
	t.Parallel()
	defaults := config.CapacityMixArgs{
		BuiltinNodeRules:       config.BuiltinNodeRulesAppend,
		AnnotationPrefixes:     []string{"berth.dev"},
		SpreadSpotOver:         []string{"topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"},
		InterruptionsNamespace: "berth-system",
		NodeSampleSize:         32,
		OnePodKinds: []config.OnePodKind{
			{APIGroup: "actions.github.com", Kind: "EphemeralRunner", SetLabel: "actions.github.com/scale-set-name"},
			{APIGroup: "tekton.dev", Kind: "TaskRun", SetLabel: "tekton.dev/pipeline"},
			{APIGroup: "agones.dev", Kind: "GameServer", SetLabel: "agones.dev/fleet"},
			{APIGroup: "kubevirt.io", Kind: "VirtualMachineInstance", SetLabel: "kubevirt.io/vmpool"},
		},
		RankSampleBy:       config.RankSampleByLeastAllocated,
		SyncTimeoutSeconds: 60,
	}
	noKinds := defaults
	noKinds.OnePodKinds = []config.OnePodKind{}
	defaultsWithMix := defaults
	defaultsWithMix.DefaultMix = &config.MixSpec{
		SpotPercent: 0, WhenSpotUnavailable: config.WhenSpotUnavailableOnDemand,
		WhenOnDemandUnavailable: config.WhenOnDemandUnavailableWait,
	}

	noRules := defaults
	noRules.NodeRules = []config.NodeRule{}
	for name, tc := range map[string]struct {
		args string
		want config.CapacityMixArgs
	}{
		"no arguments give the defaults":      {"{}", defaults},
		"null arguments give the defaults":    {"", defaults},
		"a mix of 0 percent is a mix":         {"{defaultMix: {spotPercent: 0}}", defaultsWithMix},
		"an empty list of rules is no list":   {"{nodeRules: []}", noRules},
		"an empty list of kinds is a choice":  {"{onePodKinds: []}", noKinds},
		"a null list of prefixes is no list":  {"{annotationPrefixes: null}", defaults},
		"every field arrives as it was given": {everyField, everyFieldArgs()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := load(t, withArgs(tc.args))
			require.NoError(t, err)
			assert.Equal(t, &tc.want, pluginArgs(t, cfg, "CapacityMix"))
		})
	}
}

func everyFieldArgs() config.CapacityMixArgs {
	return config.CapacityMixArgs{
		NodeRules: []config.NodeRule{
			{
				Name: "pool", Key: "example.com/pool", Operator: config.NodeRuleIn,
				Values: []string{"cheap", "cheaper"}, Requires: "example.com/cloud",
				CapacityType: config.CapacityTypeSpot,
			},
			{
				Key: "example.com/pool", Operator: config.NodeRuleAbsent, Requires: config.RequiresNothing,
				CapacityType: config.CapacityTypeOnDemand,
			},
		},
		BuiltinNodeRules: config.BuiltinNodeRulesOff,
		DefaultMix: &config.MixSpec{
			SpotPercent: 70, MinOnDemand: 2, MaxSpot: new(int32(0)), SpotWaitSeconds: new(int32(5)),
			WhenSpotUnavailable: config.WhenSpotUnavailableWait, WhenOnDemandUnavailable: config.WhenOnDemandUnavailableSpot,
		},
		AnnotationPrefixes:     []string{"spotalis.io", "berth.dev"},
		SpreadSpotOver:         []string{"rack"},
		InterruptionsNamespace: "berth",
		NodeSampleSize:         0,
		OnePodKinds: []config.OnePodKind{
			{APIGroup: "example.com", Kind: "Task", SetLabel: "example.com/queue"}, {APIGroup: "example.com", Kind: "Probe"},
		},
		RankSampleBy:       config.RankSampleByMostAllocated,
		SyncTimeoutSeconds: 1,
	}
}

func TestWrongArgumentsStopTheSchedulerWithAMessage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ args, wantErr string }{
		"an unknown field is named": {"{nodeSampelSize: 100}", `unknown field "nodeSampelSize"`},
		"an unknown field in a rule is named": {
			"{nodeRules: [{key: a, operator: Exists, capacityType: spot, value: b}]}", `unknown field "nodeRules[0].value"`,
		},
		"an unknown field in a mix is named": {
			"{defaultMix: {spotPercent: 70, spotPercentage: 70}}", `unknown field "defaultMix.spotPercentage"`,
		},
		"a field in the wrong case is unknown": {"{nodesamplesize: 100}", `unknown field "nodesamplesize"`},
		"a text for a number is refused": {
			"{nodeSampleSize: many}",
			`cannot unmarshal string into Go struct field CapacityMixArgs.nodeSampleSize of type int32`,
		},
		"a number beyond int32 is refused": {
			"{nodeSampleSize: 3000000000}",
			`cannot unmarshal number 3000000000 into Go struct field CapacityMixArgs.nodeSampleSize of type int32`,
		},
		"a fraction of a percent is refused": {
			"{defaultMix: {spotPercent: 70.5}}",
			`cannot unmarshal number 70.5 into Go struct field MixSpec.defaultMix.spotPercent of type int32`,
		},
		"a text for a list is refused": {
			"{spreadSpotOver: zone}",
			`cannot unmarshal string into Go struct field CapacityMixArgs.spreadSpotOver of type []string`,
		},
		"a mix without a share is refused": {
			"{defaultMix: {minOnDemand: 1}}", `defaultMix.spotPercent: Required value: must be set, from 0 to 100`,
		},
		"a field given twice is refused": {"{nodeSampleSize: 16, nodeSampleSize: 32}", `key "nodeSampleSize" already set in map`},
		"arguments of another kind are refused": {
			"{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}",
			`args for plugin CapacityMix were not of type CapacityMixArgs.kubescheduler.config.k8s.io, ` +
				`got NodeAffinityArgs.kubescheduler.config.k8s.io`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, withArgs(tc.args))
			assert.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestWrittenConfigurationCanBeReadAgain(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{"defaults": "{}", "every field": everyField} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := load(t, withArgs(args))
			require.NoError(t, err)

			again, err := load(t, string(encode(t, cfg)))
			require.NoError(t, err)
			assert.Equal(t, cfg, again)
		})
	}
}

// encode writes a configuration as kube-scheduler does for --write-config-to.
func encode(t require.TestingT, object runtime.Object) []byte {
	info, ok := runtime.SerializerInfoForMediaType(schedscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	require.True(t, ok)
	yaml, err := runtime.Encode(schedscheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), object)
	require.NoError(t, err)

	return yaml
}
