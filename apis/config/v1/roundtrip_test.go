// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config"
	_ "berth.dev/berth/apis/config/scheme"
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/config/validation"
)

// TestConversionKeepsEveryField fills arguments by reflection, so that a field that is added to only one of the
// versions fails here.
func TestConversionKeepsEveryField(t *testing.T) {
	t.Parallel()
	keepsEveryField[config.CapacityMixArgs, configv1.CapacityMixArgs](t, func(a *config.CapacityMixArgs) { a.TypeMeta = metav1.TypeMeta{} })
}

func TestConversionKeepsEveryFieldOfResourceLimitArgs(t *testing.T) {
	t.Parallel()
	keepsEveryField[config.ResourceLimitArgs, configv1.ResourceLimitArgs](t, func(a *config.ResourceLimitArgs) { a.TypeMeta = metav1.TypeMeta{} })
}

func keepsEveryField[Args, Versioned any](t *testing.T, withoutType func(*Args)) {
	t.Helper()
	arguments := rapid.Make[Args]()
	rapid.Check(t, func(t *rapid.T) {
		want := arguments.Draw(t, "args")
		withoutType(&want)

		var versioned Versioned
		require.NoError(t, schedscheme.Scheme.Convert(any(&want).(runtime.Object).DeepCopyObject(), &versioned, nil))
		var got Args
		require.NoError(t, schedscheme.Scheme.Convert(&versioned, &got, nil))

		require.Equal(t, want, got)
	})
}

