// SPDX-License-Identifier: Apache-2.0

package scheme_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config"
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/config/validation"
	_ "berth.dev/berth/internal/mix/arguments/scheme"
)

// TestConversionKeepsEveryField fills arguments by reflection, so that a field that is added to only one of the
// versions fails here.
func TestConversionKeepsEveryField(t *testing.T) {
	t.Parallel()
	keepsEveryField[config.CapacityMixArgs, configv1.CapacityMixArgs](t)
}

func TestConversionKeepsEveryFieldOfResourceLimitArgs(t *testing.T) {
	t.Parallel()
	keepsEveryField[config.ResourceLimitArgs, configv1.ResourceLimitArgs](t)
}

func keepsEveryField[Args, Versioned any](t *testing.T) {
	t.Helper()
	arguments := rapid.Make[Args]()
	rapid.Check(t, func(t *rapid.T) {
		want := arguments.Draw(t, "args")
		object := any(&want).(runtime.Object)
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})

		var versioned Versioned
		require.NoError(t, schedscheme.Scheme.Convert(object.DeepCopyObject(), &versioned, nil))
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

func one[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

func drawValidArgs(t *rapid.T) *config.CapacityMixArgs {
	labelKey := rapid.StringMatching(`([a-z0-9]{1,10}\.[a-z]{1,3}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelValue := rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?`)
	rule := rapid.Custom(func(t *rapid.T) config.NodeRule {
		rule := config.NodeRule{
			Key:          labelKey.Draw(t, "key"),
			Operator:     one(t, "operator", config.NodeRuleIn, config.NodeRuleExists, config.NodeRuleAbsent),
			CapacityType: one(t, "type", config.CapacityTypeSpot, config.CapacityTypeOnDemand),
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
		BuiltinNodeRules:       config.BuiltinNodeRulesAppend,
		AnnotationPrefixes:     rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"berth.dev", "spotalis.io"}), 1, 2, rapid.ID).Draw(t, "prefixes"),
		SpreadSpotOver:         rapid.SliceOfNDistinct(labelKey, 1, 4, rapid.ID).Draw(t, "spread"),
		RankSampleBy:           one(t, "rank", config.RankSampleByLeastAllocated, config.RankSampleByMostAllocated, config.RankSampleByOff),
		InterruptionsNamespace: rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "interruptions"),
		NodeSampleSize:         rapid.OneOf(rapid.Just[int32](0), rapid.Int32Range(16, 1000)).Draw(t, "sample"),
		SyncTimeoutSeconds:     rapid.Int32Range(1, 600).Draw(t, "timeout"),
	}
	// An empty list is not the default: a file has to keep it.
	kind := rapid.Custom(func(t *rapid.T) config.OnePodKind {
		return config.OnePodKind{
			APIGroup: rapid.StringMatching(`[a-z]{1,8}\.[a-z]{1,3}`).Draw(t, "group"), Kind: rapid.StringMatching(`[A-Z][A-Za-z]{0,8}`).Draw(t, "kind"),
			SetLabel: rapid.OneOf(labelKey, rapid.Just("")).Draw(t, "set"),
		}
	})
	args.OnePodKinds = rapid.SliceOfNDistinct(kind, 0, 3, func(k config.OnePodKind) string { return k.APIGroup + k.Kind }).Draw(t, "kinds")
	if slices.Contains(args.AnnotationPrefixes, "spotalis.io") && rapid.Bool().Draw(t, "has namespaces") {
		args.SpotalisNamespaces = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 1, 3, rapid.ID).Draw(t, "namespaces")
	}
	if rapid.Bool().Draw(t, "has rules") {
		args.NodeRules = rapid.SliceOfN(rule, 1, 5).Draw(t, "rules")
		args.BuiltinNodeRules = one(t, "builtin", config.BuiltinNodeRulesAppend, config.BuiltinNodeRulesOff)
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
		SpotPercent:             rapid.Int32Range(0, 100).Draw(t, "spotPercent"),
		MinOnDemand:             rapid.Int32Range(0, 1000000).Draw(t, "minOnDemand"),
		MaxSpot:                 rapid.Ptr(rapid.Int32Range(0, 1000000), true).Draw(t, "maxSpot"),
		WhenSpotUnavailable:     one(t, "noSpot", config.WhenSpotUnavailableOnDemand, config.WhenSpotUnavailableWait),
		WhenOnDemandUnavailable: one(t, "noOnDemand", config.WhenOnDemandUnavailableWait, config.WhenOnDemandUnavailableSpot),
	}
	if mix.WhenSpotUnavailable == config.WhenSpotUnavailableOnDemand {
		mix.SpotWaitSeconds = rapid.Ptr(rapid.Int32Range(0, 86400), true).Draw(t, "wait")
	}

	return mix
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