// TestValidArgumentsSurviveAFile checks that arguments that pass validation have the same meaning after
// --write-config-to.
func TestValidArgumentsSurviveAFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawValidArgs(t)
		require.Empty(t, validation.ValidateCapacityMixArgs(nil, want))

		got, _, err := schedscheme.Codecs.UniversalDecoder().Decode(encode(t, want), nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func drawValidArgs(t *rapid.T) *config.CapacityMixArgs {
	labelKey := rapid.StringMatching(`([a-z0-9]{1,10}\.[a-z]{1,3}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelValue := rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?`)
	rule := rapid.Custom(func(t *rapid.T) config.NodeRule {
		rule := config.NodeRule{
			Key: labelKey.Draw(t, "key"),
			Operator: rapid.SampledFrom(
				[]config.NodeRuleOperator{config.NodeRuleIn, config.NodeRuleExists, config.NodeRuleAbsent},
			).Draw(t, "operator"),
			CapacityType: rapid.SampledFrom([]config.CapacityType{config.CapacityTypeSpot, config.CapacityTypeOnDemand}).Draw(t, "type"),
		}
		switch rule.Operator {
		case config.NodeRuleIn:
			rule.Values = rapid.SliceOfNDistinct(labelValue, 1, 4, rapid.ID).Draw(t, "values")
		case config.NodeRuleAbsent:
			rule.Requires = config.RequiresNothing
		case config.NodeRuleExists:
			rule.Requires = rapid.OneOf(labelKey, rapid.Just("")).Draw(t, "requires")
		}

		return rule
	})
	args := &config.CapacityMixArgs{
		BuiltinNodeRules: config.BuiltinNodeRulesAppend,
		AnnotationPrefixes: rapid.SliceOfNDistinct(
			rapid.SampledFrom([]string{"berth.dev", "spotalis.io"}), 1, 2, rapid.ID,
		).Draw(t, "prefixes"),
		SpreadSpotOver: rapid.SliceOfNDistinct(labelKey, 1, 4, rapid.ID).Draw(t, "spread"),
		RankSampleBy: rapid.SampledFrom(
			[]config.RankSampleBy{config.RankSampleByLeastAllocated, config.RankSampleByMostAllocated, config.RankSampleByOff},
		).Draw(t, "rank"),
		NodeSampleSize:     rapid.OneOf(rapid.Just[int32](0), rapid.Int32Range(16, 1000)).Draw(t, "sample"),
		SyncTimeoutSeconds: rapid.Int32Range(1, 600).Draw(t, "timeout"),
	}
	if rapid.Bool().Draw(t, "has rules") {
		args.NodeRules = rapid.SliceOfN(rule, 1, 5).Draw(t, "rules")
		args.BuiltinNodeRules = rapid.SampledFrom(
			[]config.BuiltinNodeRules{config.BuiltinNodeRulesAppend, config.BuiltinNodeRulesOff},
		).Draw(t, "builtin")
	}
	if rapid.Bool().Draw(t, "has a default mix") {
		args.DefaultMix = drawValidMix(t)
	}
	if rapid.Bool().Draw(t, "has a label") {
		values := rapid.SliceOfNDistinct(labelValue, 2, 2, rapid.ID).Draw(t, "values of the label")
		args.CapacityTypeLabel = &config.CapacityTypeLabel{Key: labelKey.Draw(t, "label"), Spot: values[0], OnDemand: values[1]}
	}

	return args
}

func drawValidMix(t *rapid.T) *config.MixSpec {
	mix := &config.MixSpec{
		SpotPercent: rapid.Int32Range(0, 100).Draw(t, "spotPercent"),
		MinOnDemand: rapid.Int32Range(0, 1000000).Draw(t, "minOnDemand"),
		MaxSpot:     rapid.Ptr(rapid.Int32Range(0, 1000000), true).Draw(t, "maxSpot"),
		WhenSpotUnavailable: rapid.SampledFrom(
			[]config.WhenSpotUnavailable{config.WhenSpotUnavailableOnDemand, config.WhenSpotUnavailableWait},
		).Draw(t, "noSpot"),
		WhenOnDemandUnavailable: rapid.SampledFrom(
			[]config.WhenOnDemandUnavailable{config.WhenOnDemandUnavailableWait, config.WhenOnDemandUnavailableSpot},
		).Draw(t, "noOnDemand"),
	}
	if mix.WhenSpotUnavailable == config.WhenSpotUnavailableOnDemand {
		mix.SpotWaitSeconds = rapid.Ptr(rapid.Int32Range(0, 86400), true).Draw(t, "wait")
	}

	return mix
}

// encode writes arguments as kube-scheduler does for --write-config-to.
func encode(t require.TestingT, args *config.CapacityMixArgs) []byte {
	info, ok := runtime.SerializerInfoForMediaType(schedscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	require.True(t, ok)
	yaml, err := runtime.Encode(schedscheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), args)
	require.NoError(t, err)

	return yaml
}

// FuzzArguments passes bytes through decoding, defaulting, conversion and validation, as for a configuration file.
// Nothing may panic, and valid arguments must have the same meaning after they were written and read again.
func FuzzArguments(f *testing.F) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: CapacityMixArgs\n"
	for _, body := range []string{
		"", "nodeSampleSize: 0", "defaultMix: {spotPercent: 70}", "defaultMix: {}", "spreadSpotOver: []", "nodeRules: [{}]",
		"nodeRules: [{key: a, operator: Absent, requires: \"*\", capacityType: spot}]\nbuiltinNodeRules: \"Off\"",
		"annotationPrefixes: [spotalis.io]\nsyncTimeoutSeconds: 600", "defaultMix: null\nunknown: 1", "\x00", "- a",
		"capacityTypeLabel: {key: a, spot: b}", "capacityTypeLabel: {}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		decode := func(yaml []byte) (runtime.Object, error) {
			object, _, err := schedscheme.Codecs.UniversalDecoder().Decode(yaml, nil, nil)

			return object, err
		}
		object, err := decode(append([]byte(head), body...))
		if err != nil {
			return
		}
		args, ok := object.(*config.CapacityMixArgs)
		if !ok || len(validation.ValidateCapacityMixArgs(nil, args)) > 0 {
			return
		}

		again, err := decode(encode(t, args))
		require.NoError(t, err)
		if len(args.NodeRules) == 0 {
			args.NodeRules = nil // an empty list and no list have the same meaning, and only no list is written
		}
		require.Equal(t, args, again)
	})
}
